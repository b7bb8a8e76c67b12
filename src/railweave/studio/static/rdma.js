// Lab 4: two hosts with what is at work lit, the packets between them, the trace and the inspector
// of packets. One selection runs through all of them; only a frame's bytes are asked of the server.

import { ByteGrid, PacketGrid, bitsOf, drawing, fieldsAt, onTheWay, pathOf, place } from "railweave-rdma";

const NARROW_PX = 620;
const STEP_MS = 800;
const TOLD_MS = 200;
const WINDOW = 60;
const LABELS = {
  application: "Application", "queue pair": "Queue pair", "completion queue": "Completion queue", memory: "Memory", NIC: "NIC",
};

const icon = (path) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg>`;
const ICONS = {
  play: icon("M7 4l13 8-13 8z"), pause: icon("M8 5v14M16 5v14"), back: icon("M17 5l-9 7 9 7zM6 5v14"), next: icon("M7 5l9 7-9 7zM18 5v14"),
};

// How many entries of a sorted list are at most `value`.
const upTo = (list, value) => {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
};

const indexed = (run) => {
  const { packets, events } = run;
  const flights = packets.sent.map((time, k) => (packets.arrival[k] === null ? 0 : packets.arrival[k] - time));
  const longest = flights.reduce((most, one) => Math.max(most, one), 0);
  const order = (time) => upTo(packets.sent, time) - 1;
  order.done = (k, time) => packets.sent[k] + longest < time;
  const first = new Map();
  events.packet.forEach((packet, step) => { if (packet >= 0 && !first.has(packet)) first.set(packet, step); });
  const by = (column, side) => column.filter((_, k) => side(k)).filter((one) => one !== null).sort((a, b) => a - b);
  const counts = [0, 1].map((host) => ({
    sent: by(packets.sent, (k) => packets.direction[k] === host),
    taken: by(packets.arrival, (k) => packets.direction[k] !== host),
    done: run.completions.filter((one) => one.host === host),
  }));
  return { order, first, counts };
};

export default {
  template: `
  <div class="rwp">
    <section class="rw-card rwp-scene" aria-label="Two hosts">
      <div class="rwp-phases" role="group" aria-label="Steps of the operation">
        <template v-for="(name, k) in phases">
          <span v-if="k" class="rwp-then" aria-hidden="true">→</span>
          <button type="button" :class="{ 'rwp-on': k === phase }" :aria-pressed="k === phase" :disabled="starts[k] < 0" @click="go(starts[k])">{{ name }}</button>
        </template>
      </div>
      <div ref="stage" class="rwp-stage" tabindex="0" role="application" aria-roledescription="drawing" :aria-label="about" @keydown="stageKey">
        <svg :viewBox="form.view" role="presentation" :class="{ 'rwp-tall': tall }">
          <line :x1="form.wire[0]" :y1="form.wire[1]" :x2="form.wire[2]" :y2="form.wire[3]" class="rwp-cable" />
          <g v-for="host in form.hosts" :class="'rwp-host-' + host.host">
            <rect class="rwp-frame" :x="host.frame[0]" :y="host.frame[1]" :width="host.frame[2]" :height="host.frame[3]" rx="10" />
            <text class="rwp-name" :x="host.title[0]" :y="host.title[1]">{{ names[host.host] }}<tspan class="rwp-small" dx="8">{{ host.host ? "responder" : "requester" }}</tspan></text>
            <line v-for="one in host.wires" class="rwp-inner" :x1="one[0]" :y1="one[1]" :x2="one[2]" :y2="one[3]" />
            <g v-for="(box, part) in host.parts" :class="['rwp-part', { 'rwp-lit': host.host === lit.host && part === lit.part }]" :data-part="part" :data-host="host.host">
              <rect :x="box[0]" :y="box[1]" :width="box[2]" :height="box[3]" rx="6" />
              <text v-for="(line, k) in words(host.host, part, box)" :class="line[1]" :x="box[0] + box[2] / 2" :y="box[1] + box[3] / 2 + line[2]">{{ line[0] }}</text>
            </g>
          </g>
          <g :class="['rwp-part', 'rwp-fabric', { 'rwp-lit': lit.part === 'fabric' }]" data-part="fabric">
            <rect :x="form.fabric[0]" :y="form.fabric[1]" :width="form.fabric[2]" :height="form.fabric[3]" rx="26" />
            <text v-for="(line, k) in fabricLines" :class="k ? 'rwp-small' : ''" :x="form.fabric[0] + form.fabric[2] / 2" :y="form.fabric[1] + form.fabric[3] / 2 + 4 + 15 * (k - (fabricLines.length - 1) / 2)">{{ line }}</text>
          </g>
          <g v-for="one in flying" :key="one.index" :class="['rwp-token', 'rwp-k-' + one.kind, { 'rwp-on': one.index === packet, 'rwp-gone': one.lost }]" :style="{ transform: 'translate(' + one.x + 'px,' + one.y + 'px)' }" :data-packet="one.index" @click="choosePacket(one.index)">
            <path :d="one.kind === 'data' || one.kind === 'request' ? 'M-9-6H9V6H-9Z' : one.kind === 'nak' ? 'M0-9L9 0 0 9-9 0Z' : 'M-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0Z'" />
            <path v-if="one.lost" class="rwp-cross" d="M-11-11L11 11M11-11L-11 11" />
            <text v-if="one.index === packet" :x="one.dx" :y="one.dy" :style="{ textAnchor: one.anchor }">{{ one.back ? '← ' : '' }}{{ short(one.index) }}{{ one.back ? '' : ' →' }}</text>
          </g>
        </svg>
      </div>
      <div class="rwp-bar">
        <div class="rwp-run" role="group" aria-label="Animation">
          <button type="button" :aria-label="playing ? 'Pause' : 'Play'" title="Play, pause (Space)" @click="toggle" v-html="playing ? icons.pause : icons.play"></button>
          <button type="button" aria-label="Step back" title="Step back (←)" @click="walk(-1)" v-html="icons.back"></button>
          <button type="button" aria-label="Step forwards" title="Step forwards (→)" @click="walk(1)" v-html="icons.next"></button>
          <input type="range" min="0" :max="Math.max(0, count - 1)" step="1" aria-label="Step" :aria-valuetext="clock" :value="step" @input="walkTo(Number($event.target.value))" />
          <select aria-label="Speed" v-model.number="factor"><option v-for="one in [0.5, 1, 2, 4, 10]" :value="one">{{ one }}×</option></select>
        </div>
        <span class="rwp-clock">{{ clock }}</span>
      </div>
      <p class="rwp-now" role="status"><b>{{ who }}</b> {{ what }}</p>
    </section>
    <section class="rw-card rwp-inspector" aria-label="Packet inspector">
      <div class="rw-h2" role="heading" aria-level="2">Packets</div>
      <p class="rw-quiet">{{ seen }}</p>
      <div ref="list" class="rwp-grid rwp-list" role="grid" tabindex="0" aria-label="List of packets">
        <div class="rwp-row rwp-head" role="rowgroup"><div role="row" aria-rowindex="1" class="rwp-row"><span v-for="(name, k) in ['No.', 'time', 'way', 'opcode', 'PSN', 'bytes', 'notes']" role="columnheader" :class="{ 'rwp-num': [0, 1, 4, 5].includes(k) }">{{ name }}</span></div></div>
      </div>
      <p v-if="!packets" class="rw-quiet">No packet was sent.</p>
      <div v-show="frame" class="rwp-panes">
        <div>
          <div class="rw-h3" role="heading" aria-level="3">Headers of packet {{ frame ? frame.index : "" }}</div>
          <ul ref="tree" class="rwp-tree" role="tree" tabindex="0" aria-label="Header tree" :aria-activedescendant="field ? id(field) : null" @keydown="treeKey">
            <li v-for="layer in layers" :key="layer.name" role="treeitem" :id="id(layer.name)" :data-path="layer.name" :aria-expanded="!closed[layer.name]" :aria-selected="field === layer.name" :class="['rwp-top', { 'rwp-on': field === layer.name }]">
              <div class="rwp-layer" @click="chooseField(layer.name); flip(layer.name)"><span aria-hidden="true">{{ closed[layer.name] ? "▸" : "▾" }}</span> <b>{{ layer.name }}</b> <span class="rw-quiet">{{ layer.title }}bytes {{ layer.start }} to {{ layer.end - 1 }}</span></div>
              <ul v-if="!closed[layer.name]" role="group">
                <li v-for="one in layer.fields" role="treeitem" :id="id(layer.name + '.' + one.name)" :data-path="layer.name + '.' + one.name" :aria-selected="field === layer.name + '.' + one.name" :class="{ 'rwp-on': field === layer.name + '.' + one.name }" @click="chooseField(layer.name + '.' + one.name)">
                  <span class="rwp-field">{{ one.name }}</span><span class="rwp-value">{{ one.text }}</span><span class="rwp-meaning">{{ one.meaning }}<em v-if="one.masked"> · ones in the ICRC</em></span>
                </li>
              </ul>
            </li>
          </ul>
        </div>
        <div>
          <div class="rw-h3" role="heading" aria-level="3">Bytes</div>
          <div ref="bytes" class="rwp-grid rwp-bytes" role="grid" tabindex="0" aria-label="Bytes of the packet"></div>
          <p class="rwp-picked" role="status">{{ picked }}</p>
          <p v-if="bits.length" class="rwp-bits" aria-hidden="true"><template v-for="one in bits"><i v-if="one.gap"></i><button type="button" tabindex="-1" :class="{ 'rwp-lit': one.on }" :title="one.path" @click="chooseField(one.path)">{{ one.one }}</button></template></p>
          <p :class="['rwp-icrc', frame && frame.icrc && !frame.icrc.ok ? 'rwp-bad' : '']">{{ icrc }}</p>
          <p v-for="text in (frame ? frame.problems : [])" class="rwp-bad">{{ text }}</p>
        </div>
      </div>
    </section>
    <section class="rw-card rwp-tracing" aria-label="Events">
      <div class="rw-h2" role="heading" aria-level="2">Trace: who did what</div>
      <div class="rwp-more"><button v-if="from > 0" type="button" @click="shift(-1)">Earlier events</button><span class="rw-quiet">Events {{ from + 1 }} to {{ Math.min(count, from + window) }} of {{ count.toLocaleString("en-US") }}</span></div>
      <div ref="trace" class="rwp-grid rwp-trace" role="grid" tabindex="0" aria-label="Event trace" :aria-rowcount="count + 1" :aria-activedescendant="'rwp-' + uid + '-e' + step" @keydown="traceKey">
        <div role="row" aria-rowindex="1" class="rwp-event rwp-head"><span v-for="(name, k) in ['time', 'host', 'actor', 'part', 'what']" role="columnheader" :class="{ 'rwp-num': !k }">{{ name }}</span></div>
        <div v-for="one in events" :key="one.step" role="row" :id="'rwp-' + uid + '-e' + one.step" :aria-rowindex="one.step + 2" :data-step="one.step" :aria-selected="one.step === step" :class="['rwp-event', 'rwp-a-' + one.actor, { 'rwp-on': one.step === step, 'rwp-same': one.step !== step && packet >= 0 && one.packet === packet }]" @click="walkTo(one.step)">
          <span role="gridcell" class="rwp-num">{{ one.time }}</span><span role="gridcell">{{ one.host }}</span><span role="gridcell" class="rwp-actor">{{ one.actor }}</span><span role="gridcell">{{ one.part }}</span><span role="gridcell" class="rwp-what">{{ one.what }}</span>
        </div>
      </div>
      <div class="rwp-more"><button v-if="from + window < count" type="button" @click="shift(1)">Later events</button></div>
    </section>
  </div>`,
  props: { document: String, chosen: Object },
  emits: ["want", "picked"],
  data: () => ({
    step: 0, packet: -1, field: "", playing: false, factor: 1, tall: false, count: 0, packets: 0, phases: [], starts: [], names: ["", ""],
    fabric: [], seen: "", frame: null, closed: {}, from: 0, window: WINDOW, icons: ICONS, byteText: "", turn: 0,
  }),
  computed: {
    uid() { return this.$.uid; },
    form() { return drawing(this.tall); },
    now() {
      const { events, parts, actors } = this.run(this.turn);
      const k = this.step;
      if (!this.count) return null;
      return { time: events.seconds[k], text: events.time[k], host: events.host[k], part: parts[events.part[k]], actor: actors[events.actor[k]], phase: events.phase[k], what: events.what[k], packet: events.packet[k] };
    },
    phase() { return this.now ? this.now.phase : -1; },
    lit() { return this.now ? { host: this.now.part === "fabric" ? -1 : this.now.host, part: this.now.part } : {}; },
    what() { return this.now ? this.now.what : ""; },
    who() { return this.now ? `${this.now.actor}${this.now.part === "fabric" ? "" : `, ${this.names[this.now.host]}`}:` : ""; },
    clock() { return this.now ? `step ${this.step + 1} of ${this.count.toLocaleString("en-US")}, ${this.now.text}` : ""; },
    about() { return `Two hosts, ${this.names.join(" and ")}, with application, queue pair, completion queue, memory and NIC each, and the fabric between them. Arrow keys go from event to event, Space plays, 1 to 5 choose the step of the operation.`; },
    fabricLines() { return ["Fabric", ...this.fabric]; },
    flying() {
      if (!this.now || this.now.phase < this.phases.indexOf("transport")) return [];
      const { packets } = this.run(this.turn);
      const mine = this.now.packet;
      const where = this.now.part === "fabric" ? 0.5 : mine >= 0 && packets.direction[mine] === this.now.host ? 0 : 1;
      return onTheWay(this.form, packets, this.$_index.order, this.now.time, mine, where);
    },
    layers() { return this.frame ? this.frame.layers : []; },
    at() { return place(this.frame, this.field); },
    bits() { return this.frame ? bitsOf(this.frame, this.at) : []; },
    picked() {
      const at = this.at;
      if (!at) return this.byteText;
      const name = at.field ? `${at.layer.name}, ${at.field.name}: ${at.field.text}` : at.layer.name;
      const [from, to] = [at.first >> 3, (at.first + at.bits - 1) >> 3];
      const where = from === to ? `byte ${from}` : `bytes ${from} to ${to}`;
      const part = at.first % 8 || at.bits % 8 ? `, ${at.bits} bit${at.bits > 1 ? "s" : ""} from bit ${at.first % 8}` : "";
      return `${name} (${where}${part})`;
    },
    icrc() {
      if (!this.frame || !this.frame.icrc) return "";
      const { expected, found, ok } = this.frame.icrc;
      return ok ? `ICRC ${found}: right. Underlined bytes hold fields that the network may change; they count as ones in it.` : `ICRC ${found}: wrong, it should be ${expected}.`;
    },
    events() {
      const { events, parts, actors } = this.run(this.turn);
      const rows = [];
      for (let k = this.from; k < Math.min(this.count, this.from + WINDOW); k++) {
        rows.push({ step: k, time: events.time[k], host: this.names[events.host[k]], actor: actors[events.actor[k]], part: parts[events.part[k]], what: events.what[k], packet: events.packet[k] });
      }
      return rows;
    },
  },
  watch: {
    document(text) { this.load(text); },
    at() { this.shine(); },
  },
  mounted() {
    this.$_packets = new PacketGrid(this.$refs.list, this.uid, (index) => this.choosePacket(index));
    this.$_bytes = new ByteGrid(this.$refs.bytes, this.uid, (byte, again) => this.chooseByte(byte, again));
    this.$_watch = new ResizeObserver(() => { this.tall = this.$el.clientWidth < NARROW_PX; });
    this.$_watch.observe(this.$el);
    const { step = 0, packet = 0, field = "" } = this.chosen || {};
    Object.assign(this, { step, packet, field });
    this.load(this.document);
  },
  beforeUnmount() {
    clearTimeout(this.$_timer);
    clearTimeout(this.$_telling);
    this.$_watch.disconnect();
    this.$_packets.destroy();
    this.$_bytes.destroy();
  },
  methods: {
    run() { return this.$_run || { events: {}, parts: [], actors: [], packets: {} }; },
    id(path) { return `rwp-${this.uid}-${path.replace(/[^A-Za-z0-9]/g, "-")}`; },
    load(text) {
      if (!text) return;
      const run = JSON.parse(text);
      const fresh = !this.$_run;
      this.pause();
      this.$_run = run;
      this.$_index = indexed(run);
      this.count = run.events.time.length;
      this.packets = run.packets.direction.length;
      Object.assign(this, { phases: run.phases, names: run.names, fabric: run.fabric, seen: run.seen });
      this.starts = run.phases.map((_, k) => run.events.phase.indexOf(k));
      this.step = Math.max(0, Math.min(this.step, this.count - 1));
      this.packet = this.packets ? Math.max(0, Math.min(this.packet, this.packets - 1)) : -1;
      if (!fresh) this.frame = null;
      this.turn += 1;
      this.center();
      this.$_packets.load(run.packets);
      this.$_packets.select(this.packet);
      this.want();
    },
    // ------------------------------------------------ the drawing
    words(host, part, box) {
      const label = LABELS[part];
      const { counts } = this.$_index || {};
      if (!counts || !this.now) return [[label, "", 4]];
      const time = this.now.time;
      const { sent, taken, done } = counts[host];
      let below = "";
      if (part === "NIC") below = this.tall ? `${upTo(sent, time)} sent, ${upTo(taken, time)} received` : "";
      if (part === "completion queue") {
        const there = done.filter((one) => one.time <= time);
        below = there.length ? there[there.length - 1].status : "empty";
      }
      if (part === "memory" || part === "queue pair") below = this.$_run.below[part][host];
      const lines = part === "completion queue" ? ["Completion", "queue"] : [label];
      if (part === "NIC" && !this.tall) lines.push(...[`${upTo(sent, time)} sent`, `${upTo(taken, time)} in`].map((one) => `~${one}`));
      if (below) lines.push(`~${below}`);
      const start = 4 - ((lines.length - 1) * 15) / 2;
      return lines.map((line, k) => (line[0] === "~" ? [line.slice(1), "rwp-small", start + 15 * k] : [line, "", start + 15 * k]));
    },
    short(index) {
      const { packets } = this.$_run;
      return packets.opcodes[packets.opcode[index]];
    },
    stageKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const deeds = {
        ArrowRight: () => this.walk(1), ArrowLeft: () => this.walk(-1), Home: () => this.walkTo(0), End: () => this.walkTo(this.count - 1),
        " ": () => this.toggle(),
      };
      const phase = "12345".indexOf(event.key);
      const deed = deeds[event.key] || (phase >= 0 && event.key && this.starts[phase] >= 0 ? () => this.go(this.starts[phase]) : null);
      if (!deed) return;
      event.preventDefault();
      deed();
    },
    toggle() { if (this.playing) this.pause(); else this.play(); },
    play() {
      if (this.step >= this.count - 1) this.moveTo(0);
      this.playing = true;
      const next = () => {
        this.$_timer = setTimeout(() => {
          this.moveTo(this.step + 1);
          if (this.step >= this.count - 1) this.pause();
          else next();
        }, STEP_MS / this.factor);
      };
      next();
    },
    pause() {
      clearTimeout(this.$_timer);
      if (this.playing) { this.playing = false; this.tell(); }
    },
    walk(by) { this.walkTo(this.step + by); },
    go(step) { this.walkTo(step); },
    walkTo(step) { this.pause(); this.moveTo(step); },
    moveTo(step) {
      if (!this.count) return;
      this.step = Math.max(0, Math.min(this.count - 1, step));
      this.center();
      const mine = this.now.packet;
      if (mine >= 0 && mine !== this.packet) this.showPacket(mine);
      this.tell();
    },
    // ------------------------------------------------ the packets
    choosePacket(index) {
      this.pause();
      this.showPacket(index);
      const step = this.$_index.first.get(index);
      if (step !== undefined) { this.step = step; this.center(); }
      this.tell();
    },
    showPacket(index) {
      this.packet = index;
      this.$_packets.select(index);
      this.want();
    },
    want() {
      if (this.packet < 0) { this.frame = null; return; }
      const now = performance.now();
      clearTimeout(this.$_asking);
      const ask = () => { this.$_asked = performance.now(); this.$emit("want", { key: this.$_run.key, packet: this.packet }); };
      if (now - (this.$_asked || 0) > 60) ask();
      else this.$_asking = setTimeout(ask, 60);
    },
    show(text) {
      const frame = JSON.parse(text);
      if (frame.key !== this.$_run.key || frame.index !== this.packet) return;
      const masked = new Set();
      for (const layer of frame.layers) {
        for (const one of layer.fields) {
          if (!one.masked) continue;
          for (let byte = one.first_bit >> 3; byte * 8 < one.first_bit + one.bits; byte++) masked.add(byte);
        }
      }
      this.frame = frame;
      this.byteText = "Choose a field or a byte.";
      this.$nextTick(() => { this.$_bytes.load(frame.hex, masked); this.shine(); this.revealField(); });
    },
    shine() {
      const at = this.at;
      if (!this.$_bytes) return;
      if (at) this.$_bytes.light(at.first >> 3, (at.first + at.bits + 7) >> 3);
      else this.$_bytes.light(0, 0);
    },
    chooseByte(byte, again) {
      const here = fieldsAt(this.frame, byte);
      const now = here.indexOf(this.field);
      const next = now < 0 ? here[0] : again ? here[(now + 1) % here.length] : this.field;
      if (next) this.chooseField(next);
      else { this.chooseField(""); this.byteText = `Byte ${byte}: part of no field.`; }
    },
    chooseField(path) {
      this.field = path;
      const layer = path.split(".")[0];
      if (path.includes(".") && this.closed[layer]) this.closed = { ...this.closed, [layer]: false };
      this.shine();
      this.$nextTick(() => this.revealField());
      this.tell();
    },
    revealField() {
      const row = this.field && document.getElementById(this.id(this.field));
      const tree = this.$refs.tree;
      if (!row || !tree) return;
      const line = row.classList.contains("rwp-top") ? row.firstElementChild : row;
      const [top, bottom] = [row.offsetTop, row.offsetTop + line.offsetHeight + 8];
      if (top < tree.scrollTop) tree.scrollTop = top;
      else if (bottom > tree.scrollTop + tree.clientHeight) tree.scrollTop = bottom - tree.clientHeight;
    },
    flip(name) { this.closed = { ...this.closed, [name]: !this.closed[name] }; },
    treeKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.frame) return;
      const paths = this.layers.flatMap((layer) => [layer.name, ...(this.closed[layer.name] ? [] : layer.fields.map((one) => pathOf(layer, one)))]);
      const k = paths.indexOf(this.field);
      const [layer, leaf] = this.field.split(".");
      const deeds = {
        ArrowDown: () => this.chooseField(paths[Math.min(paths.length - 1, k + 1)]), ArrowUp: () => this.chooseField(paths[Math.max(0, k - 1)]),
        Home: () => this.chooseField(paths[0]), End: () => this.chooseField(paths[paths.length - 1]),
        ArrowLeft: () => { if (leaf) this.chooseField(layer); else if (layer) this.closed = { ...this.closed, [layer]: true }; },
        ArrowRight: () => { if (!leaf && layer) this.closed = { ...this.closed, [layer]: false }; },
        Enter: () => { if (!leaf && layer) this.flip(layer); },
      };
      if (!deeds[event.key]) return;
      event.preventDefault();
      deeds[event.key]();
    },
    // ------------------------------------------------ the trace
    center() {
      if (this.step < this.from || this.step >= this.from + WINDOW) this.from = Math.max(0, this.step - (this.step % (WINDOW / 2)));
      this.$nextTick(() => {
        const row = document.getElementById(`rwp-${this.uid}-e${this.step}`);
        const box = this.$refs.trace;
        if (!row || !box) return;
        const head = box.firstElementChild.offsetHeight;
        if (row.offsetTop - head < box.scrollTop) box.scrollTop = row.offsetTop - head;
        else if (row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = row.offsetTop + row.offsetHeight - box.clientHeight;
      });
    },
    shift(by) { this.from = Math.max(0, Math.min(this.count - 1, this.from + by * WINDOW)); this.$refs.trace.scrollTop = 0; },
    traceKey(event) {
      const to = { ArrowDown: this.step + 1, ArrowUp: this.step - 1, PageDown: this.step + 10, PageUp: this.step - 10, Home: 0, End: this.count - 1 }[event.key];
      if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.walkTo(to);
    },
    // ------------------------------------------------ the address
    tell() {
      if (this.playing) return;
      clearTimeout(this.$_telling);
      this.$_telling = setTimeout(() => this.$emit("picked", { step: this.step, packet: this.packet, field: this.field }), TOLD_MS);
    },
  },
};
