// A scene's document as arrays, with what drawing asks for again and again worked out once.

const COLUMN = (table, name, fallback) => {
  const column = table[name];
  const n = table.n;
  if (column === undefined) return new Array(n).fill(fallback);
  if (Array.isArray(column)) return column;
  if ("all" in column) return new Array(n).fill(column.all);
  return column.at.map((at) => column.set[at]);
};

const NODE = { id: "", x: 0, y: 0, kind: "", label: "", detail: "", role: "", group: "", count: 1, state: "" };
const LINK = { id: "", source: 0, target: 0, role: "", count: 1, label: "", state: "", load: null, style: "", detail: "" };
const GROUP = { id: "", label: "", collapsed: false, count: 0, fixed: false };
const FLIGHT = { start_s: 0, end_s: 0, source: 0, target: 0, kind: "data", label: "", bytes: 0, role: "" };
const PHASE = { start_s: 0, end_s: 0, target: 0, state: "" };

const table = (given, shape) => {
  const out = { n: given.n };
  for (const [name, fallback] of Object.entries(shape)) out[name] = COLUMN(given, name, fallback);
  return out;
};

export const LINE = 0;
export const ARC = 1;
const ARCS = new Set(["curve", "arc", "cnp"]);
const BUCKETS = 256;

export class Model {
  constructor(text) {
    const doc = JSON.parse(text);
    this.title = doc.title;
    this.description = doc.description;
    this.note = doc.note;
    this.aspect = doc.aspect;
    this.duration = doc.duration_s;
    this.nodes = table(doc.nodes, NODE);
    this.links = table(doc.links, LINK);
    this.groups = table(doc.groups, GROUP);
    this.flights = table(doc.flights, FLIGHT);
    this.phases = table(doc.phases, PHASE);
    this.levels = doc.levels;
    this.n = this.nodes.n;
    this.index = new Map(this.nodes.id.map((id, i) => [id, i]));
    this.linkIndex = new Map(this.links.id.map((id, i) => [id, i]));
    this.place();
    this.join();
    this.frame();
    this.time(doc.steps);
  }

