// What moves or follows the pointer, drawn over the still picture: levels, phases, flights, focus.

import { drawSign, extent } from "./glyphs.js";
import { along, arrowHead, course, covered, lengthOf, linkCourse, pauseBlocks, trace } from "./lines.js";

const KIND_ROLE = { data: "backend", chunk: "backend", request: "backend", ack: "management", cnp: "congestion", pause: "fault", resume: "frontend" };
const PREFIX = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];

export const quantity = (value, unit) => {
  if (!value) return `0 ${unit}`.trim();
  const [size, prefix] = PREFIX.find(([one]) => Math.abs(value) >= one * 0.9995) || PREFIX[PREFIX.length - 1];
  const short = value / size;
  return `${short.toFixed(Math.abs(short) < 9.995 ? 2 : Math.abs(short) < 99.95 ? 1 : 0)} ${prefix}${unit}`.trim();
};

export class Motion {
  constructor(model, sizes, theme, painter) {
    Object.assign(this, { model, sizes, theme, painter });
  }

  draw(c, camera, time, focus) {
    if (focus.node >= 0 || focus.link >= 0) this.neighbourhood(c, camera, focus);
    if (this.model.phases.n) this.phases(c, camera, time);
    for (const level of this.model.levels) this.level(c, camera, level, time);
    this.flights(c, camera, time);
    this.focus(c, camera, focus);
  }

  at(i, camera) {
    return [camera.x(this.model.u[i]), camera.y(this.model.v[i]), this.sizes.of(i, camera.z)];
  }

  // The links of the selected node stand out, and so do the nodes at their other ends.
  neighbourhood(c, camera, focus) {
    const { model, theme } = this;
    const links = focus.node >= 0 ? model.touching(focus.node) : [focus.link];
    if (this.painter.isFar(camera) && focus.node >= 0 && model.groupOf[focus.node] >= 0) return;
    c.save();
    c.strokeStyle = theme.focus;
    c.lineWidth = focus.node >= 0 ? 1.8 : 3.2;
    c.globalAlpha = links.length > 200 ? 0.4 : focus.node >= 0 ? 0.75 : 1;
    const dashed = Array.prototype.filter.call(links, (i) => model.links.state[i] === "down");
    const solid = Array.prototype.filter.call(links, (i) => model.links.state[i] !== "down");
    for (const [dash, some] of [[[5, 4], dashed], [[], solid]]) {
      c.setLineDash(dash);
      c.beginPath();
      for (const i of some.slice(0, 2000)) trace(c, linkCourse(model, this.sizes, i, camera));
      c.stroke();
    }
    c.restore();
    const ends = new Set();
    for (const i of links) { ends.add(model.links.source[i]); ends.add(model.links.target[i]); }
    if (ends.size < 400) for (const i of ends) if (this.sizes.of(i, camera.z) > 5.5) this.painter.glyph(c, camera, i);
  }

  phases(c, camera, time) {
    const { model, theme } = this;
    for (const p of model.phasesAt(time)) {
      const state = model.phases.state[p];
      const link = model.phases.target[p] - model.n;
      if (link >= 0) {
        const way = linkCourse(model, this.sizes, link, camera);
        const look = this.painter.look({ role: model.links.role[link], state, heat: -1, width: 2, style: "" });
        c.strokeStyle = look.colour; c.lineWidth = look.width + 1; c.setLineDash(look.dash);
        const [a, b] = [model.links.source[link], model.links.target[link]];
        this.part(c, way, covered(way, model.nodes.kind[a], this.sizes.of(a, camera.z)), 1 - covered(way, model.nodes.kind[b], this.sizes.of(b, camera.z)));
        c.setLineDash([]);
        const { x, y } = along(way, 0.5);
        drawSign(c, state, x, y, 7, theme);
      } else {
        const [x, y, r] = this.at(link + model.n, camera);
        const [wide, high] = extent(model.nodes.kind[link + model.n]);
        drawSign(c, state, x - wide * r, y - high * r, Math.max(6, r * 0.42), theme);
      }
    }
  }

  part(c, way, from, to) {
    c.beginPath();
    const start = along(way, from);
    c.moveTo(start.x, start.y);
    const steps = way.arc ? 16 : 1;
    for (let k = 1; k <= steps; k++) { const p = along(way, from + ((to - from) * k) / steps); c.lineTo(p.x, p.y); }
    c.stroke();
  }

