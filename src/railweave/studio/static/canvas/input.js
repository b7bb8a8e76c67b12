// Mouse, touch and keyboard, all to the same few deeds of the stage.

const DRAG = 4; // pixels from which a press is a drag
const LONG_MS = 550;
const DOUBLE_MS = 350;

export const KEYS = [
  ["arrow keys", "move the view"],
  ["+  −", "zoom in, out"],
  ["0  Home", "fit the whole drawing"],
  ["]  [", "next, previous node"],
  ["Shift + arrow", "node in that direction"],
  ["L  Shift+L", "next, previous link of the node"],
  ["G  Shift+G", "next, previous group"],
  ["Enter", "act on what is selected"],
  ["Escape", "deselect"],
];
export const TIME_KEYS = [
  ["Space", "play, pause"],
  [".  ,", "step forwards, back"],
];

export const listen = (stage) => {
  const { canvas } = stage;
  const pointers = new Map();
  let press = null;
  let pinch = null;
  let tapped = { id: null, at: 0 };
  const off = [];
  const on = (name, handler, options) => {
    canvas.addEventListener(name, handler, options);
    off.push(() => canvas.removeEventListener(name, handler));
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const slackOf = (event) => (event.pointerType === "touch" ? 12 : 4);
  const keyOf = (hit) => (hit.node >= 0 ? `n${hit.node}` : hit.link >= 0 ? `l${hit.link}` : hit.group >= 0 ? `g${hit.group}` : hit.tile >= 0 ? `t${hit.tile}` : null);

  const activate = (hit) => {
    const { model } = stage;
    if (hit.node >= 0) stage.tell.activate(model.nodes.id[hit.node]);
    else if (hit.link >= 0) stage.tell.activate(model.links.id[hit.link]);
    else if (hit.tile >= 0) stage.showGroup(hit.tile);
  };

  const tap = (event, [x, y]) => {
    const hit = stage.pick(x, y, slackOf(event));
    const key = keyOf(hit);
    const again = key !== null && key === tapped.key && event.timeStamp - tapped.at < DOUBLE_MS;
    tapped = again ? { key: null, at: 0 } : { key, at: event.timeStamp };
    if (hit.group >= 0) { stage.tell.toggle(hit.group); return; }
    if (again) { activate(hit); return; }
    stage.select(hit.node ?? -1, hit.link ?? -1);
    // A finger cannot hover: what it touched is told at once.
    if (event.pointerType === "touch") stage.tell.tip(stage.told(hit), x, y - 20);
  };

  on("pointerdown", (event) => {
    if (!stage.picture || event.button > 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    stage.tell.tip(null);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      pinch = { gap: Math.hypot(a[0] - b[0], a[1] - b[1]), middle: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] };
      clearTimeout(press?.timer);
      press = null;
      return;
    }
    const start = at(event);
    press = { start, last: start, dragged: false, long: false };
    if (event.pointerType === "touch")
      press.timer = setTimeout(() => {
        if (!press || press.dragged) return;
        press.long = true;
        const hit = stage.pick(start[0], start[1], 12);
        if (hit.node >= 0 || hit.link >= 0) { stage.select(hit.node ?? -1, hit.link ?? -1); activate(hit); }
      }, LONG_MS);
  });

  on("pointermove", (event) => {
    if (!stage.picture) return;
    const here = at(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, here);
    if (pinch && pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const gap = Math.hypot(a[0] - b[0], a[1] - b[1]);
      const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
      stage.moving = true;
      stage.pan(middle[0] - pinch.middle[0], middle[1] - pinch.middle[1]);
      if (pinch.gap > 0) stage.zoom(gap / pinch.gap, middle[0], middle[1]);
      pinch = { gap, middle };
      return;
    }
    if (press) {
      if (!press.dragged && Math.hypot(here[0] - press.start[0], here[1] - press.start[1]) < DRAG) return;
      press.dragged = true;
      clearTimeout(press.timer);
      stage.moving = true;
      canvas.style.cursor = "grabbing";
      stage.pan(here[0] - press.last[0], here[1] - press.last[1]);
      press.last = here;
      return;
    }
    if (event.pointerType !== "touch") hover(stage, here);
  });

  const release = (event) => {
    pointers.delete(event.pointerId);
    if (pinch) { if (pointers.size < 2) { pinch = null; stage.moving = false; stage.need(); } return; }
    if (!press) return;
    clearTimeout(press.timer);
    const { dragged, long } = press;
    press = null;
    stage.moving = false;
    canvas.style.cursor = "";
    if (event.type === "pointerup" && !dragged && !long) tap(event, at(event));
    stage.tell.viewed();
    stage.need();
  };
  on("pointerup", release);
  on("pointercancel", release);
  on("pointerleave", (event) => { if (event.pointerType === "touch") return; stage.focus.hover = -1; stage.tell.tip(null); stage.need(); });

  let rest = 0;
  on("wheel", (event) => {
    if (!stage.picture) return;
    // Zooming out of the whole drawing scrolls the page instead.
    if (event.deltaY > 0 && stage.camera.z <= 0.5 && !event.ctrlKey) return;
    event.preventDefault();
    stage.moving = true;
    clearTimeout(rest);
    rest = setTimeout(() => { stage.moving = false; stage.tell.viewed(); stage.need(); }, 120);
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    stage.zoom(Math.exp(-Math.max(-120, Math.min(120, pixels)) * (event.ctrlKey ? 0.01 : 0.002)), ...at(event));
    stage.tell.tip(null);
  }, { passive: false });

  on("keydown", (event) => {
    if (!stage.picture || event.altKey || event.metaKey || event.ctrlKey) return;
    if (key(stage, event)) { event.preventDefault(); event.stopPropagation(); }
  });
  return () => { off.forEach((stop) => stop()); clearTimeout(rest); clearTimeout(press?.timer); };
};

