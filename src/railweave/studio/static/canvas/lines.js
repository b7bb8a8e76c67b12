// The course of a link on the screen, and what is drawn along it.

import { extent } from "./glyphs.js";
import { ARC } from "./model.js";

// Bulge of an arc, as part of its length and in pixels; of one from end to end, which passes by
// what stands between.
const BULGE = [0.2, 80];
const WIDE = [0.28, 180];

// From (x0, y0) to (x1, y1), bent towards a control point (mx, my) where it is an arc.
export const course = (x0, y0, x1, y1, arc, { side = 1, wide = false } = {}) => {
  if (!arc) return { x0, y0, x1, y1, arc };
  const [most, pixels] = wide ? WIDE : BULGE;
  const part = 2 * side * Math.min(most, pixels / (Math.hypot(x1 - x0, y1 - y0) || 1));
  return { x0, y0, x1, y1, arc, mx: (x0 + x1) / 2 + (y1 - y0) * part, my: (y0 + y1) / 2 - (x1 - x0) * part };
};

export const linkCourse = (model, sizes, link, camera) => {
  const [a, b] = [model.links.source[link], model.links.target[link]];
  let [x0, y0, x1, y1] = [camera.x(model.u[a]), camera.y(model.v[a]), camera.x(model.u[b]), camera.y(model.v[b])];
  const lane = model.lane[link];
  if (lane) {
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    // Lanes keep their side whichever way round a link is written.
    const side = a < b ? 1 : -1;
    const off = (side * lane * Math.min(7, 0.55 * Math.min(sizes.of(a, camera.z), sizes.of(b, camera.z)))) / length;
    const [dx, dy] = [-(y1 - y0) * off, (x1 - x0) * off];
    x0 += dx; x1 += dx; y0 += dy; y1 += dy;
  }
  // An arc without a direction bends into the drawing; the others keep to one side, so that there
  // and back can be told apart.
  const style = model.links.style[link];
  const inwards = style === "curve" && (x1 > x0) === (model.v[a] + model.v[b] < 1);
  return course(x0, y0, x1, y1, model.shape[link] === ARC, { side: inwards ? -1 : 1, wide: style === "cnp" });
};

export const trace = (c, way) => {
  c.moveTo(way.x0, way.y0);
  if (way.arc) c.quadraticCurveTo(way.mx, way.my, way.x1, way.y1);
  else c.lineTo(way.x1, way.y1);
};

// The part of a straight way that is in the view: what is far outside costs time to draw too.
export const clipped = (c, { x0, y0, x1, y1 }, w, h) => {
  const [dx, dy] = [x1 - x0, y1 - y0];
  let [from, to] = [0, 1];
  for (const [step, room] of [[-dx, x0 + 8], [dx, w + 8 - x0], [-dy, y0 + 8], [dy, h + 8 - y0]]) {
    if (step === 0) { if (room < 0) return; continue; }
    const part = room / step;
    if (step < 0) from = Math.max(from, part);
    else to = Math.min(to, part);
  }
  if (from >= to) return;
  c.moveTo(x0 + from * dx, y0 + from * dy);
  c.lineTo(x0 + to * dx, y0 + to * dy);
};

// The point at a part 0..1 of the way, and the direction there.
export const along = (way, part) => {
  if (!way.arc) {
    return {
      x: way.x0 + (way.x1 - way.x0) * part, y: way.y0 + (way.y1 - way.y0) * part,
      turn: Math.atan2(way.y1 - way.y0, way.x1 - way.x0),
    };
  }
  const rest = 1 - part;
  const bend = (a, m, b) => rest * rest * a + 2 * rest * part * m + part * part * b;
  const slope = (a, m, b) => rest * (m - a) + part * (b - m);
  return {
    x: bend(way.x0, way.mx, way.x1), y: bend(way.y0, way.my, way.y1),
    turn: Math.atan2(slope(way.y0, way.my, way.y1), slope(way.x0, way.mx, way.x1)),
  };
};

export const lengthOf = (way) => {
  const straight = Math.hypot(way.x1 - way.x0, way.y1 - way.y0);
  return way.arc ? straight * 1.1 : straight;
};

// The part of the way that a node of this kind and radius covers at an end.
export const covered = (way, kind, r) => {
  const [wide, high] = extent(kind);
  return Math.min(0.45, (Math.max(wide, high) * r + 3) / (lengthOf(way) || 1));
};

export const arrowHead = (c, x, y, turn, size, open = false) => {
  c.save();
  c.translate(x, y);
  c.rotate(turn);
  c.setLineDash([]);
  c.beginPath();
  c.moveTo(-size, -size * 0.6); c.lineTo(0, 0); c.lineTo(-size, size * 0.6);
  if (open) c.stroke();
  else { c.closePath(); c.fill(); }
  c.restore();
};

export const cross = (c, x, y, size) => {
  c.beginPath();
  c.moveTo(x - size, y - size); c.lineTo(x + size, y + size);
  c.moveTo(x + size, y - size); c.lineTo(x - size, y + size);
  c.stroke();
};

// PFC: solid blocks, each with a head, one after another along one hop.
export const pauseBlocks = (c, way, from, to) => {
  const length = lengthOf(way) * (to - from);
  const blocks = Math.max(1, Math.floor(length / 22));
  for (let i = 0; i < blocks; i++) {
    const { x, y, turn } = along(way, from + ((i + 0.5) / blocks) * (to - from));
    c.save();
    c.translate(x, y); c.rotate(turn);
    c.beginPath();
    c.rect(-9, -3.2, 9, 6.4);
    c.moveTo(0, -6); c.lineTo(8, 0); c.lineTo(0, 6); c.closePath();
    c.fill();
    c.restore();
  }
};

// Squared distance from a point to a way.
export const distance2 = (way, x, y) => {
  let least = Infinity;
  const steps = way.arc ? 16 : 1;
  let before = along(way, 0);
  for (let i = 1; i <= steps; i++) {
    const after = along(way, i / steps);
    const [dx, dy] = [after.x - before.x, after.y - before.y];
    const part = Math.max(0, Math.min(1, ((x - before.x) * dx + (y - before.y) * dy) / (dx * dx + dy * dy || 1)));
    least = Math.min(least, (before.x + part * dx - x) ** 2 + (before.y + part * dy - y) ** 2);
    before = after;
  }
  return least;
};