  // A queue's filling with its threshold lines; beside any other kind of node, a bar.
  level(c, camera, level, time) {
    const { model, theme } = this;
    const [x, y, r] = this.at(level.node, camera);
    if (r < 6) return;
    const queue = model.nodes.kind[level.node] === "queue";
    const [w, h] = queue ? [1.5 * r - 3, 2.2 * r - 3] : [Math.max(5, 0.4 * r), 2 * r];
    const left = queue ? x - w / 2 : x + extent(model.nodes.kind[level.node])[0] * r + 5;
    const bottom = y + h / 2;
    const value = model.levelAt(level, time);
    const part = Math.max(0, Math.min(1, value / level.brim));
    const passed = level.marks.filter(([mark]) => value >= mark).length;
    if (!queue) { c.fillStyle = theme.card; c.strokeStyle = theme.quiet; c.lineWidth = 1; c.beginPath(); c.rect(left - 1, bottom - h - 1, w + 2, h + 2); c.fill(); c.stroke(); }
    c.fillStyle = theme.role(passed ? "congestion" : model.nodes.role[level.node] || "backend");
    c.globalAlpha = 0.85;
    c.beginPath();
    c.roundRect(left, bottom - part * h, w, part * h, queue ? [0, 0, 0.14 * r, 0.14 * r] : 0);
    c.fill();
    c.globalAlpha = 1;
    this.thresholds(c, level, { left, bottom, w, h, queue });
    if (r < 12) return;
    const text = quantity(value, level.unit);
    c.font = `600 12px ${theme.font}`;
    c.textAlign = queue ? "center" : "left"; c.textBaseline = "middle"; c.lineJoin = "round";
    c.strokeStyle = theme.card; c.lineWidth = 3.5; c.fillStyle = theme.ink;
    // Below the node's own label, which stands under nodes in the lower half.
    const ty = queue ? y + 1.12 * r + (model.v[level.node] < 0.5 ? 12 : 27) : y;
    const tx = queue ? x : left + w + 5;
    c.strokeText(text, tx, ty); c.fillText(text, tx, ty);
  }

  thresholds(c, level, { left, bottom, w, h, queue }) {
    const { theme } = this;
    // Texts of links keep off the names: see `blockMarks` of the labels.
    let above = Infinity;
    for (const [mark, label] of [...level.marks].sort((a, b) => a[0] - b[0])) {
      const ly = bottom - Math.min(1, mark / level.brim) * h;
      c.strokeStyle = theme.ink; c.lineWidth = 1.4; c.setLineDash([4, 2]);
      c.beginPath(); c.moveTo(left - 4, ly); c.lineTo(left + w + (queue ? 6 : 3), ly); c.stroke();
      c.setLineDash([]);
      if (h < 40 || above - ly < 11) continue;
      above = ly;
      c.font = `11px ${theme.font}`; c.textAlign = "left"; c.textBaseline = "middle"; c.lineJoin = "round";
      c.strokeStyle = theme.card; c.lineWidth = 3; c.strokeText(label, left + w + 9, ly);
      c.fillStyle = theme.ink; c.fillText(label, left + w + 9, ly);
    }
  }

