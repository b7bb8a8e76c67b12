// The still picture: frames, links, nodes, labels. It is painted in small pieces (a generator), so
// that a large scene never holds up a frame; what moves is drawn over it by motion.js.

import { drawGlyph, drawSign, extent } from "./glyphs.js";
import { along, arrowHead, clipped, covered, cross, lengthOf, linkCourse, pauseBlocks, trace } from "./lines.js";
import { Labels } from "./labels.js";
import { ARC } from "./model.js";

const FULL = 5.5; // radius from which a node has its glyph
const NAMED = 6; // and from which it has its label
const MOST_LINKS = 4000; // drawn in one picture; more are thinned evenly
const DRAFT_LINKS = 1200; // and while the view moves
const CROWD = 500; // links from which plain ones are hairlines, which are drawn many times faster
const MOST_PORTS = 60; // links in the view up to which their ports are numbered
const PIECE = 100; // segments between two looks at the clock
const LOOKED = 8000; // links looked at between two looks at the clock

export class Painter {
  constructor(model, sizes, theme) {
    Object.assign(this, { model, sizes, theme });
    this.sprites = new Map();
    this.batchLinks();
  }

  // Links that look alike are drawn in one stroke.
  batchLinks() {
    const { role, state, load, count, style, n } = this.model.links;
    const found = new Map();
    for (let i = 0; i < n; i++) {
      const known = load[i] !== null;
      const heat = known ? Math.round(load[i] * 20) : -1;
      const width = 1.2 + Math.min(1.6, Math.log2(Math.max(1, count[i])) * 0.3) + (known ? 1.6 * Math.min(1, load[i]) : 0);
      const key = `${role[i]}|${state[i]}|${heat}|${Math.round(width * 4)}|${style[i]}`;
      const batch = found.get(key);
      if (batch) batch.links.push(i);
      else found.set(key, { role: role[i], state: state[i], heat, width, style: style[i], links: [i] });
    }
    const rank = { "": 0, marked: 1, slow: 1, paused: 2, hot: 2, down: 3 };
    this.batches = [...found.values()].sort((a, b) => rank[a.state] - rank[b.state] || a.heat - b.heat);
  }

  look(batch) {
    const { theme } = this;
    const state = batch.state;
    const special = batch.style === "pfc" || batch.style === "cnp";
    let colour = theme.thin(batch.role);
    if (batch.role === "fault" || batch.role === "congestion") colour = theme.role(batch.role);
    if (special) colour = theme.role(batch.role || "congestion");
    if (batch.heat >= 0) colour = theme.heat(batch.heat / 20);
    if (state === "hot" && batch.heat < 0) colour = theme.role("congestion");
    if (state === "down" || state === "paused") colour = theme.role("fault");
    if (state === "marked") colour = theme.role("congestion");
    const dash = state === "down" ? [5, 4] : state === "slow" ? [1, 4] : state === "paused" ? [9, 4, 2, 4] : batch.style === "dashed" || batch.style === "cnp" ? [6, 5] : [];
    return { colour, dash, width: batch.width + (state === "hot" ? 1.8 : state === "down" ? 0.6 : batch.style === "cnp" ? 0.7 : 0) };
  }

  // How much there would be to draw: the stage draws little at once and much in pieces.
  weight(camera) {
    if (this.isFar(camera)) return this.model.groups.n + this.model.bundles.length;
    return Math.min(this.model.links.n, MOST_LINKS) + Math.min(this.model.n, 4000);
  }

  isFar(camera) {
    return this.model.far && this.sizes.fine * camera.z < 1.9;
  }

  *paint(c, camera, draft) {
    const { model } = this;
    this.most = draft ? DRAFT_LINKS : MOST_LINKS;
    const far = this.isFar(camera);
    c.lineCap = "butt";
    this.frames(c, camera, far);
    yield;
    if (far) {
      this.bundles(c, camera);
      yield;
      this.tiles(c, camera);
      yield* this.nodes(c, camera, model.loose);
      return;
    }
    yield* this.links(c, camera);
    const seen = this.visible(camera);
    yield* this.nodes(c, camera, seen);
    yield* this.labels(c, camera, seen);
  }

  visible(camera) {
    const [mx, my] = [40 / (camera.bw * camera.z), 40 / (camera.bh * camera.z)];
    return this.model.within(camera.u(0) - mx, camera.v(0) - my, camera.u(camera.w) + mx, camera.v(camera.h) + my);
  }

