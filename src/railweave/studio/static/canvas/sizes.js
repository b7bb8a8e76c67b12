// How large nodes are: as large as their neighbours leave room for, alike for nodes of one kind in
// one group, and never larger than is good to look at.

const MOST = { queue: 34, users: 20, leaf: 17, spine: 17, core: 17, switch: 17, nic: 15 };
const LARGEST = 18;
const PART = 0.36;
const SAME_ROW = 14; // pixels
export const LEAST = 0.6;

export class Sizes {
  constructor(model, camera) {
    this.gap = new Float32Array(model.n);
    this.most = new Float32Array(model.n);
    this.pitch = new Float32Array(model.n); // to the next in the same row
    const { side, start, inCell } = model.grid;
    const { bw, bh } = camera;
    const classes = new Map();
    let beside = Infinity;
    const near = (i) => {
      beside = Infinity;
      let least = Math.max(Math.min(bw / side, bh / side), 0.01) || 1;
      if (model.n < 400) least = Infinity;
      const row = Math.min(side - 1, Math.floor(model.v[i] * side));
      const column = Math.min(side - 1, Math.floor(model.u[i] * side));
      for (let r = Math.max(0, row - 1); r <= Math.min(side - 1, row + 1); r++) {
        const from = start[r * side + Math.max(0, column - 1)];
        const to = start[r * side + Math.min(side - 1, column + 1) + 1];
        for (let k = from; k < to; k++) {
          const j = inCell[k];
          const d = Math.max(Math.abs(model.u[j] - model.u[i]) * bw, Math.abs(model.v[j] - model.v[i]) * bh);
          if (j !== i && d > 0.001 && d < least) least = d;
          if (Math.abs(model.v[j] - model.v[i]) * bh > SAME_ROW) continue;
          const dx = Math.abs(model.u[j] - model.u[i]) * bw;
          if (j !== i && dx > 0.001 && dx < beside) beside = dx;
        }
      }
      return least;
    };
    for (let i = 0; i < model.n; i++) {
      const key = `${model.nodes.kind[i]}\n${model.groupOf[i]}`;
      const gap = near(i);
      const known = classes.get(key);
      if (!known) classes.set(key, { gap, beside, members: [i] });
      else { known.gap = Math.min(known.gap, gap); known.beside = Math.min(known.beside, beside); known.members.push(i); }
    }
    for (const { gap, beside: pitch, members } of classes.values())
      for (const i of members) {
        this.gap[i] = gap;
        this.pitch[i] = pitch;
        this.most[i] = MOST[model.nodes.kind[i]] || LARGEST;
      }
    // What is drawn together from afar.
    this.fine = members(classes);
  }

  // The radius of a node in pixels at a zoom.
  of(i, z) {
    return Math.max(LEAST, Math.min(this.most[i], PART * this.gap[i] * z));
  }
}

const members = (classes) => {
  const all = [...classes.values()].sort((a, b) => b.members.length - a.members.length);
  return all.length ? all[0].gap * PART : 1;
};