  // Places from 0 to 1, and how many units that was.
  place() {
    const { x, y } = this.nodes;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < this.n; i++) {
      x0 = Math.min(x0, x[i]); x1 = Math.max(x1, x[i]);
      y0 = Math.min(y0, y[i]); y1 = Math.max(y1, y[i]);
    }
    this.width = this.n && x1 > x0 ? x1 - x0 : 0;
    this.height = this.n && y1 > y0 ? y1 - y0 : 0;
    this.u = new Float64Array(this.n);
    this.v = new Float64Array(this.n);
    for (let i = 0; i < this.n; i++) {
      this.u[i] = this.width ? (x[i] - x0) / this.width : 0.5;
      this.v[i] = this.height ? (y[i] - y0) / this.height : 0.5;
    }
    const side = Math.max(1, Math.min(256, Math.ceil(Math.sqrt(this.n / 6))));
    const cell = new Int32Array(this.n);
    const start = new Int32Array(side * side + 1);
    const at = (value) => Math.min(side - 1, Math.floor(value * side));
    for (let i = 0; i < this.n; i++) {
      cell[i] = at(this.v[i]) * side + at(this.u[i]);
      start[cell[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) start[c + 1] += start[c];
    const fill = start.slice();
    const inCell = new Int32Array(this.n);
    for (let i = 0; i < this.n; i++) inCell[fill[cell[i]]++] = i;
    this.grid = { side, start, inCell };
    // The order of reading, in which the keyboard goes from node to node.
    this.reading = Int32Array.from({ length: this.n }, (_, i) => i).sort((a, b) => this.v[a] - this.v[b] || this.u[a] - this.u[b]);
    this.rank = new Int32Array(this.n);
    this.reading.forEach((node, i) => { this.rank[node] = i; });
  }

  // Nodes in a rectangle of places.
  within(u0, v0, u1, v1) {
    const { side, start, inCell } = this.grid;
    const clamp = (value) => Math.max(0, Math.min(side - 1, Math.floor(value * side)));
    const [a, b, c, d] = [clamp(u0), clamp(u1), clamp(v0), clamp(v1)];
    const found = [];
    for (let row = c; row <= d; row++) {
      for (let i = start[row * side + a]; i < start[row * side + b + 1]; i++) {
        const node = inCell[i];
        if (this.u[node] >= u0 && this.u[node] <= u1 && this.v[node] >= v0 && this.v[node] <= v1)
          found.push(node);
      }
    }
    // In the scene's order, so that what is drawn does not depend on the cells.
    return Int32Array.from(found).sort();
  }

  // Links of each node, and lanes for links between the same two nodes.
  join() {
    const { source, target, style, n } = this.links;
    const degree = new Int32Array(this.n + 1);
    this.shape = new Uint8Array(n);
    this.lane = new Float32Array(n);
    this.between = new Map();
    const pairs = new Map();
    for (let i = 0; i < n; i++) {
      degree[source[i] + 1]++;
      if (target[i] !== source[i]) degree[target[i] + 1]++;
      if (ARCS.has(style[i])) {
        this.shape[i] = ARC;
        continue;
      }
      const [a, b] = [Math.min(source[i], target[i]), Math.max(source[i], target[i])];
      const key = a * this.n + b;
      if (pairs.has(key)) pairs.get(key).push(i);
      else pairs.set(key, [i]);
    }
    for (const [key, links] of pairs) {
      this.between.set(key, links[0]);
      if (links.length > 1)
        links.forEach((link, lane) => {
          // Pause blocks are broad: they keep further away from the line beside them.
          const apart = links.some((one) => style[one] === "pfc") ? 2 : 1;
          this.lane[link] = apart * (lane - (links.length - 1) / 2);
        });
    }
    for (let i = 0; i < this.n; i++) degree[i + 1] += degree[i];
    this.linkStart = degree;
    this.linksOf = new Int32Array(degree[this.n]);
    const fill = degree.slice();
    for (let i = 0; i < n; i++) {
      this.linksOf[fill[source[i]]++] = i;
      if (target[i] !== source[i]) this.linksOf[fill[target[i]]++] = i;
    }
  }

  touching(node) {
    return this.linksOf.subarray(this.linkStart[node], this.linkStart[node + 1]);
  }

  linkBetween(a, b) {
    return this.between.get(Math.min(a, b) * this.n + Math.max(a, b));
  }

  // The frame of each group, and the bundles between frames for the view from afar.
  frame() {
    const at = new Map(this.groups.id.map((id, i) => [id, i]));
    this.groupOf = Int32Array.from(this.nodes.group, (id) => (at.has(id) ? at.get(id) : -1));
    this.boxes = this.groups.id.map(() => ({ u0: Infinity, v0: Infinity, u1: -Infinity, v1: -Infinity, n: 0, some: -1 }));
    for (let i = 0; i < this.n; i++) {
      const box = this.boxes[this.groupOf[i]];
      if (!box) continue;
      box.u0 = Math.min(box.u0, this.u[i]); box.u1 = Math.max(box.u1, this.u[i]);
      box.v0 = Math.min(box.v0, this.v[i]); box.v1 = Math.max(box.v1, this.v[i]);
      box.n++;
      if (box.u1 === this.u[i]) box.some = i;
    }
    this.far = this.n > 1500 && this.groups.n > 1;
    this.loose = [];
    for (let i = 0; i < this.n; i++) if (this.groupOf[i] < 0) this.loose.push(i);
    this.bundles = [];
    if (!this.far) return;
    const span = this.groups.n + this.n;
    const end = (node) => (this.groupOf[node] >= 0 ? this.groupOf[node] : this.groups.n + node);
    const found = new Map();
    for (let i = 0; i < this.links.n; i++) {
      const [a, b] = [end(this.links.source[i]), end(this.links.target[i])];
      if (a === b) continue;
      const key = Math.min(a, b) * span + Math.max(a, b);
      const bundle = found.get(key);
      if (bundle) {
        bundle.count += this.links.count[i];
        bundle.down ||= this.links.state[i] === "down";
      } else {
        found.set(key, {
          a: Math.min(a, b), b: Math.max(a, b), count: this.links.count[i],
          role: this.links.role[i], down: this.links.state[i] === "down",
        });
      }
    }
    this.bundles = [...found.values()];
  }

  // Flights by slices of time, steps, and levels by node.
  time(steps) {
    const { start_s, end_s, n } = this.flights;
    this.moves = this.duration > 0 && (n > 0 || this.levels.length > 0 || this.phases.n > 0 || steps.length > 1);
    this.slices = Array.from({ length: BUCKETS }, () => []);
    const slice = (time) => Math.max(0, Math.min(BUCKETS - 1, Math.floor((time / this.duration) * BUCKETS)));
    if (this.moves)
      for (let i = 0; i < n; i++)
        for (let s = slice(start_s[i]); s <= slice(end_s[i]); s++) this.slices[s].push(i);
    this.sliceOf = slice;
    const starts = [...new Set([0, ...start_s, ...this.phases.start_s, this.duration])];
    this.steps = steps.length ? steps : starts.sort((a, b) => a - b).map((time) => [time, ""]);
    this.levelOf = new Map(this.levels.map((level) => [level.node, level]));
    for (const level of this.levels)
      level.brim = level.full || Math.max(...level.value, ...level.marks.map((mark) => mark[0]), 1e-300);
    const largest = this.flights.bytes.reduce((most, one) => Math.max(most, one), 0);
    this.sizeOf = (i) => (largest > 0 ? 0.55 + 0.45 * Math.sqrt(this.flights.bytes[i] / largest) : 0.8);
  }

  flightsAt(time) {
    if (!this.moves) return [];
    const { start_s, end_s } = this.flights;
    return this.slices[this.sliceOf(time)].filter((i) => start_s[i] <= time && time <= end_s[i]);
  }

  phasesAt(time) {
    const found = [];
    const { start_s, end_s } = this.phases;
    for (let i = 0; i < this.phases.n; i++) if (start_s[i] <= time && time < end_s[i]) found.push(i);
    return found;
  }

  levelAt(level, time) {
    const { time_s, value } = level;
    let [low, high] = [0, time_s.length - 1];
    if (time <= time_s[0]) return value[0];
    if (time >= time_s[high]) return value[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (time_s[middle] <= time) low = middle;
      else high = middle;
    }
    const span = time_s[high] - time_s[low];
    return span > 0 ? value[low] + ((value[high] - value[low]) * (time - time_s[low])) / span : value[high];
  }

  // Whether another scene is the same place to stand in: most of its nodes are here too.
  alike(other) {
    if (!other || !this.n || !other.n) return false;
    let shared = 0;
    for (const id of other.nodes.id) shared += this.index.has(id) ? 1 : 0;
    return shared >= 0.5 * Math.min(this.n, other.n);
  }
}