  frameBox(g, camera) {
    const box = this.model.boxes[g];
    if (!box.n) return null;
    if (this.isFar(camera)) {
      const [x, y] = [camera.x(box.u0) - 4, camera.y(box.v0) - 4];
      return { x, y, w: camera.x(box.u1) + 4 - x, h: camera.y(box.v1) + 4 - y };
    }
    const pad = 10 + Math.min(16, 1.15 * this.sizes.of(box.some, camera.z));
    const [x0, y0, x1, y1] = [camera.x(box.u0) - pad, camera.y(box.v0) - pad - 8, camera.x(box.u1) + pad, camera.y(box.v1) + pad + 12];
    return { x: x0, y: y0, w: x1 - x0, h: y1 - y0 };
  }

  // The frame's caption: an arrow that opens or closes it, its name, and how many are in it.
  captionOf(g, camera) {
    const box = this.frameBox(g, camera);
    if (!box) return null;
    const { label, count } = this.model.groups;
    return { x: box.x, y: box.y - 20, w: box.w, h: 20, text: label[g], count: count[g] };
  }

  frames(c, camera, far) {
    const { model, theme } = this;
    for (let g = 0; g < model.groups.n; g++) {
      const box = this.frameBox(g, camera);
      if (!box || box.x > camera.w || box.y > camera.h || box.x + box.w < 0 || box.y + box.h < 0) continue;
      if (far) continue;
      c.beginPath();
      c.roundRect(box.x, box.y, box.w, box.h, 9);
      c.globalAlpha = theme.dark ? 0.16 : 0.1;
      c.fillStyle = theme.quiet;
      if (box.w < 3 * camera.w) c.fill();
      c.globalAlpha = 1;
      c.strokeStyle = theme.line;
      c.lineWidth = 1;
      c.setLineDash(model.groups.collapsed[g] ? [4, 3] : []);
      c.stroke();
      c.setLineDash([]);
    }
  }

  bundles(c, camera) {
    const { model, theme } = this;
    const centre = (end) => {
      if (end >= model.groups.n) return [camera.x(model.u[end - model.groups.n]), camera.y(model.v[end - model.groups.n])];
      const box = model.boxes[end];
      return [camera.x((box.u0 + box.u1) / 2), camera.y((box.v0 + box.v1) / 2)];
    };
    const step = Math.ceil(model.bundles.length / MOST_LINKS);
    c.globalAlpha = model.bundles.length > 600 ? 0.45 : 0.8;
    const runs = new Map();
    model.bundles.forEach((bundle, i) => {
      if (i % step && !bundle.down) return;
      const key = bundle.down ? "fault" : bundle.role;
      if (!runs.has(key)) runs.set(key, []);
      runs.get(key).push(bundle);
    });
    for (const [role, bundles] of runs) {
      c.strokeStyle = role === "fault" ? theme.role(role) : theme.thin(role);
      c.setLineDash(role === "fault" ? [5, 4] : []);
      c.lineWidth = 1 + Math.min(3, Math.log2(bundles[0].count) * 0.3);
      c.beginPath();
      for (const { a, b } of bundles) {
        c.moveTo(...centre(a));
        c.lineTo(...centre(b));
      }
      c.stroke();
    }
    c.globalAlpha = 1;
    c.setLineDash([]);
  }

