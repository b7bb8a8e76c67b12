// The scene's time: it runs only while the scene is played, at any speed, and stops at steps.

const WHOLE_S = 10; // the whole scene takes this long at speed 1
const STEP_S = 0.9; // and one step not longer than this

export class Clock {
  constructor() {
    this.time = 0; this.duration = 0; this.factor = 1;
    this.playing = false; this.until = null; this.loop = false;
    this.steps = [];
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  load(model) {
    this.duration = model.duration;
    this.steps = model.steps;
    this.time = 0;
    this.until = null;
    this.playing = this.playing && model.moves;
  }

  play() {
    if (!(this.duration > 0)) return;
    if (this.time >= this.duration) this.time = 0;
    this.playing = true;
    this.until = null;
  }

  pause() { this.playing = false; this.until = null; }

  seek(time) {
    this.pause();
    this.time = Math.max(0, Math.min(this.duration, time));
  }

  // Forwards a step is played, backwards it is gone to at once.
  step(count) {
    if (!(this.duration > 0) || !count) return;
    const slack = this.duration * 1e-9;
    const now = this.until ?? this.time;
    const times = this.steps.map(([time]) => time);
    const ahead = times.filter((time) => time > now + slack);
    const behind = times.filter((time) => time < now - slack).reverse();
    const target = count > 0 ? ahead[count - 1] ?? this.duration : behind[-count - 1] ?? 0;
    if (count < 0 || this.still) { this.seek(target); return; }
    this.until = target;
    this.playing = true;
    this.stepRate = Math.max(this.duration / WHOLE_S, (target - this.time) / STEP_S);
  }

  // Let real time pass; true if it stopped.
  tick(dt) {
    if (!this.playing) return false;
    const rate = this.until === null ? (this.duration / WHOLE_S) * this.factor : this.stepRate;
    this.time += dt * rate;
    const end = this.until ?? this.duration;
    if (this.time < end) return false;
    if (this.until === null && this.loop) { this.time %= this.duration; return false; }
    this.time = end;
    this.pause();
    return true;
  }

  // What is said at the step that was reached last.
  text() {
    let said = "";
    for (const [time, text] of this.steps) if (time <= this.time + this.duration * 1e-9) said = text;
    return said;
  }
}
