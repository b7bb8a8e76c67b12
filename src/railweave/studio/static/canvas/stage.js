// One canvas: the scene, the view on it, and one frame after another while anything moves.

import { Camera } from "./camera.js";
import { Clock } from "./clock.js";
import { extent } from "./glyphs.js";
import { listen } from "./input.js";
import { distance2, linkCourse } from "./lines.js";
import { Model } from "./model.js";
import { Motion, quantity } from "./motion.js";
import { Picture } from "./picture.js";
import { Sizes } from "./sizes.js";
import { Theme } from "./theme.js";

const GLIDE_MS = 220;
export { quantity };

export class Stage {
  constructor(root, canvas, options, tell) {
    Object.assign(this, { root, canvas, options, tell });
    this.c = canvas.getContext("2d");
    this.camera = new Camera();
    this.clock = new Clock();
    this.model = null;
    this.focus = { node: -1, link: -1, group: -1, hover: -1, keyboard: false };
    this.raf = 0;
    this.frames = []; // times of the last frames while moving, for whoever measures
    this.theme = new Theme(root, options.palette, options.heat);
    this.watch();
    this.unlisten = listen(this);
  }

  watch() {
    this.sized = new ResizeObserver(() => this.resize());
    this.sized.observe(this.canvas);
    this.darkened = new MutationObserver(() => this.recolour());
    this.darkened.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.denser = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    this.onDenser = () => this.resize(true);
    this.denser.addEventListener("change", this.onDenser);
  }

  destroy() {
    cancelAnimationFrame(this.raf);
    this.sized.disconnect();
    this.darkened.disconnect();
    this.denser.removeEventListener("change", this.onDenser);
    this.unlisten();
  }

  load(text) {
    const model = new Model(text);
    const before = this.model;
    const chosen = this.selected();
    const group = before && this.focus.group >= 0 ? before.groups.id[this.focus.group] : null;
    if (before && !model.alike(before)) this.camera.fit();
    this.model = model;
    this.clock.load(model);
    this.focus = { node: -1, link: -1, group: model.groups.id.indexOf(group), hover: -1, keyboard: this.focus.keyboard };
    this.choose(chosen);
    this.resize(true);
    this.tell.loaded(model);
    this.tell.time(this.clock);
  }

  resize(always = false) {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const ratio = Math.min(3, devicePixelRatio || 1);
    if (!w || !h || !this.model) return;
    if (!always && w === this.w && h === this.h && ratio === this.ratio) return;
    Object.assign(this, { w, h, ratio });
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(h * ratio);
    this.camera.shape(this.model, w, h);
    this.sizes = new Sizes(this.model, this.camera);
    this.redraw();
  }

  // The page's classes change for many reasons; the picture is painted anew only for other colours.
  recolour() {
    // The page's classes change for other reasons too, and reading colours makes the browser lay out.
    if (document.body.classList.contains("body--dark") === this.theme.dark) return;
    this.theme = new Theme(this.root, this.options.palette, this.options.heat);
    if (this.model) this.redraw();
  }

  redraw() {
    this.picture = new Picture(this.model, this.sizes, this.theme, this.ratio, this.options.toggles);
    this.motion = new Motion(this.model, this.sizes, this.theme, this.picture.painter);
    this.need();
  }

  need() {
    if (!this.raf) this.raf = requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.raf = 0;
    if (!this.picture) return;
    const dt = this.last ? Math.min(0.1, (now - this.last) / 1000) : 0;
    const began = performance.now();
    if (this.clock.tick(dt)) this.tell.stopped(this.clock);
    const gliding = this.glide(now);
    const busy = this.picture.work(this.camera, this.moving || gliding ? 6 : 12, Boolean(this.moving || gliding));
    this.c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.c.clearRect(0, 0, this.w, this.h);
    this.picture.draw(this.c, this.camera);
    this.motion.draw(this.c, this.camera, this.clock.time, this.focus);
    if (this.clock.playing) this.tell.time(this.clock);
    const again = this.clock.playing || gliding || busy;
    this.last = again || this.raf ? now : 0;
    this.frames.push({ at: now, cost_ms: performance.now() - began });
    if (this.frames.length > 600) this.frames.splice(0, 300);
    if (again) this.need();
  }

