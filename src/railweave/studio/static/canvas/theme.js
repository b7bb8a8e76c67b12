// Colours: of the page by its custom properties, of roles by the palette the server gave.

const read = (style, name, fallback) => style.getPropertyValue(name).trim() || fallback;

const channels = (text) => {
  const hex = text.match(/^#([0-9a-f]{6})$/i);
  if (hex) return [0, 2, 4].map((i) => parseInt(hex[1].slice(i, i + 2), 16));
  const short = text.match(/^#([0-9a-f]{3})$/i);
  if (short) return [0, 1, 2].map((i) => parseInt(short[1][i] + short[1][i], 16));
  const numbers = text.match(/[\d.]+/g);
  return numbers && numbers.length >= 3 ? numbers.slice(0, 3).map(Number) : [128, 140, 155];
};

const mix = (a, b, part) => {
  const [p, q] = [channels(a), channels(b)];
  return `rgb(${p.map((value, i) => Math.round(value + (q[i] - value) * part)).join(",")})`;
};

export class Theme {
  constructor(root, palette, heat) {
    const style = getComputedStyle(root);
    this.dark = document.body.classList.contains("body--dark");
    this.ink = read(style, "--rwc-ink", "#1c2430");
    this.quiet = read(style, "--rwc-quiet", "#55606e");
    this.line = read(style, "--rwc-line", "#d5dae1");
    this.card = read(style, "--rwc-card", "#ffffff");
    this.focus = read(style, "--rwc-focus", "#1c2430");
    this.font = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
    this.palette = palette;
    this.cache = new Map();
    this.heatStops = heat;
    this.thread = mix(this.card, this.quiet, this.dark ? 0.62 : 0.5);
  }

  remember(key, make) {
    let value = this.cache.get(key);
    if (value === undefined) this.cache.set(key, (value = make()));
    return value;
  }

  // The role's colour, lightened on a dark ground so that it stands out as much as on a light one.
  role(name) {
    return this.remember(`role ${name}`, () => {
      const base = this.palette[name];
      if (!base) return this.quiet;
      return this.dark ? mix(base, "#ffffff", 0.32) : base;
    });
  }

  tint(name, part) {
    return this.remember(`tint ${name} ${part}`, () => mix(this.card, this.role(name), part));
  }

  // A link's colour: softer than its nodes, so that many of them stay calm.
  thin(name) {
    return this.remember(`thin ${name}`, () => (this.palette[name] ? mix(this.card, this.role(name), 0.62) : this.thread));
  }

  // Utilisation 0..1, in 20 steps so that links can be drawn together.
  heat(load) {
    const step = Math.round(Math.max(0, Math.min(1, load)) * 20) / 20;
    return this.remember(`heat ${step}`, () => {
      const stops = this.heatStops;
      let i = 1;
      while (i < stops.length - 1 && stops[i][0] < step) i++;
      const [[a, from], [b, to]] = [stops[i - 1], stops[i]];
      // The first stop is transparent: idle is as quiet as the page's own lines.
      const [low, high] = [i === 1 ? this.line : from, to].map((one) => mix(one, one, 0));
      return mix(low, high, (step - a) / (b - a || 1));
    });
  }
}