const hover = (stage, [x, y]) => {
  const hit = stage.pick(x, y, 4);
  stage.canvas.style.cursor = hit.node >= 0 || hit.link >= 0 || hit.tile >= 0 || (hit.group >= 0 && stage.options.toggles && !stage.model.groups.fixed[hit.group]) ? "pointer" : "";
  const node = hit.node ?? -1;
  if (node !== stage.focus.hover) { stage.focus.hover = node; stage.need(); }
  stage.tell.tip(stage.told(hit), x, y);
};

const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

const walk = (stage, by) => {
  const { n } = stage.model;
  if (!n) return;
  const here = stage.focus.node;
  const { reading, rank } = stage.model;
  stage.select(reading[here < 0 ? (by > 0 ? 0 : n - 1) : (rank[here] + by + n) % n], -1, true);
};

// The nearest node in a direction, sideways distance counting double.
const stride = (stage, [dx, dy]) => {
  const { camera, model, focus } = stage;
  if (focus.node < 0) { walk(stage, 1); return; }
  const [x, y] = [camera.x(model.u[focus.node]), camera.y(model.v[focus.node])];
  let [best, least] = [-1, Infinity];
  for (let i = 0; i < model.n; i++) {
    const [ex, ey] = [camera.x(model.u[i]) - x, camera.y(model.v[i]) - y];
    const ahead = -(ex * dx + ey * dy);
    if (ahead <= 1) continue;
    const cost = ahead + 2 * Math.abs(ex * dy - ey * dx);
    if (cost < least) { least = cost; best = i; }
  }
  if (best >= 0) stage.select(best, -1, true);
};

const walkLinks = (stage, by) => {
  const { model, focus } = stage;
  if (focus.node >= 0) stage.linkHome = focus.node;
  const home = stage.linkHome;
  const links = home >= 0 && home < model.n && (focus.node >= 0 || focus.link >= 0) ? [...model.touching(home)] : model.links.id.map((_, i) => i);
  if (!links.length) return;
  const here = links.indexOf(focus.link);
  stage.select(-1, links[here < 0 ? (by > 0 ? 0 : links.length - 1) : (here + by + links.length) % links.length], true);
};

const walkGroups = (stage, by) => {
  const { groups } = stage.model;
  if (!groups.n) return;
  const here = stage.focus.group;
  stage.selectGroup(here < 0 ? (by > 0 ? 0 : groups.n - 1) : (here + by + groups.n) % groups.n);
};

// Do what a key says; false if it says nothing here.
const key = (stage, event) => {
  const { focus, model } = stage;
  const arrow = ARROWS[event.key];
  if (arrow && event.shiftKey) stride(stage, arrow);
  else if (arrow) { stage.pan(arrow[0] * 60, arrow[1] * 60); stage.tell.viewed(); }
  else if (event.key === "+" || event.key === "=") { stage.zoom(1.3); stage.tell.viewed(); }
  else if (event.key === "-" || event.key === "_") { stage.zoom(1 / 1.3); stage.tell.viewed(); }
  else if (event.key === "0" || event.key === "Home") stage.fit();
  else if (event.key === "]") walk(stage, 1);
  else if (event.key === "[") walk(stage, -1);
  else if (event.key === "l" || event.key === "L") walkLinks(stage, event.shiftKey ? -1 : 1);
  else if (event.key === "g" || event.key === "G") walkGroups(stage, event.shiftKey ? -1 : 1);
  else if (event.key === " " && model.moves) stage.toggle();
  else if (event.key === "." && model.moves) stage.step(1);
  else if (event.key === "," && model.moves) stage.step(-1);
  else if (event.key === "Enter" && focus.group >= 0) stage.tell.toggle(focus.group);
  else if (event.key === "Enter" && stage.selected() !== null) stage.tell.activate(stage.selected());
  else if (event.key === "Escape" && (stage.selected() !== null || focus.group >= 0)) { focus.group = -1; stage.select(-1); }
  else return false;
  return true;
};