  // ------------------------------------------------ moving the view

  glideTo(z, cx, cy) {
    if (this.clock.still) { Object.assign(this.camera, { z, cx, cy }); this.need(); return; }
    const { camera } = this;
    this.gliding = { from: [camera.z, camera.cx, camera.cy], to: [z, cx, cy], start: performance.now() };
    this.need();
  }

  glide(now) {
    if (!this.gliding) return false;
    const { from, to, start } = this.gliding;
    const part = Math.max(0, Math.min(1, (now - start) / GLIDE_MS));
    const ease = 1 - (1 - part) ** 3;
    this.camera.z = from[0] * (to[0] / from[0]) ** ease;
    this.camera.cx = from[1] + (to[1] - from[1]) * ease;
    this.camera.cy = from[2] + (to[2] - from[2]) * ease;
    if (part < 1) return true;
    [this.camera.z, this.camera.cx, this.camera.cy] = to;
    this.gliding = null;
    return false;
  }

  fit() { this.glideTo(1, 0.5, 0.5); }
  pan(dx, dy) { this.gliding = null; this.camera.pan(dx, dy); this.need(); }
  zoom(factor, x, y) { this.gliding = null; this.camera.zoom(factor, x, y); this.need(); }

  showGroup(g) {
    const box = this.model.boxes[g];
    const { camera } = this;
    const zoom = 0.8 * Math.min(camera.w / (Math.max(box.u1 - box.u0, 1e-6) * camera.bw), camera.h / (Math.max(box.v1 - box.v0, 1e-6) * camera.bh));
    this.glideTo(Math.max(0.5, Math.min(200, zoom)), (box.u0 + box.u1) / 2, (box.v0 + box.v1) / 2);
  }

  // ------------------------------------------------ what is selected

  selected() {
    if (!this.model) return null;
    if (this.focus.node >= 0) return this.model.nodes.id[this.focus.node];
    return this.focus.link >= 0 ? this.model.links.id[this.focus.link] : null;
  }

  // Select by id without saying so to the server.
  choose(id) {
    const node = id === null || id === undefined ? undefined : this.model.index.get(id);
    const link = node === undefined && id ? this.model.linkIndex.get(id) : undefined;
    this.focus.node = node ?? -1;
    this.focus.link = link ?? -1;
    this.need();
  }

  // Select as the visitor does: told to the server and spoken.
  select(node, link = -1, keyboard = false) {
    const before = this.selected();
    Object.assign(this.focus, { node, link, group: -1, keyboard });
    const id = this.selected();
    if (keyboard && node >= 0) this.camera.reveal(this.model.u[node], this.model.v[node]);
    if (keyboard && link >= 0) {
      const [a, b] = [this.model.links.source[link], this.model.links.target[link]];
      this.camera.reveal((this.model.u[a] + this.model.u[b]) / 2, (this.model.v[a] + this.model.v[b]) / 2);
    }
    if (id !== before) this.tell.select(id);
    this.tell.say(node >= 0 ? this.describe(node) : link >= 0 ? this.describeLink(link) : "Nothing selected");
    this.need();
  }

  selectGroup(g) {
    const before = this.selected();
    Object.assign(this.focus, { node: -1, link: -1, group: g, keyboard: true });
    if (before !== null) this.tell.select(null);
    const { label, count, collapsed, fixed } = this.model.groups;
    const box = this.model.boxes[g];
    this.camera.reveal((box.u0 + box.u1) / 2, box.v0);
    this.tell.say(`${label[g]}, ${count[g]} inside${this.options.toggles && !fixed[g] ? `, ${collapsed[g] ? "collapsed, Enter opens" : "open, Enter closes"} it` : ""}`);
    this.need();
  }

  told(hit) {
    if (hit.node >= 0) return this.describe(hit.node);
    return hit.link >= 0 ? this.describeLink(hit.link) : null;
  }

  describe(i) {
    const { label, kind, detail, state, count, id } = this.model.nodes;
    const name = label[i] || id[i];
    const named = detail[i] === name || detail[i].startsWith(`${name},`) || detail[i].startsWith(`${name} `);
    const together = count[i] > 1 && !name.includes(String(count[i])) ? `${count[i]} together` : "";
    return [named ? "" : name, together, detail[i] || kind[i], state[i]].filter(Boolean).join(", ");
  }

