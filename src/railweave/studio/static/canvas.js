// The studio's one canvas: a Vue component round the stage that draws and moves.

import { KEYS, Stage, TIME_KEYS, quantity } from "railweave-canvas";

const STYLE = `
.rwc { --rwc-ink: var(--rw-ink, #1c2430); --rwc-quiet: var(--rw-quiet, #55606e); --rwc-line: var(--rw-line, #d5dae1);
  --rwc-card: var(--rw-card, #ffffff); --rwc-focus: var(--rw-ink, #1c2430);
  width: 100%; min-width: 0; color: var(--rwc-ink); font: 13px/1.4 system-ui, -apple-system, 'Segoe UI', sans-serif; }
.body--dark .rwc { --rwc-ink: var(--rw-ink, #e6eaf0); --rwc-quiet: var(--rw-quiet, #a3afbd); --rwc-line: var(--rw-line, #323b47);
  --rwc-card: var(--rw-card, #1a2028); --rwc-focus: var(--rw-ink, #e6eaf0); }
.rwc-view { position: relative; overflow: hidden; background: var(--rwc-card); border: 1px solid var(--rwc-line); border-radius: 8px 8px 0 0; }
.rwc canvas { display: block; width: 100%; height: 100%; cursor: grab; user-select: none; -webkit-user-select: none; -webkit-touch-callout: none; touch-action: none; outline: none; border-radius: inherit; }
.rwc canvas.rwc-whole { touch-action: pan-y; }
.rwc canvas:focus-visible { outline: 3px solid var(--rwc-focus); outline-offset: -3px; }
.rwc button { display: inline-grid; place-items: center; width: 32px; height: 32px; padding: 0; border: 1px solid var(--rwc-line); border-radius: 7px;
  background: var(--rwc-card); color: var(--rwc-ink); cursor: pointer; font: inherit; flex: none; }
.rwc button:hover { border-color: var(--rwc-quiet); }
.rwc button:focus-visible, .rwc input:focus-visible, .rwc select:focus-visible { outline: 3px solid var(--rwc-focus); outline-offset: 1px; }
.rwc svg { width: 16px; height: 16px; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
.rwc-bar { display: flex; align-items: center; gap: 6px; padding: 6px 8px; background: var(--rwc-card); border: 1px solid var(--rwc-line); border-top: 0; border-radius: 0 0 8px 8px; flex-wrap: wrap; }
.rwc-bar input { flex: 1 1 60px; min-width: 40px; height: 24px; accent-color: var(--rwc-ink); margin: 0 4px; }
.rwc-bar select { height: 32px; border: 1px solid var(--rwc-line); border-radius: 7px; background: var(--rwc-card); color: var(--rwc-ink); font: inherit; padding: 0 4px; }
.rwc-time { font-variant-numeric: tabular-nums; min-width: 116px; text-align: right; color: var(--rwc-quiet); white-space: nowrap; }
.rwc-step { flex: 1 0 100%; min-height: 18px; color: var(--rwc-ink); }
.rwc-run { display: flex; align-items: center; gap: 6px; flex: 1 1 300px; min-width: 0; }
.rwc-group { display: flex; gap: 6px; margin-left: auto; }
.rwc-note { font-size: 12px; color: var(--rwc-quiet); flex: 1 1 160px; padding-left: 4px; }
.rwc-tip { position: absolute; max-width: min(280px, 80%); padding: 5px 9px; border-radius: 6px; background: var(--rwc-ink); color: var(--rwc-card); font-size: 12px; pointer-events: none; z-index: 2; overflow-wrap: anywhere; }
.rwc-keys { position: absolute; right: 8px; bottom: 8px; z-index: 3; max-height: calc(100% - 16px); overflow: auto; max-width: calc(100% - 16px); box-sizing: border-box;
  background: var(--rwc-card); border: 1px solid var(--rwc-line); border-radius: 8px; padding: 10px 14px; box-shadow: 0 6px 24px rgb(0 0 0 / .18); }
.rwc-keys h3 { font: 600 13px/1.4 inherit; font-size: 13px; font-weight: 600; margin: 0 0 4px; line-height: 1.4; }
.rwc-keys dl { display: grid; grid-template-columns: auto 1fr; gap: 3px 14px; margin: 0; font-size: 12px; }
.rwc-keys dt { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; white-space: nowrap; } .rwc-keys dd { margin: 0; color: var(--rwc-quiet); }
.rwc-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; margin: 0; }
@media (pointer: coarse) { .rwc button { width: 36px; height: 36px; } .rwc-bar select { height: 36px; } }
`;
const styled = () => {
  if (document.getElementById("rwc-style")) return;
  const style = document.createElement("style");
  style.id = "rwc-style";
  style.textContent = STYLE;
  document.head.append(style);
};

