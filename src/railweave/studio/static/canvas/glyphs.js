// The signs of nodes and states, drawn about (0, 0); each kind has a shape of its own.

const TAU = 2 * Math.PI;

const box = (c, w, h, r) => {
  c.beginPath();
  c.roundRect(-w / 2, -h / 2, w, h, r);
};

const arrows = (c, w, y, direction) => {
  c.beginPath();
  c.moveTo((-w / 2) * direction, y);
  c.lineTo((w / 2) * direction, y);
  const tip = Math.min(3.5, w * 0.28);
  c.moveTo((w / 2 - tip) * direction, y - tip * 0.8);
  c.lineTo((w / 2) * direction, y);
  c.lineTo((w / 2 - tip) * direction, y + tip * 0.8);
  c.stroke();
};

const switchOf = (pairs) => (c, r) => {
  box(c, 2.3 * r, 1.35 * r, 0.28 * r);
  c.fill(); c.stroke();
  if (r < 6) return;
  const gap = pairs === 1 ? 0.28 : 0.2;
  for (let i = 0; i < pairs; i++) {
    const x = pairs === 1 ? 0 : (i - (pairs - 1) / 2) * (1.9 / pairs) * r;
    c.save();
    c.translate(x, 0);
    arrows(c, pairs === 1 ? 1.3 * r : (1.4 / pairs) * r, -gap * r, 1);
    arrows(c, pairs === 1 ? 1.3 * r : (1.4 / pairs) * r, gap * r, -1);
    c.restore();
  }
};

const circle = (direction) => (c, r) => {
  c.beginPath(); c.arc(0, 0, 0.95 * r, 0, TAU); c.fill(); c.stroke();
  if (r < 6) return;
  arrows(c, 0.95 * r, 0, 1);
  c.beginPath();
  const x = direction > 0 ? -0.5 * r : 0.56 * r;
  c.moveTo(x, -0.35 * r); c.lineTo(x, 0.35 * r);
  c.stroke();
};

export const SHAPES = {
  gpu(c, r) {
    const s = 1.7 * r;
    c.beginPath();
    if (r >= 5)
      for (const at of [-0.42, 0, 0.42]) {
        c.moveTo(at * r, -s / 2 - 0.2 * r); c.lineTo(at * r, s / 2 + 0.2 * r);
        c.moveTo(-s / 2 - 0.2 * r, at * r); c.lineTo(s / 2 + 0.2 * r, at * r);
      }
    c.stroke();
    box(c, s, s, 0.25 * r); c.fill(); c.stroke();
    if (r >= 5) { box(c, s * 0.46, s * 0.46, 0.1 * r); c.stroke(); }
  },
  server(c, r) {
    box(c, 1.8 * r, 1.7 * r, 0.25 * r); c.fill(); c.stroke();
    if (r < 5) return;
    c.beginPath();
    for (const y of [-0.28, 0.28]) { c.moveTo(-0.9 * r, y * r); c.lineTo(0.9 * r, y * r); }
    c.stroke();
    c.save(); c.fillStyle = c.strokeStyle;
    for (const y of [-0.57, 0, 0.57]) { c.beginPath(); c.arc(-0.58 * r, y * r, 0.11 * r, 0, TAU); c.fill(); }
    c.restore();
  },
  nic(c, r) {
    box(c, 1.7 * r, 1.15 * r, 0.2 * r); c.fill(); c.stroke();
    if (r < 5) return;
    box(c, 0.66 * r, 0.5 * r, 0.08 * r); c.stroke();
    c.beginPath(); c.moveTo(-0.5 * r, 0.58 * r); c.lineTo(-0.5 * r, 0.82 * r);
    c.moveTo(0.5 * r, 0.58 * r); c.lineTo(0.5 * r, 0.82 * r); c.stroke();
  },
  leaf: switchOf(1), spine: switchOf(2), core: switchOf(3), switch: switchOf(1),
  host(c, r) {
    c.save(); c.translate(0, -0.18 * r); box(c, 1.8 * r, 1.25 * r, 0.18 * r); c.fill(); c.stroke(); c.restore();
    c.beginPath(); c.moveTo(0, 0.45 * r); c.lineTo(0, 0.8 * r); c.moveTo(-0.5 * r, 0.85 * r); c.lineTo(0.5 * r, 0.85 * r); c.stroke();
  },
  users(c, r) {
    for (const x of [-0.5, 0.5, 0]) {
      c.beginPath(); c.arc(x * r, 0.85 * r, x ? 0.5 * r : 0.66 * r, Math.PI, 0); c.closePath(); c.fill(); c.stroke();
      c.beginPath(); c.arc(x * r, x ? -0.1 * r : -0.3 * r, x ? 0.28 * r : 0.38 * r, 0, TAU); c.fill(); c.stroke();
    }
  },
  storage(c, r) {
    const [w, h] = [0.85 * r, 0.3 * r];
    c.beginPath();
    c.moveTo(-w, -0.6 * r); c.lineTo(-w, 0.6 * r); c.ellipse(0, 0.6 * r, w, h, 0, Math.PI, 0, true); c.lineTo(w, -0.6 * r);
    c.ellipse(0, -0.6 * r, w, h, 0, 0, Math.PI, true); c.fill(); c.stroke();
    c.beginPath(); c.ellipse(0, -0.6 * r, w, h, 0, 0, Math.PI); c.stroke();
    if (r >= 5) { c.beginPath(); c.ellipse(0, 0, w, h, 0, 0, Math.PI); c.stroke(); }
  },
  management(c, r) {
    c.beginPath();
    for (let i = 0; i < 16; i++) {
      const [turn, far] = [((i + 0.5) * TAU) / 16, i % 4 < 2 ? 0.98 * r : 0.74 * r];
      c.lineTo(far * Math.cos(turn), far * Math.sin(turn));
    }
    c.closePath(); c.fill(); c.stroke();
    c.beginPath(); c.arc(0, 0, 0.32 * r, 0, TAU); c.stroke();
  },
  queue(c, r) {
    const [w, h] = [1.5 * r, 2.2 * r];
    c.beginPath(); c.roundRect(-w / 2, -h / 2, w, h, [0, 0, 0.2 * r, 0.2 * r]); c.fill();
    c.beginPath(); c.moveTo(-w / 2, -h / 2); c.lineTo(-w / 2, h / 2 - 0.2 * r);
    c.quadraticCurveTo(-w / 2, h / 2, -w / 2 + 0.2 * r, h / 2); c.lineTo(w / 2 - 0.2 * r, h / 2);
    c.quadraticCurveTo(w / 2, h / 2, w / 2, h / 2 - 0.2 * r); c.lineTo(w / 2, -h / 2); c.stroke();
  },
  sender: circle(1), receiver: circle(-1),
};