  wayOf(i, camera) {
    const { model } = this;
    const { source, target, kind } = model.flights;
    const link = kind[i] === "cnp" ? undefined : model.linkBetween(source[i], target[i]);
    const [x0, y0] = this.at(source[i], camera);
    const [x1, y1] = this.at(target[i], camera);
    if (link === undefined) return course(x0, y0, x1, y1, true, { wide: kind[i] === "cnp" });
    // Traffic keeps to the right, so that both ways can be told apart.
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(-(y1 - y0) / length) * 5, ((x1 - x0) / length) * 5];
    return course(x0 + dx, y0 + dy, x1 + dx, y1 + dy, false);
  }

  flights(c, camera, time) {
    const { model, theme } = this;
    const active = model.flightsAt(time);
    const many = active.length > 400;
    const { start_s, end_s, source, target, kind, label, role } = model.flights;
    let labelled = 0;
    for (const i of active) {
      const way = this.wayOf(i, camera);
      const own = Math.min(0.1, 7 / (lengthOf(way) || 1));
      const from = covered(way, model.nodes.kind[source[i]], this.sizes.of(source[i], camera.z)) + own;
      const to = 1 - own - covered(way, model.nodes.kind[target[i]], this.sizes.of(target[i], camera.z));
      const gone = end_s[i] > start_s[i] ? (time - start_s[i]) / (end_s[i] - start_s[i]) : 1;
      const part = from + (to - from) * gone;
      const { x, y, turn } = along(way, part);
      if (x < -40 || y < -40 || x > camera.w + 40 || y > camera.h + 40) continue;
      c.fillStyle = c.strokeStyle = theme.role(role[i] || KIND_ROLE[kind[i]] || "backend");
      const room = Math.max(3, Math.min(8, 0.5 * Math.max(this.sizes.of(source[i], camera.z), this.sizes.of(target[i], camera.z))));
      const s = room * model.sizeOf(i);
      if (many) { c.fillRect(x - s / 2, y - s / 2, s, s); continue; }
      this.token(c, kind[i], { way, from, part, x, y, turn, s });
      if (label[i] && lengthOf(way) > 70 && labelled++ < 60) this.tag(c, label[i], x, y - s - 8);
    }
  }

  token(c, kind, { way, from, part, x, y, turn, s }) {
    const { theme } = this;
    c.lineWidth = 1.5;
    if (kind === "cnp") {
      // A CNP goes from end to end: the dashed arc it has left behind shows where from.
      c.setLineDash([5, 4]);
      this.part(c, way, from, part);
      c.setLineDash([]);
      c.lineWidth = 2.2;
      arrowHead(c, x, y, turn, 10, true);
      return;
    }
    if (kind === "pause" || kind === "resume") { pauseBlocks(c, way, Math.max(from, part - 24 / (lengthOf(way) || 1)), part); return; }
    c.save();
    c.translate(x, y);
    if (kind !== "ack") c.rotate(turn);
    c.beginPath();
    if (kind === "ack") c.arc(0, 0, Math.max(2.5, s * 0.5), 0, 2 * Math.PI);
    else c.roundRect(-s, -s * 0.75, 2 * s, 1.5 * s, 2.5);
    if (kind === "request") { c.fillStyle = theme.card; c.fill(); c.stroke(); }
    else { c.fill(); c.strokeStyle = theme.card; c.lineWidth = 1; c.stroke(); }
    c.restore();
  }

  tag(c, text, x, y) {
    const { theme } = this;
    c.font = `10px ${theme.font}`; c.textAlign = "center"; c.textBaseline = "middle"; c.lineJoin = "round";
    c.strokeStyle = theme.card; c.lineWidth = 3; c.strokeText(text, x, y);
    c.fillStyle = theme.ink; c.fillText(text, x, y);
  }

  focus(c, camera, { node, group, hover, keyboard }) {
    const { model, theme } = this;
    const ring = (i, width, alpha) => {
      const [x, y, r] = this.at(i, camera);
      const [wide, high] = extent(model.nodes.kind[i]);
      c.globalAlpha = alpha;
      c.strokeStyle = theme.focus;
      c.lineWidth = width;
      c.beginPath();
      c.roundRect(x - wide * r - 4, y - high * r - 4, 2 * wide * r + 8, 2 * high * r + 8, 6);
      c.stroke();
      c.globalAlpha = 1;
    };
    if (hover >= 0 && hover !== node) ring(hover, 1.5, 0.5);
    if (node >= 0) {
      ring(node, keyboard ? 3 : 2.2, 1);
      const [x, y, r] = this.at(node, camera);
      const high = extent(model.nodes.kind[node])[1] * r;
      const down = model.v[node] >= 0.5 ? 1 : -1;
      if (r < 14 && model.nodes.label[node]) this.plate(c, camera, model.nodes.label[node], x, y + down * (high + 16));
    }
    if (group >= 0) {
      const box = this.painter.frameBox(group, camera);
      if (!box) return;
      c.strokeStyle = theme.focus;
      c.lineWidth = 3;
      c.beginPath();
      c.roundRect(box.x - 3, box.y - 3, box.w + 6, box.h + 6, 10);
      c.stroke();
    }
  }

  // The selected node's name, readable over whatever is there.
  plate(c, camera, text, x, y) {
    const { theme } = this;
    c.font = `600 12px ${theme.font}`; c.textAlign = "center"; c.textBaseline = "middle";
    const half = c.measureText(text).width / 2 + 6;
    const cx = Math.max(half + 2, Math.min(camera.w - half - 2, x));
    c.beginPath(); c.roundRect(cx - half, y - 10, 2 * half, 20, 6);
    c.fillStyle = theme.card; c.fill(); c.strokeStyle = theme.focus; c.lineWidth = 1; c.stroke();
    c.fillStyle = theme.ink; c.fillText(text, cx, y + 0.5);
  }
}
