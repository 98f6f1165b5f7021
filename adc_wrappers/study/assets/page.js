"use strict";
// Draws the study's charts as SVG from the JSON in this page. Nothing is loaded from anywhere.
const study = JSON.parse(document.getElementById("study-data").textContent);
const hidden = new Set();
const charts = [];
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(node);
  return node;
}

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

function label(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return +(value / 1e6).toPrecision(4) + " M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(4) + " k";
  return String(+value.toPrecision(4));
}

const pencil = document.createElement("canvas").getContext("2d");
pencil.font = '12px system-ui, -apple-system, "Segoe UI", sans-serif'; // as in the style of svg text

function textWidth(text) { return pencil.measureText(text).width + 2; }

// A label under an axis; the first and the last are moved in so that nothing of them is cut off.
function tickText(parent, x, y, width, text) {
  const half = textWidth(text) / 2;
  make("text", { x: Math.max(half + 1, Math.min(x, width - half - 1)), y, "text-anchor": "middle" }, parent).textContent = text;
}

class LineChart {
  constructor(figure, data) {
    this.data = data;
    this.figure = figure;
    this.svg = make("svg", { role: "img", "aria-label": data.title });
    this.readout = document.createElement("div");
    this.readout.className = "readout";
    this.addTools(figure.querySelector(".chart-tools"));
    figure.append(this.svg, this.readout);
    this.measure();
    this.reset();
    this.addZoom();
  }

  addTools(tools) {
    for (const [text, name, action] of [["+", "zoom in", () => this.scale(0.5)], ["−", "zoom out", () => this.scale(2)], ["⟲", "whole range", () => this.reset(true)]]) {
      const button = document.createElement("button");
      button.textContent = text;
      button.title = name;
      button.setAttribute("aria-label", `${this.data.title}: ${name}`);
      button.onclick = action;
      tools.append(button);
    }
  }

  // One unit of the drawing is one pixel of the screen, so that letters are as large on a phone as on a desk.
  measure() {
    const width = Math.max(240, this.figure.clientWidth), height = Math.min(320, Math.max(220, width * 0.56));
    this.box = { left: 46, right: 12, top: 8, bottom: 38, width, height };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
  }

  resize() { this.measure(); this.draw(); }

  visible() { return this.data.series.filter((s) => !hidden.has(s.condition)); }

  // A curve that would flatten all others is left outside at first; the whole range has it.
  reset(whole = false) {
    const shown = this.visible().length ? this.visible() : this.data.series;
    const numbers = (keys) => shown.flatMap((s) => keys.flatMap((k) => s[k])).filter((v) => v !== null);
    const range = (values) => {
      const low = Math.min(...values), high = Math.max(...values);
      const margin = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
      return [low - margin, high + margin];
    };
    const x = numbers(["x"]);
    const cut = this.data.view && !whole;
    this.view = { x: [Math.min(...x), Math.max(...x)], y: cut ? this.data.view : range(numbers(["y", "low", "high"])) };
    this.readout.textContent = cut ? `Axis cut: ${this.data.outside.join(", ")} far outside; ⟲ shows all.` : "";
    this.zoomed = whole && Boolean(this.data.view);
    this.draw();
  }

  scale(factor) {
    for (const axis of ["x", "y"]) {
      const [low, high] = this.view[axis], middle = (low + high) / 2, half = ((high - low) / 2) * factor;
      this.view[axis] = [middle - half, middle + half];
    }
    this.zoomed = true;
    this.draw();
  }

  px(v) { const b = this.box, [l, h] = this.view.x; return b.left + ((v - l) / (h - l)) * (b.width - b.left - b.right); }
  py(v) { const b = this.box, [l, h] = this.view.y; return b.height - b.bottom - ((v - l) / (h - l)) * (b.height - b.top - b.bottom); }
  vx(p) { const b = this.box, [l, h] = this.view.x; return l + ((p - b.left) / (b.width - b.left - b.right)) * (h - l); }
  vy(p) { const b = this.box, [l, h] = this.view.y; return l + ((b.height - b.bottom - p) / (b.height - b.top - b.bottom)) * (h - l); }