// Half width and half height of a kind, in radii: where links end and badges sit.
const WIDE = { leaf: [1.15, 0.7], spine: [1.15, 0.7], core: [1.15, 0.7], switch: [1.15, 0.7], queue: [0.78, 1.12], nic: [0.88, 0.62] };
export const extent = (kind) => WIDE[kind] || [0.95, 0.92];

export const SIGN_ROLE = { down: "fault", hot: "congestion", marked: "congestion", paused: "fault", slow: "management" };

// A badge that says a state by its shape.
export const drawSign = (c, state, x, y, r, theme) => {
  const colour = theme.role(SIGN_ROLE[state]);
  c.save();
  c.translate(x, y);
  c.setLineDash([]);
  c.lineCap = "round";
  c.fillStyle = theme.card; c.strokeStyle = colour; c.lineWidth = Math.max(1.4, r * 0.24);
  c.beginPath();
  if (state === "hot") { c.moveTo(0, -1.15 * r); c.lineTo(1.15 * r, 0.85 * r); c.lineTo(-1.15 * r, 0.85 * r); c.closePath(); }
  else if (state === "marked") { c.moveTo(0, -1.2 * r); c.lineTo(1.2 * r, 0); c.lineTo(0, 1.2 * r); c.lineTo(-1.2 * r, 0); c.closePath(); }
  else c.arc(0, 0, r, 0, TAU);
  c.lineJoin = "round";
  c.fill(); c.stroke();
  c.beginPath();
  const s = r * 0.42;
  if (state === "down") { c.moveTo(-s, -s); c.lineTo(s, s); c.moveTo(s, -s); c.lineTo(-s, s); }
  else if (state === "hot") { c.moveTo(0, -0.35 * r); c.lineTo(0, 0.15 * r); c.moveTo(0, 0.5 * r); c.lineTo(0, 0.52 * r); }
  else if (state === "paused") { c.moveTo(-s * 0.7, -s); c.lineTo(-s * 0.7, s); c.moveTo(s * 0.7, -s); c.lineTo(s * 0.7, s); }
  else if (state === "slow") { c.moveTo(0, -s * 1.2); c.lineTo(0, 0); c.lineTo(s, s * 0.6); }
  else { c.moveTo(-s, 0); c.lineTo(s, 0); }
  c.stroke();
  c.restore();
};

export const drawGlyph = (c, kind, role, state, r, theme) => {
  c.save();
  c.lineJoin = "round";
  c.lineCap = "round";
  const down = state === "down";
  c.strokeStyle = down ? theme.quiet : theme.role(role);
  c.fillStyle = down ? theme.card : theme.tint(role, theme.dark ? 0.2 : 0.12);
  c.lineWidth = state === "hot" ? 2.4 : r < 6 ? 1 : 1.5;
  if (down) { c.setLineDash([3, 2.5]); c.globalAlpha = 0.85; }
  (SHAPES[kind] || SHAPES.switch)(c, r);
  c.restore();
};
