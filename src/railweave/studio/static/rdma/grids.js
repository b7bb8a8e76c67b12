// Two grids of which only the rows in sight exist: packets, and the bytes of one of them.

const escape = (text) =>
  String(text).replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);

const SPARE = 4;

class Rows {
  constructor(scroller, height, html) {
    this.scroller = scroller;
    this.height = height;
    this.html = html;
    this.count = 0;
    this.shown = "";
    this.body = document.createElement("div");
    this.body.className = "rwp-rows";
    this.body.setAttribute("role", "rowgroup");
    scroller.append(this.body);
    scroller.addEventListener("scroll", () => this.draw());
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(scroller);
  }

  get head() { return this.body.offsetTop - this.scroller.offsetTop; }

  load(count) {
    this.count = count;
    this.scroller.setAttribute("aria-rowcount", count);
    this.body.style.height = `${count * this.height}px`;
    this.shown = "";
    this.draw();
  }

  draw(anew = false) {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - SPARE);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + SPARE);
    const range = `${first} ${last}`;
    if (range === this.shown && !anew) return;
    this.shown = range;
    const rows = [];
    for (let row = first; row < last; row++) rows.push(this.html(row, row * this.height));
    this.body.innerHTML = rows.join("");
  }

  reveal(row) {
    const top = row * this.height;
    const room = this.scroller.clientHeight - this.body.offsetTop;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.height > this.scroller.scrollTop + room) this.scroller.scrollTop = top + this.height - room;
  }

  destroy() { this.watch.disconnect(); }
}

const KEY_STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

// The list of packets: one row each, the selected one marked and in sight.
export class PacketGrid {
  constructor(scroller, uid, choose) {
    this.uid = uid;
    this.choose = choose;
    this.selected = -1;
    this.rows = new Rows(scroller, 28, (row, top) => this.row(row, top));
    this.scroller = scroller;
    scroller.addEventListener("click", (event) => {
      const row = event.target.closest("[data-packet]");
      if (row) this.choose(Number(row.dataset.packet));
    });
    scroller.addEventListener("keydown", (event) => {
      const step = KEY_STEPS[event.key];
      if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      const next = Math.max(0, Math.min(this.rows.count - 1, this.selected + step));
      if (this.rows.count) this.choose(next);
    });
  }

  load(packets) {
    this.packets = packets;
    const count = packets.direction.length;
    this.scroller.style.height = `${Math.min(252, 30 + 28 * (count + 1))}px`;
    this.rows.load(count);
  }

  row(index, top) {
    const p = this.packets;
    const on = index === this.selected;
    const cell = (text, kind = "") => `<span role="gridcell"${kind && ` class="${kind}"`}>${escape(text)}</span>`;
    const note = p.notes[p.note[index]];
    return (
      `<div role="row" id="rwp-${this.uid}-p${index}" data-packet="${index}" aria-rowindex="${index + 2}"` +
      ` aria-selected="${on}" class="rwp-row rwp-k-${p.kind[index]}${on ? " rwp-on" : ""}" style="top:${top}px">` +
      cell(index, "rwp-num") + cell(p.time[index], "rwp-num") + cell(p.direction[index] ? "←" : "→", "rwp-dir") +
      cell(p.opcodes[p.opcode[index]]) + cell(p.psn[index] < 0 ? "" : p.psn[index], "rwp-num") +
      cell(p.bytes[index].toLocaleString("en-US"), "rwp-num") + cell(note, "rwp-said") + "</div>"
    );
  }

  select(index) {
    this.selected = index;
    if (index >= 0) {
      this.rows.reveal(index);
      this.scroller.setAttribute("aria-activedescendant", `rwp-${this.uid}-p${index}`);
    }
    this.rows.draw(true);
  }

  destroy() { this.rows.destroy(); }
}

// The bytes of a frame, in hex and as text; some of them lit.
export class ByteGrid {
  constructor(scroller, uid, choose) {
    this.uid = uid;
    this.choose = choose;
    this.hex = "";
    this.masked = new Set();
    this.lit = [0, 0];
    this.cursor = -1;
    this.per = 16;
    this.scroller = scroller;
    this.rows = new Rows(scroller, 22, (row, top) => this.row(row, top));
    scroller.addEventListener("click", (event) => {
      const byte = event.target.closest("[data-byte]");
      if (byte) this.move(Number(byte.dataset.byte), true);
    });
    scroller.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(scroller);
  }

  get count() { return this.hex.length / 2; }

  fit() {
    const per = this.scroller.clientWidth < 500 ? 8 : 16;
    if (per === this.per) return;
    this.per = per;
    this.rows.load(Math.ceil(this.count / per));
    this.reveal();
  }

  load(hex, masked) {
    this.hex = hex;
    this.masked = masked;
    this.cursor = -1;
    this.rows.load(Math.ceil(this.count / this.per));
  }

  // Light the bytes from `first` to before `end`.
  light(first, end) {
    this.lit = [first, end];
    if (this.cursor < first || this.cursor >= end) this.cursor = end > first ? first : -1;
    this.reveal();
  }

  reveal() {
    if (this.cursor >= 0) {
      this.rows.reveal(Math.floor(this.cursor / this.per));
      this.scroller.setAttribute("aria-activedescendant", `rwp-${this.uid}-b${this.cursor}`);
    } else this.scroller.removeAttribute("aria-activedescendant");
    this.rows.draw(true);
  }

  move(byte, again) {
    if (byte < 0 || byte >= this.count) return;
    const same = byte === this.cursor;
    this.cursor = byte;
    this.choose(byte, same && again);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.per, ArrowUp: -this.per };
    const to = { Home: 0, End: this.count - 1 }[event.key] ?? (event.key in steps ? Math.max(0, this.cursor) + steps[event.key] : -1);
    const enter = event.key === "Enter" || event.key === " ";
    if ((to < 0 && !(event.key in steps) && !enter) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.move(enter ? this.cursor : to, enter);
  }

  row(row, top) {
    const from = row * this.per;
    const to = Math.min(this.count, from + this.per);
    let hex = "";
    let text = "";
    for (let byte = from; byte < to; byte++) {
      const two = this.hex.slice(byte * 2, byte * 2 + 2);
      const code = parseInt(two, 16);
      const kind = `${byte >= this.lit[0] && byte < this.lit[1] ? "rwp-lit" : ""}${this.masked.has(byte) ? " rwp-mask" : ""}${byte === this.cursor ? " rwp-at" : ""}`;
      hex += `<span role="gridcell" id="rwp-${this.uid}-b${byte}" data-byte="${byte}" class="${kind}">${two}</span>`;
      text += `<i data-byte="${byte}" class="${kind}">${code > 32 && code < 127 ? escape(String.fromCharCode(code)) : "·"}</i>`;
    }
    const fill = "<b></b>".repeat(this.per - (to - from));
    return (
      `<div role="row" class="rwp-line" aria-rowindex="${row + 1}" style="top:${top}px">` +
      `<span role="rowheader" class="rwp-offset">${from.toString(16).padStart(4, "0")}</span>` +
      `<span class="rwp-hex" role="presentation">${hex}${fill}</span><span class="rwp-text" aria-hidden="true">${text}</span></div>`
    );
  }

  destroy() {
    this.watch.disconnect();
    this.rows.destroy();
  }
}