  draw() {
    const b = this.box, id = `clip-${this.data.id}`;
    this.svg.replaceChildren();
    const clip = make("clipPath", { id }, make("defs", {}, this.svg));
    make("rect", { x: b.left, y: b.top, width: b.width - b.left - b.right, height: b.height - b.top - b.bottom }, clip);
    for (const v of ticks(...this.view.x, Math.max(3, b.width / 90))) {
      make("line", { x1: this.px(v), x2: this.px(v), y1: b.top, y2: b.height - b.bottom, class: "axis" }, this.svg);
      tickText(this.svg, this.px(v), b.height - b.bottom + 15, b.width, label(v));
    }
    for (const v of ticks(...this.view.y, 5)) {
      make("line", { x1: b.left, x2: b.width - b.right, y1: this.py(v), y2: this.py(v), class: "axis" }, this.svg);
      make("text", { x: b.left - 5, y: this.py(v) + 4, "text-anchor": "end" }, this.svg).textContent = label(v);
    }
    make("text", { x: (b.left + b.width) / 2, y: b.height - 4, "text-anchor": "middle" }, this.svg).textContent = this.data.x;
    const plot = make("g", { "clip-path": `url(#${id})` }, this.svg);
    for (const s of this.visible()) {
      const up = s.x.map((x, i) => `${this.px(x).toFixed(1)},${this.py(s.high[i]).toFixed(1)}`);
      const down = s.x.map((x, i) => `${this.px(x).toFixed(1)},${this.py(s.low[i]).toFixed(1)}`).reverse();
      make("polygon", { points: [...up, ...down].join(" "), fill: s.colour, opacity: 0.14 }, plot);
    }
    for (const s of this.visible()) {
      const points = s.x.map((x, i) => `${this.px(x).toFixed(1)},${this.py(s.y[i]).toFixed(1)}`).join(" ");
      make("polyline", { points, fill: "none", stroke: s.colour, "stroke-width": 1.8, "data-condition": s.condition }, plot);
    }
    this.overlay = make("g", {}, this.svg);
    this.frame = make("rect", { x: b.left, y: b.top, width: b.width - b.left - b.right, height: b.height - b.top - b.bottom, class: "frame" }, this.svg);
  }

  at(event) {
    const r = this.svg.getBoundingClientRect();
    return [((event.clientX - r.left) / r.width) * this.box.width, ((event.clientY - r.top) / r.height) * this.box.height];
  }

  addZoom() {
    let start = null;
    this.svg.addEventListener("pointerdown", (e) => {
      if (e.pointerType === "touch" || !e.target.classList.contains("frame")) return;
      start = this.at(e);
      this.svg.setPointerCapture(e.pointerId);
    });
    this.svg.addEventListener("pointermove", (e) => {
      const here = this.at(e);
      this.overlay.replaceChildren();
      if (start) {
        const [x, y] = [Math.min(start[0], here[0]), Math.min(start[1], here[1])];
        make("rect", { x, y, width: Math.abs(here[0] - start[0]), height: Math.abs(here[1] - start[1]), class: "selection" }, this.overlay);
      } else this.read(here[0]);
    });
    this.svg.addEventListener("pointerup", (e) => {
      if (!start) return;
      const end = this.at(e), from = start;
      start = null;
      if (Math.abs(end[0] - from[0]) < 6 || Math.abs(end[1] - from[1]) < 6) return;
      this.view = {
        x: [this.vx(Math.min(from[0], end[0])), this.vx(Math.max(from[0], end[0]))],
        y: [this.vy(Math.max(from[1], end[1])), this.vy(Math.min(from[1], end[1]))],
      };
      this.zoomed = true;
      this.draw();
    });
    this.svg.addEventListener("dblclick", () => this.reset());
  }

  read(pixel) {
    if (pixel < this.box.left || pixel > this.box.width - this.box.right) return;
    const x = this.vx(pixel);
    make("line", { x1: pixel, x2: pixel, y1: this.box.top, y2: this.box.height - this.box.bottom, class: "cursor" }, this.overlay);
    const parts = this.visible().map((s) => {
      let best = 0;
      s.x.forEach((v, i) => { if (Math.abs(v - x) < Math.abs(s.x[best] - x)) best = i; });
      return `${s.title} ${label(s.y[best])}`;
    });
    this.readout.textContent = `${this.data.x} ${label(x)}: ${parts.join(" · ")}`;
  }

  update() { if (this.zoomed) this.draw(); else this.reset(); }
}

class RowChart {
  // One row per condition: a dot with its interval, or a bar of shares.
  constructor(figure, data) {
    this.data = data;
    this.figure = figure;
    this.svg = make("svg", { role: "img", "aria-label": data.title });
    figure.append(this.svg);
    this.update();
  }

  resize() { this.update(); }

  shown(value) { return this.data.percent ? `${label(100 * value)} %` : label(value); }

