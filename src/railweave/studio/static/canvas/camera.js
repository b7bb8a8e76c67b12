// Where the view is: places 0..1 of a scene to pixels of the canvas.

const MOST_ZOOM = 4000;

export class Camera {
  constructor() {
    this.z = 1; this.cx = 0.5; this.cy = 0.5;
    this.w = 1; this.h = 1; this.bw = 1; this.bh = 1; this.rise = 0;
  }

  // Fit a scene into a canvas of w by h pixels; the visitor's zoom and place stay.
  shape(model, w, h) {
    const framed = model.groups.n > 0;
    const padX = w < 500 ? 30 : 48;
    const [padTop, padBottom] = [framed ? 58 : 44, framed ? 46 : 44];
    this.rise = (padBottom - padTop) / 2;
    this.w = Math.max(1, w); this.h = Math.max(1, h);
    const room = [Math.max(20, w - 2 * padX), Math.max(20, h - padTop - padBottom)];
    if (model.aspect > 0 && (model.width || model.height)) {
      const unit = Math.min(
        model.width ? room[0] / (model.width * model.aspect) : Infinity,
        model.height ? room[1] / model.height : Infinity,
      );
      this.bw = Math.max(1, model.width * model.aspect * unit);
      this.bh = Math.max(1, model.height * unit);
    } else {
      [this.bw, this.bh] = room;
    }
  }

  fit() { this.z = 1; this.cx = 0.5; this.cy = 0.5; }
  x(u) { return (u - this.cx) * this.bw * this.z + this.w / 2; }
  // The middle stands a little low, so that there is room for captions on top.
  y(v) { return (v - this.cy) * this.bh * this.z + this.h / 2 - this.rise; }
  u(x) { return (x - this.w / 2) / (this.bw * this.z) + this.cx; }
  v(y) { return (y - this.h / 2 + this.rise) / (this.bh * this.z) + this.cy; }

  pan(dx, dy) {
    this.cx -= dx / (this.bw * this.z);
    this.cy -= dy / (this.bh * this.z);
    this.hold();
  }

  // Zoom so that the point under (x, y) stays there.
  zoom(factor, x = this.w / 2, y = this.h / 2 - this.rise) {
    const [u, v] = [this.u(x), this.v(y)];
    this.z = Math.min(MOST_ZOOM, Math.max(0.5, this.z * factor));
    this.cx = u - (x - this.w / 2) / (this.bw * this.z);
    this.cy = v - (y - this.h / 2 + this.rise) / (this.bh * this.z);
    this.hold();
  }

  // The scene never leaves the view altogether.
  hold() {
    const [mx, my] = [0.4 * (this.w / (this.bw * this.z)), 0.4 * (this.h / (this.bh * this.z))];
    this.cx = Math.min(1 + mx, Math.max(-mx, this.cx));
    this.cy = Math.min(1 + my, Math.max(-my, this.cy));
  }

  // Move as little as shows a place with some room round it.
  reveal(u, v) {
    const room = 48;
    const [x, y] = [this.x(u), this.y(v)];
    const dx = x < room ? room - x : x > this.w - room ? this.w - room - x : 0;
    const dy = y < room ? room - y : y > this.h - room ? this.h - room - y : 0;
    if (dx || dy) this.pan(dx, dy);
    return dx !== 0 || dy !== 0;
  }

  copy() { return Object.assign(new Camera(), this); }

  same(other) {
    return other && this.z === other.z && this.cx === other.cx && this.cy === other.cy &&
      this.w === other.w && this.h === other.h && this.bw === other.bw && this.bh === other.bh;
  }
}