const icon = (path) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg>`;
const ICONS = {
  plus: icon("M12 5v14M5 12h14"), minus: icon("M5 12h14"), fit: icon("M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5"),
  keys: icon("M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 18v.01"), play: icon("M7 4l13 8-13 8z"), pause: icon("M8 5v14M16 5v14"),
  back: icon("M17 5l-9 7 9 7zM6 5v14"), next: icon("M7 5l9 7-9 7zM18 5v14"),
};
const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const TIME_EVERY_MS = 250;

export default {
  template: `
    <div class="rwc">
      <div class="rwc-view" :style="{ height: height + 'px' }">
        <canvas ref="canvas" tabindex="0" role="application" aria-roledescription="drawing" :aria-label="title" :aria-describedby="'rwc-about-' + uid" :class="{ 'rwc-whole': whole }"></canvas>
        <p :id="'rwc-about-' + uid" class="rwc-unseen">{{ about }}</p>
        <div ref="tip" class="rwc-tip" aria-hidden="true" hidden></div>
        <div v-show="help" :id="'rwc-keys-' + uid" class="rwc-keys" tabindex="0" role="region" aria-label="List of keys" @keydown.escape.stop="help = false; $refs.help.focus()">
          <h3>Keys, once the drawing has the focus</h3>
          <dl><template v-for="[name, deed] in keys"><dt>{{ name }}</dt><dd>{{ deed }}</dd></template></dl>
        </div>
      </div>
      <div class="rwc-bar">
        <div v-if="moves" class="rwc-run" role="group" aria-label="Animation">
          <button type="button" :aria-label="playing ? 'Pause' : 'Play'" title="Play, pause (Space)" @click="stage().toggle()" v-html="playing ? icons.pause : icons.play"></button>
          <button type="button" aria-label="Step back" title="Step back (,)" @click="step(-1)" v-html="icons.back"></button>
          <button type="button" aria-label="Step forwards" title="Step forwards (.)" @click="step(1)" v-html="icons.next"></button>
          <input type="range" min="0" max="1000" step="1" aria-label="Time" :aria-valuetext="clockText" :value="part" @input="seek($event.target.value / 1000 * duration)" />
          <span class="rwc-time" aria-hidden="true">{{ clockText }}</span>
        </div>
        <div v-else class="rwc-note">{{ note }}</div>
        <select v-if="moves" aria-label="Speed" v-model.number="factor" @change="speed(factor)"><option v-for="one in speeds" :value="one">{{ one }}×</option></select>
        <div class="rwc-group" role="group" aria-label="View">
          <button type="button" aria-label="Zoom out" title="Zoom out (−)" @click="zoom(1 / 1.4)" v-html="icons.minus"></button>
          <button type="button" aria-label="Zoom in" title="Zoom in (+)" @click="zoom(1.4)" v-html="icons.plus"></button>
          <button type="button" aria-label="Fit the whole drawing" title="Fit (0)" @click="fit" v-html="icons.fit"></button>
          <button type="button" ref="help" aria-label="Keys" title="Keys" :aria-expanded="help ? 'true' : 'false'" :aria-controls="'rwc-keys-' + uid" @click="help = !help" v-html="icons.keys"></button>
        </div>
        <div v-if="says" class="rwc-step">{{ stepText || "\u00a0" }}</div>
        <div v-if="moves && note" class="rwc-step rwc-note">{{ note }}</div>
      </div>
      <div class="rwc-unseen" role="status" aria-live="polite">{{ spoken }}</div>
    </div>`,
  props: {
    document: String, palette: Object, heat: Array, height: Number, hint: String, autoplay: Boolean, loop: Boolean,
    toggles: Boolean, activates: Boolean, hearsTime: Boolean, chosen: String,
  },
  emits: ["select", "toggle", "activate", "time"],
  data: () => ({
    title: "", description: "", note: "", spoken: "", moves: false, playing: false, help: false, duration: 0, part: 0,
    clockText: "", stepText: "", says: false, factor: 1, whole: true, icons: ICONS, speeds: SPEEDS,
  }),
  computed: {
    uid() { return this.$.uid; },
    keys() {
      const own = this.hint ? [["double click", this.hint], ["Enter", this.hint]] : [];
      return [...KEYS.filter(([name]) => !(this.hint && name === "Enter")), ...own, ...(this.moves ? TIME_KEYS : [])];
    },
    about() { return `${this.description} ${this.moves ? "It moves: Space plays and pauses it." : ""} The bracket keys go from node to node; the button Keys lists all keys.`; },
  },
  watch: {
    document(text) { this.stage().load(text); },
  },
  mounted() {
    styled();
    const tell = {
      loaded: (model) => {
        Object.assign(this, { title: model.title || "Drawing", description: model.description, note: model.note, moves: model.moves, duration: model.duration });
        this.says = model.steps.some(([, text]) => text);
      },
      select: (id) => this.$emit("select", { id }),
      toggle: (g) => {
        const { groups } = this.stage().model;
        if (this.toggles && !groups.fixed[g]) this.$emit("toggle", { id: groups.id[g] });
        else this.stage().showGroup(g);
      },
      activate: (id) => { if (this.activates) this.$emit("activate", { id }); },
      say: (text) => { this.spoken = text; },
      tip: (text, x, y) => this.tip(text, x, y),
      time: (clock) => this.tick(clock, false),
      stopped: (clock) => this.tick(clock, true),
      viewed: () => { this.whole = this.stage().camera.z <= 1; },
    };
    const options = { palette: this.palette, heat: this.heat, toggles: this.toggles };
    this.$_stage = new Stage(this.$el, this.$refs.canvas, options, tell);
    this.$el.railweaveStage = this.$_stage;
    (window.__railweaveCanvas ||= new Set()).add(this.$_stage);
    this.$_stage.clock.loop = this.loop;
    this.$_stage.load(this.document);
    if (this.chosen) this.$_stage.choose(this.chosen);
    if (this.autoplay && !this.$_stage.clock.still) this.play();
  },
  beforeUnmount() {
    window.__railweaveCanvas.delete(this.$_stage);
    this.$_stage.destroy();
  },
  methods: {
    stage() { return this.$_stage; },
    play() { this.$_stage.play(); },
    pause() { this.$_stage.pause(); },
    step(count) { this.$_stage.step(count); },
    seek(time) { this.$_stage.seek(time); },
    speed(factor) { this.factor = factor; this.$_stage.clock.factor = factor; },
    select(id) { this.$_stage.choose(id); },
    fit() { this.$_stage.fit(); this.whole = true; },
    zoom(factor) { this.$_stage.zoom(factor); this.whole = this.$_stage.camera.z <= 1; },
    exportPng(name) { this.$_stage.exportPng(name); },
    tick(clock, stopped) {
      const now = performance.now();
      if (!stopped && clock.playing === this.playing && clock.playing && now - (this.$_told || 0) < 80) return;
      this.$_told = now;
      this.playing = clock.playing;
      this.part = clock.duration > 0 ? Math.round((1000 * clock.time) / clock.duration) : 0;
      this.clockText = `${quantity(clock.time, "s")} / ${quantity(clock.duration, "s")}`;
      const text = clock.text();
      if (text && text !== this.stepText && stopped) this.spoken = text;
      this.stepText = text;
      if (this.hearsTime && (stopped || clock.playing) && (stopped || now - (this.$_heard || 0) >= TIME_EVERY_MS)) {
        this.$_heard = now;
        this.$emit("time", { t_s: clock.time });
      }
    },
    tip(text, x, y) {
      const { tip } = this.$refs;
      if (!tip) return;
      tip.hidden = !text;
      if (!text) return;
      tip.textContent = text;
      const { clientWidth: w, clientHeight: h } = this.$refs.canvas;
      tip.style.left = `${Math.max(4, Math.min(w - tip.offsetWidth - 4, x + 14))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > h ? y - tip.offsetHeight - 10 : y + 18}px`;
    },
  },
};