  // Where the axis lies: from the least to the greatest, a share from nothing to all.
  range(rows) {
    if (this.data.percent && (this.data.parts || rows.some((r) => r.high > 0.3))) return [0, 1];
    const values = rows.flatMap((r) => [r.low, r.high, r.value]);
    const low = Math.min(...values), high = Math.max(...values), margin = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
    return this.data.percent ? [0, Math.max(high * 1.05, 0.01)] : [low - margin, high + margin];
  }

  update() {
    const rows = this.data.rows.filter((r) => !hidden.has(r.condition)), keys = this.data.parts || [];
    const width = Math.max(240, this.figure.clientWidth), narrow = width < 460;
    const left = narrow ? 8 : Math.max(60, ...rows.map((r) => textWidth(r.title) + 14)), right = 14, height = narrow ? 40 : 26, down = narrow ? 26 : height / 2;
    const columns = Math.max(1, Math.floor(width / 170));
    const legend = keys.length ? 20 * Math.ceil(keys.length / columns) : 0;
    const total = rows.length * height + 28 + legend;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${total}`);
    this.svg.setAttribute("height", total);
    this.svg.replaceChildren();
    if (!rows.length) return;
    const [low, high] = this.range(rows);
    const px = (v) => left + ((v - low) / (high - low)) * (width - left - right);
    for (const v of ticks(low, high, Math.max(3, (width - left) / 80))) {
      make("line", { x1: px(v), x2: px(v), y1: 0, y2: rows.length * height, class: "axis" }, this.svg);
      tickText(this.svg, px(v), rows.length * height + 15, width, this.shown(v));
    }
    rows.forEach((r, i) => {
      const y = i * height + down;
      make("text", narrow ? { x: left, y: y - 13 } : { x: left - 10, y: y + 4, "text-anchor": "end" }, this.svg).textContent = r.title;
      if (r.shares) this.bar(r, y, px, keys); else this.dot(r, y, px);
    });
    keys.forEach((key, k) => {
      const x = 2 + (k % columns) * 170, y = rows.length * height + 26 + 20 * Math.floor(k / columns);
      make("rect", { x, y, width: 11, height: 11, rx: 2, fill: key.colour }, this.svg);
      make("text", { x: x + 16, y: y + 10 }, this.svg).textContent = key.name;
    });
  }

  bar(r, y, px, keys) {
    let x = 0;
    r.shares.forEach((share, k) => {
      const bar = make("rect", { x: px(x), y: y - 8, width: Math.max(0, px(x + share) - px(x)), height: 16, fill: keys[k].colour }, this.svg);
      make("title", {}, bar).textContent = `${r.title}, ${keys[k].name}: ${(100 * share).toFixed(1)} %`;
      x += share;
    });
  }

  dot(r, y, px) {
    make("line", { x1: px(r.low), x2: px(r.high), y1: y, y2: y, stroke: r.colour, "stroke-width": 7, opacity: 0.35, "stroke-linecap": "round" }, this.svg);
    const dot = make("circle", { cx: px(r.value), cy: y, r: 5.5, fill: r.colour, "data-condition": r.condition }, this.svg);
    make("title", {}, dot).textContent = `${r.title}: ${this.shown(r.value)} (${this.shown(r.low)} to ${this.shown(r.high)})`;
  }
}

function addLegend() {
  const bar = document.querySelector(".legend");
  for (const c of study.conditions) {
    const button = document.createElement("button");
    button.textContent = c.title;
    button.style.setProperty("--colour", c.colour);
    button.dataset.condition = c.name;
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => {
      if (hidden.has(c.name)) hidden.delete(c.name); else hidden.add(c.name);
      button.setAttribute("aria-pressed", String(!hidden.has(c.name)));
      document.querySelectorAll("tr[data-condition]").forEach((row) => row.classList.toggle("hidden-condition", hidden.has(row.dataset.condition)));
      charts.forEach((chart) => chart.update());
    };
    bar.append(button);
  }
}

function makeSortable(table) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => { const c = row.cells[column]; return c.dataset.value === undefined ? c.textContent.trim() : +c.dataset.value; };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x === "number" && typeof y === "number") return x - y;
        if (typeof x === "number") return 1;
        if (typeof y === "number") return -1;
        return x.localeCompare(y);
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
      table.tBodies[0].append(...rows);
    };
  });
}

addLegend();
document.querySelectorAll("table.sortable").forEach(makeSortable);
for (const data of study.charts) {
  const figure = document.getElementById(data.id);
  charts.push(data.rows ? new RowChart(figure, data) : new LineChart(figure, data));
}
let asked = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(asked);
  asked = requestAnimationFrame(() => charts.forEach((chart) => chart.resize()));
});