  // Groups from afar: a tile each, with its name and count where there is room.
  tiles(c, camera) {
    const { model, theme } = this;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let g = 0; g < model.groups.n; g++) {
      const box = this.frameBox(g, camera);
      if (!box || box.x > camera.w || box.y > camera.h || box.x + box.w < 0 || box.y + box.h < 0) continue;
      c.beginPath();
      c.roundRect(box.x, box.y, box.w, box.h, 8);
      c.fillStyle = theme.tint("", 0.12);
      c.fill();
      c.strokeStyle = theme.quiet;
      c.lineWidth = 1;
      c.stroke();
      const [x, y] = [box.x + box.w / 2, box.y + box.h / 2];
      const text = model.groups.label[g];
      c.font = `600 12px ${theme.font}`;
      c.fillStyle = theme.ink;
      const fits = c.measureText(text).width < box.w - 8;
      if (fits) c.fillText(text, x, y - (box.h > 34 ? 8 : 0));
      if (box.h > 34 || !fits) this.badge(c, x, fits ? y + 11 : y, model.groups.count[g], theme.quiet, true);
    }
  }

  // Links in the view; `down` and the like are never thinned away.
  *links(c, camera) {
    const { model, theme, sizes } = this;
    const [u0, v0, u1, v1] = [camera.u(-30), camera.v(-30), camera.u(camera.w + 30), camera.v(camera.h + 30)];
    const { source, target } = model.links;
    const { u, v } = model;
    const seen = (i) => {
      const [a, b] = [source[i], target[i]];
      if (model.shape[i] === ARC) return true;
      return !((u[a] < u0 && u[b] < u0) || (u[a] > u1 && u[b] > u1) || (v[a] < v0 && v[b] < v0) || (v[a] > v1 && v[b] > v1));
    };
    let [total, looked] = [0, 0];
    const inView = [];
    for (const batch of this.batches) {
      const links = [];
      for (const i of batch.links) {
        if (seen(i)) links.push(i);
        if (++looked % LOOKED === 0) yield;
      }
      total += links.length;
      inView.push(links);
    }
    yield;
    const stride = Math.ceil(total / this.most);
    this.shown = total;
    const crowd = Math.min(1, Math.max(0.16, 8 / Math.sqrt(total / stride)));
    for (let b = 0; b < this.batches.length; b++) {
      const batch = this.batches[b];
      const plain = batch.state === "" && batch.style === "";
      const { colour, dash, width } = this.look(batch);
      c.strokeStyle = c.fillStyle = colour;
      c.lineWidth = plain && total > CROWD ? Math.min(width, 1 / this.ratio) : width;
      c.setLineDash(dash);
      c.globalAlpha = plain && batch.heat < 0 ? crowd : 1;
      let piece = 0;
      c.beginPath();
      for (const i of inView[b]) {
        if (stride > 1 && batch.state === "" && (Math.imul(i, 2654435761) >>> 0) % stride) continue;
        const way = linkCourse(model, sizes, i, camera);
        if (plain && !way.arc) clipped(c, way, camera.w, camera.h);
        else if (batch.style !== "pfc") trace(c, way);
        if (++piece % PIECE === 0) {
          c.stroke();
          yield;
          c.beginPath();
        }
      }
      c.stroke();
      c.setLineDash([]);
      c.globalAlpha = 1;
      if (!plain) yield* this.signs(c, camera, batch, inView[b]);
    }
  }

  // What a link wears beside its line: heads, blocks, crosses.
  *signs(c, camera, batch, links) {
    const { model, sizes, theme } = this;
    const { colour } = this.look(batch);
    let piece = 0;
    for (const i of links) {
      const way = linkCourse(model, sizes, i, camera);
      const length = lengthOf(way);
      if (length < 14) continue;
      const [a, b] = [model.links.source[i], model.links.target[i]];
      const [from, to] = [covered(way, model.nodes.kind[a], sizes.of(a, camera.z)), 1 - covered(way, model.nodes.kind[b], sizes.of(b, camera.z))];
      c.strokeStyle = c.fillStyle = colour;
      if (batch.style === "pfc") pauseBlocks(c, way, from, to);
      else if (batch.style === "arrow" || batch.style === "arc" || batch.style === "cnp") {
        const { x, y, turn } = along(way, to);
        c.lineWidth = 1.6;
        arrowHead(c, x, y, turn, batch.style === "cnp" ? 10 : 8, batch.style === "cnp");
      }
      if (batch.state && (links.length < 400 || batch.state === "down")) {
        const { x, y } = along(way, 0.5);
        if (batch.state === "down") {
          const s = links.length > 60 ? 3.5 : 5;
          c.strokeStyle = theme.card; c.lineWidth = 5; cross(c, x, y, s);
          c.strokeStyle = colour; c.lineWidth = 2.2; cross(c, x, y, s);
        } else if (links.length < 60) drawSign(c, batch.state, x, y, 6, theme);
      }
      if (++piece % 60 === 0) yield;
    }
  }

  *nodes(c, camera, seen) {
    const { model, sizes, theme } = this;
    const small = new Map();
    const large = [];
    for (const i of seen) {
      const r = sizes.of(i, camera.z);
      if (r >= FULL) { large.push(i); continue; }
      const key = `${model.nodes.role[i]}|${model.nodes.state[i] === "down" ? "down" : ""}`;
      if (!small.has(key)) small.set(key, []);
      small.get(key).push(i);
    }
    let piece = 0;
    for (const [key, nodes] of small) {
      const [role, state] = key.split("|");
      c.fillStyle = theme.role(state ? "fault" : role);
      for (const i of nodes) {
        const r = sizes.of(i, camera.z);
        const [x, y] = [camera.x(model.u[i]), camera.y(model.v[i])];
        const [wide, high] = r > 2 ? extent(model.nodes.kind[i]) : [1, 1];
        if (state) { c.fillRect(x - r, y - 1, 2 * r, 2); c.fillRect(x - 1, y - r, 2, 2 * r); }
        else c.fillRect(x - wide * r, y - high * r, 2 * wide * r, 2 * high * r);
        if (++piece % (4 * PIECE) === 0) yield;
      }
    }
    for (const i of large) {
      this.glyph(c, camera, i);
      if (++piece % 100 === 0) yield;
    }
  }

  glyph(c, camera, i) {
    const { model, sizes, theme } = this;
    const { kind, role, state, count } = model.nodes;
    const r = Math.round(sizes.of(i, camera.z) * 2) / 2;
    const [x, y] = [camera.x(model.u[i]), camera.y(model.v[i])];
    const key = `${kind[i]}|${role[i]}|${state[i]}|${r}`;
    let sprite = this.sprites.get(key);
    if (!sprite) {
      const side = Math.ceil(3 * r + 6);
      sprite = document.createElement("canvas");
      sprite.width = sprite.height = Math.ceil(side * this.ratio);
      const pen = sprite.getContext("2d");
      pen.scale(this.ratio, this.ratio);
      pen.translate(side / 2, side / 2);
      drawGlyph(pen, kind[i], role[i], state[i], r, theme);
      sprite.side = side;
      this.sprites.set(key, sprite);
    }
    const snap = (value) => Math.round(value * this.ratio) / this.ratio;
    c.drawImage(sprite, snap(x - sprite.side / 2), snap(y - sprite.side / 2), sprite.side, sprite.side);
    const [wide, high] = extent(kind[i]);
    if (count[i] > 1 && r >= FULL) this.badge(c, x + wide * r, y - high * r, count[i], theme.role(role[i]));
    if (state[i]) drawSign(c, state[i], x - wide * r, y - high * r, Math.max(5, r * 0.38), theme);
  }

  badge(c, x, y, count, colour, plain = false) {
    const { theme } = this;
    const text = plain ? count.toLocaleString("en") : `×${count.toLocaleString("en")}`;
    c.font = `600 10px ${theme.font}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    const wide = c.measureText(text).width + 8;
    c.beginPath();
    c.roundRect(x - wide / 2, y - 7, wide, 14, 7);
    c.fillStyle = theme.card;
    c.fill();
    c.strokeStyle = colour;
    c.lineWidth = 1.2;
    c.stroke();
    c.fillStyle = theme.ink;
    c.fillText(text, x, y + 0.5);
  }

  *labels(c, camera, seen) {
    const { model, sizes } = this;
    const labels = new Labels(c, camera, this.theme);
    this.captions(c, camera, labels);
    const named = seen.filter((i) => sizes.of(i, camera.z) >= NAMED);
    if (named.length > 4000) return;
    for (const i of named) labels.block(model, i, camera.x(model.u[i]), camera.y(model.v[i]), sizes.of(i, camera.z));
    const rank = { core: 0, spine: 1, leaf: 2, switch: 2 };
    const order = [...named].sort((a, b) => (rank[model.nodes.kind[a]] ?? 3) - (rank[model.nodes.kind[b]] ?? 3) || a - b);
    let piece = 0;
    for (const i of order) {
      labels.name(model, i, camera.x(model.u[i]), camera.y(model.v[i]), sizes.of(i, camera.z), sizes.pitch[i] * camera.z);
      if (++piece % 60 === 0) yield;
    }
    yield* this.linkLabels(c, camera, labels);
  }

  captions(c, camera, labels) {
    const { model, theme } = this;
    for (let g = 0; g < model.groups.n; g++) {
      const caption = this.captionOf(g, camera);
      if (!caption || caption.x > camera.w || caption.y > camera.h || caption.x + caption.w < 0) continue;
      const opens = this.toggles && !model.groups.fixed[g];
      labels.caption(caption, opens ? (model.groups.collapsed[g] ? "closed" : "open") : "", theme);
    }
  }

  // Labels of links, and port numbers at the device that names the cable, where there is room.
  *linkLabels(c, camera, labels) {
    const { model, sizes } = this;
    if (this.shown > 400) return;
    const { id, label, source, target } = model.links;
    let piece = 0;
    for (let i = 0; i < model.links.n; i++) {
      const way = linkCourse(model, sizes, i, camera);
      if (label[i]) labels.onLink(way, label[i], model.lane[i] ? Math.sign(model.lane[i]) * (source[i] < target[i] ? -1 : 1) : 0);
      const port = id[i].match(/^(.*):port-(\d+)$/);
      if (port && this.shown <= MOST_PORTS && lengthOf(way) > 150 && Math.min(sizes.of(source[i], camera.z), sizes.of(target[i], camera.z)) > 13) {
        const end = model.nodes.id[source[i]] === port[1] ? 0 : 1;
        const node = end ? target[i] : source[i];
        const part = (sizes.of(node, camera.z) * 1.3 + 13) / lengthOf(way);
        labels.port(along(way, end ? 1 - part : part), port[2]);
      }
      if (++piece % 100 === 0) yield;
    }
  }
}
