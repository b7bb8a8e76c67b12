// The still picture kept as a bitmap: moved and scaled while the view moves, painted anew in pieces.

import { Painter } from "./paint.js";

const LIGHT = 1400; // as much as is painted at once, in one frame
const MARGIN = 0.3; // of the view, painted round it in a large scene so that it can be moved

const cameraFor = (camera, margin) => {
  const own = camera.copy();
  own.w = camera.w * (1 + 2 * margin);
  own.h = camera.h * (1 + 2 * margin);
  return own;
};

export class Picture {
  constructor(model, sizes, theme, ratio, toggles) {
    this.painter = new Painter(model, sizes, theme);
    this.painter.ratio = ratio;
    this.painter.toggles = toggles;
    this.ratio = ratio;
    this.shown = null;
    this.job = null;
    this.spare = null;
    this.repaints = 0;
  }

  // Bring the picture nearer to what the camera sees; true while there is more to do.
  work(camera, budget, moving) {
    const light = this.painter.weight(camera) <= LIGHT;
    // A draft, painted while the view moved, is made good when it rests.
    const good = this.shown && (moving || !this.shown.draft);
    if (good && this.fresh(this.shown, camera, light)) { this.drop(); return false; }
    if (light || !this.shown) {
      this.drop();
      this.job = this.begin(camera, light ? 0 : MARGIN, false);
      while (!this.job.steps.next().done);
      this.finish();
      return false;
    }
    if (!this.job || !this.useful(this.job, camera) || (this.job.draft && !moving)) {
      this.drop();
      this.job = this.begin(camera, MARGIN, moving);
    }
    const end = performance.now() + budget;
    while (performance.now() < end) {
      if (!this.job.steps.next().done) continue;
      this.finish();
      return !this.fresh(this.shown, camera, light);
    }
    return true;
  }

  begin(camera, margin, draft) {
    const own = cameraFor(camera, margin);
    const [w, h] = [Math.ceil(own.w * this.ratio), Math.ceil(own.h * this.ratio)];
    // Two bitmaps take turns: making a new one costs as much as painting a small scene.
    let canvas = this.spare;
    this.spare = null;
    if (!canvas || canvas.width !== w || canvas.height !== h) {
      canvas = document.createElement("canvas");
      Object.assign(canvas, { width: w, height: h });
    }
    const pen = canvas.getContext("2d");
    pen.reset();
    pen.scale(this.ratio, this.ratio);
    return { camera: own, of: camera.copy(), canvas, margin, draft, steps: this.painter.paint(pen, own, draft) };
  }

  drop() {
    if (this.job) this.spare = this.job.canvas;
    this.job = null;
  }

  finish() {
    if (this.shown) this.spare = this.shown.canvas;
    this.shown = this.job;
    this.shown.steps = null;
    this.job = null;
    this.repaints++;
  }

  // Whether a picture needs no painting: it is this very view or, with room to spare, one beside it.
  fresh(picture, camera, light) {
    if (!picture) return false;
    if (picture.of.same(camera)) return true;
    if (light || !picture.margin) return false;
    const alike = picture.of.z === camera.z && picture.of.bw === camera.bw && picture.of.bh === camera.bh && picture.of.w === camera.w && picture.of.h === camera.h;
    return alike && this.inside(picture, camera, 0.3);
  }

  inside(picture, camera, spare) {
    const [dx, dy] = [picture.camera.x(camera.u(0)), picture.camera.y(camera.v(0))];
    const [ex, ey] = [picture.camera.x(camera.u(camera.w)), picture.camera.y(camera.v(camera.h))];
    const [mx, my] = [spare * MARGIN * camera.w, spare * MARGIN * camera.h];
    return dx >= mx && dy >= my && ex <= picture.camera.w - mx && ey <= picture.camera.h - my;
  }

  useful(job, camera) {
    const zoomed = camera.z / job.of.z;
    if (zoomed < 0.6 || zoomed > 1.7 || job.of.bw !== camera.bw || job.of.w !== camera.w) return false;
    return this.inside(job, camera, 0);
  }

  draw(c, camera) {
    const picture = this.shown;
    if (!picture) return;
    const [x, y] = [camera.x(picture.camera.u(0)), camera.y(picture.camera.v(0))];
    const [w, h] = [camera.x(picture.camera.u(picture.camera.w)) - x, camera.y(picture.camera.v(picture.camera.h)) - y];
    const snap = (value) => Math.round(value * this.ratio) / this.ratio;
    const still = Math.abs(w - picture.camera.w) < 0.01;
    const [pw, ph] = [picture.canvas.width / this.ratio, picture.canvas.height / this.ratio];
    c.imageSmoothingEnabled = !still;
    if (still) c.drawImage(picture.canvas, snap(x), snap(y), pw, ph);
    else c.drawImage(picture.canvas, x, y, (pw * w) / picture.camera.w, (ph * h) / picture.camera.h);
    c.imageSmoothingEnabled = true;
  }
}
