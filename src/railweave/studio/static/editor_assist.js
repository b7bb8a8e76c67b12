// What the design editor adds to NiceGUI's CodeMirror: completion and help asked of the server,
// problems marked at their places, keys, the theme that follows the page. It joins the editor that
// stands beside it and draws nothing itself.
import * as CM from "nicegui-codemirror";

const SHAPES = { error: "●", warning: "▲", info: "·" };
const ORDER = { error: 2, warning: 1, info: 0 };
const SPOKEN_MS = 150;

// Python counts code points, the editor UTF-16 units; they differ beyond the basic plane only.
const isWide = (text) => /[\uD800-\uDBFF]/.test(text);
function toPython(doc, at) {
  const text = doc.sliceString(0, at);
  return isWide(text) ? [...text].length : at;
}
function fromPython(doc, places) {
  const text = doc.toString();
  if (!isWide(text)) return (place) => Math.min(place, text.length);
  const units = [0];
  for (const char of text) units.push(units[units.length - 1] + char.length);
  return (place) => units[Math.min(place, units.length - 1)];
}

class Sign extends CM.GutterMarker {
  constructor(severity) {
    super();
    this.severity = severity;
  }
  eq(other) {
    return other.severity === this.severity;
  }
  toDOM() {
    const span = document.createElement("span");
    span.className = `rw-sign rw-sign-${this.severity}`;
    span.textContent = SHAPES[this.severity];
    return span;
  }
}

const setMarks = CM.StateEffect.define();
const marksField = CM.StateField.define({
  create: () => ({ list: [], shown: CM.Decoration.none, signs: CM.RangeSet.empty }),
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return drawn(transaction.state.doc, effect.value);
    if (!transaction.docChanged) return value;
    const { changes } = transaction;
    return {
      list: value.list.map((mark) => ({ ...mark, from: changes.mapPos(mark.from, 1), to: changes.mapPos(mark.to, -1) })),
      shown: value.shown.map(changes),
      signs: value.signs.map(changes),
    };
  },
  provide: (field) => CM.EditorView.decorations.from(field, (value) => value.shown),
});

function drawn(doc, list) {
  const shown = [];
  const worst = new Map();
  for (const mark of list) {
    if (mark.to > mark.from && mark.severity !== "info")
      shown.push(CM.Decoration.mark({ class: `rw-mark rw-mark-${mark.severity}` }).range(mark.from, mark.to));
    const line = doc.lineAt(Math.min(mark.from, doc.length)).from;
    if (!worst.has(line) || ORDER[mark.severity] > ORDER[worst.get(line)]) worst.set(line, mark.severity);
  }
  const signs = [...worst].map(([at, severity]) => new Sign(severity).range(at));
  return { list, shown: CM.Decoration.set(shown, true), signs: CM.RangeSet.of(signs, true) };
}

const paragraph = (text, name) => {
  const element = document.createElement("div");
  element.textContent = text;
  if (name) element.className = name;
  return element;
};