  describeLink(i) {
    const { label, detail, state, source, target, load } = this.model.links;
    if (detail[i]) return detail[i];
    const ends = `${this.model.nodes.label[source[i]]} – ${this.model.nodes.label[target[i]]}`;
    return [ends, label[i], load[i] === null ? "" : `load ${Math.round(load[i] * 100)} %`, state[i]].filter(Boolean).join(", ");
  }

  // ------------------------------------------------ what is under the pointer

  pick(x, y, slack) {
    const group = this.pickCaption(x, y);
    if (group >= 0) return { group };
    const far = this.picture.painter.isFar(this.camera);
    const node = this.pickNode(x, y, slack, far);
    if (node >= 0) return { node };
    if (far) return { tile: this.pickTile(x, y) };
    const link = this.pickLink(x, y, slack);
    return link >= 0 ? { link } : {};
  }

  pickNode(x, y, slack, far) {
    const { camera, model, sizes } = this;
    const reach = 40;
    let [best, least] = [-1, Infinity];
    for (const i of model.within(camera.u(x - reach), camera.v(y - reach), camera.u(x + reach), camera.v(y + reach))) {
      if (far && model.groupOf[i] >= 0) continue;
      const r = sizes.of(i, camera.z);
      const [wide, high] = extent(model.nodes.kind[i]);
      const [dx, dy] = [Math.abs(camera.x(model.u[i]) - x), Math.abs(camera.y(model.v[i]) - y)];
      if (dx > wide * r + slack || dy > high * r + slack) continue;
      if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = i; }
    }
    return best;
  }

  pickLink(x, y, slack) {
    const { camera, model, sizes } = this;
    const { source, target, n } = model.links;
    const [u, v] = [camera.u(x), camera.v(y)];
    const [mu, mv] = [12 / (camera.bw * camera.z), 12 / (camera.bh * camera.z)];
    let [best, least] = [-1, (slack + 3) ** 2];
    for (let i = 0; i < n; i++) {
      const [a, b] = [source[i], target[i]];
      if (!model.shape[i]) {
        if (Math.min(model.u[a], model.u[b]) - mu > u || Math.max(model.u[a], model.u[b]) + mu < u) continue;
        if (Math.min(model.v[a], model.v[b]) - mv > v || Math.max(model.v[a], model.v[b]) + mv < v) continue;
      }
      const d = distance2(linkCourse(model, sizes, i, camera), x, y);
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  pickCaption(x, y) {
    if (this.picture.painter.isFar(this.camera)) return -1;
    for (let g = 0; g < this.model.groups.n; g++) {
      const box = this.picture.painter.captionOf(g, this.camera);
      if (box && x >= box.x && x <= box.x + Math.min(box.w, 170) && y >= box.y - 3 && y <= box.y + box.h + 2) return g;
    }
    return -1;
  }

  pickTile(x, y) {
    for (let g = 0; g < this.model.groups.n; g++) {
      const box = this.picture.painter.frameBox(g, this.camera);
      if (box && x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h) return g;
    }
    return -1;
  }

  // ------------------------------------------------ the clock, told to the page

  play() { this.clock.play(); this.tell.time(this.clock); this.need(); }
  pause() { this.clock.pause(); this.tell.stopped(this.clock); this.need(); }
  toggle() { if (this.clock.playing) this.pause(); else this.play(); }
  step(count) { this.clock.step(count); if (!this.clock.playing) this.tell.stopped(this.clock); this.tell.time(this.clock); this.need(); }
  seek(time) { this.clock.seek(time); this.tell.stopped(this.clock); this.need(); }

  exportPng(name) {
    const out = document.createElement("canvas");
    [out.width, out.height] = [this.canvas.width, this.canvas.height];
    const pen = out.getContext("2d");
    pen.fillStyle = this.theme.card;
    pen.fillRect(0, 0, out.width, out.height);
    pen.drawImage(this.canvas, 0, 0);
    const link = document.createElement("a");
    link.download = name;
    link.href = out.toDataURL("image/png");
    link.click();
  }
}
