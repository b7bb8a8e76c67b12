// Texts that never run into each other: each takes its place if nothing is there yet.

import { extent } from "./glyphs.js";
import { along, lengthOf } from "./lines.js";

const CELL = 4;

// Where the names of a queue's thresholds begin, and what of the queue can be filled.
export const markPlace = (x, y, r) => ({ left: x + 0.75 * r + 7.5, bottom: y + 1.1 * r - 1.5, h: 2.2 * r - 3 });

export class Labels {
  constructor(c, camera, theme) {
    Object.assign(this, { c, theme, w: camera.w, h: camera.h, aspect: 0 });
    this.across = Math.ceil(camera.w / CELL) + 2;
    this.down = Math.ceil(camera.h / CELL) + 2;
    this.taken = new Uint8Array(this.across * this.down);
    this.widths = new Map();
  }

  cells(x0, y0, x1, y1) {
    const clamp = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value / CELL) + 1));
    return [clamp(x0, this.across), clamp(y0, this.down), clamp(x1, this.across), clamp(y1, this.down)];
  }

  free(x0, y0, x1, y1) {
    if (x1 < 0 || y1 < 0 || x0 > this.w || y0 > this.h) return false;
    const [a, b, c, d] = this.cells(x0, y0, x1, y1);
    for (let y = b; y <= d; y++) for (let x = a; x <= c; x++) if (this.taken[y * this.across + x]) return false;
    return true;
  }

  take(x0, y0, x1, y1) {
    const [a, b, c, d] = this.cells(x0, y0, x1, y1);
    for (let y = b; y <= d; y++) this.taken.fill(1, y * this.across + a, y * this.across + c + 1);
  }

  // A node, with its badge and its sign, is no place for a text.
  block(model, i, x, y, r) {
    const { kind, count, state } = model.nodes;
    const [wide, high] = extent(kind[i]);
    this.take(x - wide * r, y - high * r, x + wide * r, y + high * r);
    if (state[i]) this.take(x - wide * r - 6, y - high * r - 6, x - wide * r + 6, y - high * r + 6);
    const level = model.levelOf.get(i);
    if (level && kind[i] !== "queue") this.take(x + wide * r + 2, y - r + 3, x + wide * r + 62, y + r - 3);
    if (level && kind[i] === "queue") this.blockMarks(level, x, y, r);
    if (count[i] < 2) return;
    const half = this.width(`×${count[i].toLocaleString("en")}`, `600 10px ${this.theme.font}`) / 2 + 4;
    this.take(x + wide * r - half, y - high * r - 7, x + wide * r + half, y - high * r + 7);
  }

  // Nor are the names of a queue's thresholds, which are written anew with every frame.
  blockMarks(level, x, y, r) {
    const { left, bottom, h } = markPlace(x, y, r);
    if (h < 40) return;  // too low for them
    for (const [mark, label] of level.marks) {
      const ly = bottom - Math.min(1, mark / level.brim) * h;
      this.take(left, ly - 7, left + this.width(label, `11px ${this.theme.font}`) + 1, ly + 7);
    }
  }

  width(text, font) {
    const key = font + text;
    let width = this.widths.get(key);
    if (width === undefined) {
      this.c.font = font;
      this.widths.set(key, (width = this.c.measureText(text).width));
    }
    return width;
  }

  write(text, x, y, font, colour, halo = true) {
    const { c, theme } = this;
    c.font = font;
    c.textAlign = "center";
    c.textBaseline = "middle";
    if (halo) {
      c.lineJoin = "round";
      c.lineWidth = 3.5;
      c.strokeStyle = theme.card;
      c.strokeText(text, x, y);
    }
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }

  // The label of a node: below it in the lower half, above it in the upper one, else on the other
  // side; where the whole does not fit, its number alone.
  name(model, i, x, y, r, pitch) {
    const font = `${r > 13 ? 12 : 11}px ${this.theme.font}`;
    const full = model.nodes.label[i];
    const number = full.match(/\d+$/);
    const [wide, high] = extent(model.nodes.kind[i]);
    const away = high * r + 10.5;
    const ring = model.aspect > 0 && Math.abs(model.u[i] - 0.5) > 1.6 * Math.abs(model.v[i] - 0.5);
    const first = model.v[i] < 0.5 ? -1 : 1;
    // In a row at the edge that is too narrow for names, all of it has numbers; further in, names
    // stand above and below in turn.
    const short = number && number[0] !== full;
    const tight = short && Math.abs(model.v[i] - 0.5) > 0.35 && this.width(full, font) + 6 > pitch;
    for (const text of tight ? [number[0]] : short ? [full, number[0]] : [full]) {
      if (!text) continue;
      const half = this.width(text, font) / 2;
      const places = [[0, first * away], [0, -first * away]];
      // Over a badge or sign, if not beside it.
      if (model.nodes.count[i] > 1 || model.nodes.state[i]) places.splice(1, 0, [0, first * (away + 9)]);
      if (ring) places.unshift([Math.sign(model.u[i] - 0.5) * (wide * r + half + 6), 0]);
      else if (model.n < 40) places.push([wide * r + half + 5, 0]);
      for (const [dx, dy] of places) {
        // At the edge of the view a label moves in a little.
        const aside = Math.max(half + 3, Math.min(this.w - half - 3, x + dx));
        const [cx, cy] = [dx === 0 && Math.abs(aside - x) < half ? aside : x + dx, y + dy];
        if (cx - half < 2 || cx + half > this.w - 2 || !this.free(cx - half - 1, cy - 6, cx + half + 1, cy + 6)) continue;
        this.take(cx - half - 2, cy - 6, cx + half + 2, cy + 6);
        this.write(text, cx, cy, font, this.theme.ink);
        return;
      }
    }
  }

  onLink(way, text, side0 = 0) {
    const font = `11px ${this.theme.font}`;
    const half = this.width(text, font) / 2;
    if (lengthOf(way) < 2 * half + 24) return;
    for (const part of [0.5, 0.36, 0.64]) {
      const point = along(way, part);
      // Beside the line, above it as far as there is an above; away from its neighbour in a lane.
      const [nx, ny] = [Math.sin(point.turn), -Math.cos(point.turn)];
      const side = (side0 || (ny <= 0 ? 1 : -1)) * (9 + half * Math.abs(nx) * 0.8);
      const [x, y] = [point.x + nx * side, point.y + ny * side];
      if (!this.free(x - half - 2, y - 7, x + half + 2, y + 7)) continue;
      this.take(x - half - 2, y - 7, x + half + 2, y + 7);
      this.write(text, x, y, font, this.theme.ink);
      return;
    }
  }

  port({ x, y }, text) {
    const font = `10px ${this.theme.font}`;
    const half = this.width(text, font) / 2;
    if (!this.free(x - half, y - 5, x + half, y + 5)) return;
    this.take(x - half, y - 5, x + half, y + 5);
    this.write(text, x, y, font, this.theme.quiet);
  }

  // A frame's caption stays in the view while any of its frame is.
  caption({ x, y, w, text, count }, toggle, theme) {
    const { c } = this;
    const font = `600 12px ${theme.font}`;
    const left = Math.max(4, x) + (toggle ? 20 : 4);
    const room = Math.min(this.w, x + w) - left - 2;
    const number = count > 0 ? count.toLocaleString("en") : "";
    const small = `10px ${theme.font}`;
    const badge = number ? this.width(number, small) + 12 : 0;
    const cy = y + 10;
    if (toggle) {
      const cx = left - 11;
      c.strokeStyle = theme.ink;
      c.lineWidth = 1.8;
      c.lineCap = c.lineJoin = "round";
      c.beginPath();
      if (toggle === "closed") { c.moveTo(cx - 2.5, cy - 4.5); c.lineTo(cx + 2.5, cy); c.lineTo(cx - 2.5, cy + 4.5); }
      else { c.moveTo(cx - 4.5, cy - 2.5); c.lineTo(cx, cy + 2.5); c.lineTo(cx + 4.5, cy - 2.5); }
      c.stroke();
      c.lineCap = "butt";
    }
    const short = text.match(/\d+$/);
    const shown = this.width(text, font) + badge <= room ? text : short && this.width(short[0], font) <= room ? short[0] : "";
    if (!shown) return;
    const wide = this.width(shown, font);
    this.write(shown, left + wide / 2, cy, font, theme.ink, false);
    if (number && wide + badge + 6 <= room) {
      c.beginPath();
      c.roundRect(left + wide + 6, cy - 7, badge - 2, 14, 7);
      c.fillStyle = theme.line;
      c.globalAlpha = 0.6;
      c.fill();
      c.globalAlpha = 1;
      this.write(number, left + wide + 5 + badge / 2, cy + 0.5, small, theme.ink, false);
    }
    this.take(left - 16, cy - 8, left + wide + badge + 4, cy + 8);
  }
}