export default {
  template: `<div class="hidden"></div>`,
  props: { editor: Number, label: String, described: String, most: Number },
  async mounted() {
    this.waiting = new Map();
    this.number = 0;
    await this.$nextTick(); // the page's elements can be looked up once all of them are there
    while (typeof mounted_app === "undefined" || !mounted_app) await new Promise((next) => setTimeout(next, 10));
    const host = getElement(this.editor);
    await host.editorPromise;
    this.host = host;
    this.view = host.editor;
    this.view.dispatch({ effects: CM.StateEffect.appendConfig.of(this.extensions()) });
    this.theme();
    this.watcher = new MutationObserver(() => this.theme());
    this.watcher.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.$emit("ready", {});
    this.speak();
  },
  beforeUnmount() {
    this.watcher?.disconnect();
    clearTimeout(this.timer);
  },
  methods: {
    theme() {
      this.host.setTheme(document.body.classList.contains("body--dark") ? "githubDark" : "githubLight");
    },
    extensions() {
      // One and the same each time it is asked for: a query is known by its source.
      const data = [{ autocomplete: (context) => this.complete(context) }];
      return [
        marksField,
        CM.EditorState.languageData.of(() => data),
        CM.EditorState.transactionFilter.of((transaction) => this.bounded(transaction)),
        CM.gutter({ class: "rw-signs", markers: (view) => view.state.field(marksField).signs }),
        CM.hoverTooltip((view, at) => this.hover(view, at), { hoverTime: 400 }),
        CM.EditorView.updateListener.of((update) => {
          if (update.docChanged || update.selectionSet) {
            clearTimeout(this.timer);
            this.timer = setTimeout(() => this.speak(), SPOKEN_MS);
          }
        }),
        CM.EditorView.contentAttributes.of({
          "aria-label": this.label,
          "aria-describedby": this.described,
          tabindex: "0",
          autocapitalize: "off",
          spellcheck: "false",
        }),
        CM.Prec.highest(
          CM.keymap.of([
            { key: "F8", run: () => this.step(1) },
            { key: "Shift-F8", run: () => this.step(-1) },
            { key: "Mod-.", run: () => this.fix() },
            { key: "Mod-Enter", run: () => (this.$emit("run", {}), true) },
          ]),
        ),
        // Escape, with nothing left to close: the next Tab leaves the editor.
        CM.Prec.lowest(CM.keymap.of([{ key: "Escape", run: (view) => (view.setTabFocusMode(2000), false) }])),
      ];
    },
    // A text too long for the studio is refused before it is there.
    bounded(transaction) {
      if (!transaction.docChanged || transaction.newDoc.length <= this.most) return transaction;
      this.$emit("refused", { length: transaction.newDoc.length });
      return [];
    },
    speak() {
      if (!this.view.dom.isConnected) return;
      const { doc, selection } = this.view.state;
      const text = isWide(doc.toString());
      this.$emit("cursor", {
        offset: toPython(doc, selection.main.head),
        length: text ? [...doc.toString()].length : doc.length,
      });
    },
    ask(kind, at) {
      const id = ++this.number;
      return new Promise((resolve) => {
        this.waiting.set(id, resolve);
        setTimeout(() => this.answer(id, null), 4000);
        this.$emit("ask", { id, kind, offset: toPython(this.view.state.doc, at) });
      });
    },
    answer(id, value) {
      this.waiting.get(id)?.(value);
      this.waiting.delete(id);
    },
    async complete(context) {
      const line = context.state.doc.lineAt(context.pos);
      const before = line.text.slice(0, context.pos - line.from);
      const begins = /(^|[\s[{,])[\w.+-]+$|[:,[{]\s$|^\s*-\s$|^\s+$/.test(before);
      if (!context.explicit && !begins) return null;
      const answer = await this.ask("complete", context.pos);
      if (!answer || context.aborted || !answer.items.length) return null;
      const place = fromPython(context.state.doc);
      const from = place(answer.start);
      const typed = context.state.sliceDoc(from, context.pos);
      if (!context.explicit && answer.items.length === 1 && answer.items[0].label === typed) return null;
      return {
        from,
        to: Math.max(place(answer.end), context.pos),
        validFor: /^[\w.+-]*$/,
        options: answer.items.map((item, number) => ({
          label: item.label,
          detail: item.detail,
          type: { field: "property", choice: "enum", part: "constant", example: "text" }[item.kind],
          info: item.info || undefined,
          boost: 50 - number,
          apply: (view, _, start, end) => {
            // As if typed, so that the values of a new field are offered at once.
            const goesOn = /[\s]$/.test(item.insert);
            view.dispatch({
              changes: { from: start, to: end, insert: item.insert },
              selection: { anchor: start + item.insert.length },
              userEvent: goesOn ? "input.type" : "input.complete",
              scrollIntoView: true,
            });
          },
        })),
      };
    },
    async hover(view, at) {
      const hits = view.state.field(marksField).list.filter((mark) => mark.from <= at && at <= mark.to);
      const help = hits.length ? null : await this.ask("describe", at);
      if (!hits.length && !help) return null;
      return {
        pos: hits.length ? Math.min(...hits.map((mark) => mark.from)) : at,
        above: true,
        create: () => {
          const dom = document.createElement("div");
          dom.className = "rw-hover";
          for (const mark of hits) {
            dom.append(paragraph(`${SHAPES[mark.severity]} ${mark.message}`, `rw-hover-${mark.severity}`));
            if (mark.allowed) dom.append(paragraph(`Allowed: ${mark.allowed}`));
            if (mark.nearest) dom.append(paragraph(`Did you mean ${mark.nearest}? (Ctrl-. puts it there)`));
          }
          if (help) {
            dom.append(paragraph(help.path, "rw-hover-path"), paragraph(help.description));
            if (help.default) dom.append(paragraph(`Default: ${help.default}`));
            if (help.allowed) dom.append(paragraph(`Takes: ${help.allowed}`));
          }
          return { dom };
        },
      };
    },
    step(by) {
      const { list } = this.view.state.field(marksField);
      const places = [...new Set(list.filter((mark) => mark.severity !== "info").map((mark) => mark.from))].sort((a, b) => a - b);
      if (!places.length) return true;
      const head = this.view.state.selection.main.head;
      const next = by > 0 ? (places.find((at) => at > head) ?? places[0]) : (places.findLast((at) => at < head) ?? places.at(-1));
      this.view.dispatch({ selection: { anchor: next }, effects: CM.EditorView.scrollIntoView(next, { y: "center" }) });
      return true;
    },
    fix() {
      const head = this.view.state.selection.main.head;
      const line = this.view.state.doc.lineAt(head);
      const near = this.view.state.field(marksField).list.filter((mark) => mark.fixable && mark.from <= line.to && mark.to >= line.from);
      const best = near.find((mark) => mark.from <= head && head <= mark.to) ?? near[0];
      if (best) this.$emit("fix", { number: best.number });
      return true;
    },
    // ------------------------------------------------ called by the server
    mark(marks, length) {
      if (!this.view) return;
      const { doc } = this.view.state;
      const own = isWide(doc.toString()) ? [...doc.toString()].length : doc.length;
      if (own !== length) return; // of an older text; newer ones follow
      const place = fromPython(doc);
      const list = marks.map((mark) => ({ ...mark, from: place(mark.start), to: place(mark.end) }));
      this.view.dispatch({ effects: setMarks.of(list) });
    },
    go(offset) {
      const at = fromPython(this.view.state.doc)(offset);
      this.view.dispatch({ selection: { anchor: at }, effects: CM.EditorView.scrollIntoView(at, { y: "center" }) });
      this.view.focus();
    },
    reveal(offset) {
      const at = fromPython(this.view.state.doc)(offset);
      this.view.dispatch({ effects: CM.EditorView.scrollIntoView(at, { y: "center" }) });
    },
    undo() {
      CM.undo(this.view);
    },
    redo() {
      CM.redo(this.view);
    },
    text() {
      return this.view.state.doc.toString();
    },
  },
};
