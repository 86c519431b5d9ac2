"use strict";
// Values under the pointer, and an x-axis that zooms; without this the page reads the same.
// Each chart has its numbers beside it (chart.py:Chart.values); x is in seconds where it is a time.
(() => {
const NAMESPACE = "http://www.w3.org/2000/svg", DAY = 86400, FAR = 40, LEAST = 6;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const HINT = matchMedia("(pointer: coarse)").matches
  ? "Charts: touch one for its values; two fingers zoom, one then moves it."
  : "Charts: point at one for its values; drag over it to zoom (or click it and turn the wheel), "
    + "double-click for all of it. By keyboard: arrows, + and −, Escape.";
const together = {};  // charts with one x-axis zoom together

const card = document.createElement("div");
card.className = "card";
card.setAttribute("role", "status");
card.hidden = true;
document.body.append(card);

function made(name, attributes) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function put(x, y) {  // the card beside a place of the window
  card.hidden = false;
  const [wide, tall] = [card.offsetWidth, card.offsetHeight];
  card.style.left = Math.max(4, x + 14 + wide > innerWidth ? x - 14 - wide : x + 14) + "px";
  card.style.top = Math.max(4, Math.min(y + 14, innerHeight - tall - 4)) + "px";
}

function number(value) {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
}

function span(seconds) {
  let left = Math.abs(seconds), text = "";
  if (left < 60) return (seconds < 0 ? "-" : "") + +left.toPrecision(3) + (left ? "s" : "");
  left = Math.round(left < 3600 ? left : left / 60) * (left < 3600 ? 1 : 60);
  for (const [unit, size] of [["d", DAY], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) text += count + unit;
  }
  return (seconds < 0 ? "-" : "") + text;
}

function instant(at, chart, wholeDays, whole) {
  if (chart.clock === null) return span(at);
  const then = new Date((chart.clock + at) * 1000), day = DAYS[then.getUTCDay()];
  const date = chart.dated ? ` ${then.getUTCDate()} ${MONTHS[then.getUTCMonth()]}` : "";
  const [hour, minute, second] = then.toISOString().slice(11, 19).split(":");
  if (wholeDays || (date && !whole && hour + minute + second === "000000")) return day + date;
  return `${day}${whole ? date : ""} ${hour}:${minute}${second === "00" ? "" : ":" + second}`;
}

function* ticks(chart, from, to) {
  const shows = chart.clock === null ? 0 : chart.clock - 4 * DAY, most = chart.most;
  let step = 10 ** Math.floor(Math.log10((to - from) / most)), name = at => number(at);
  step *= [1, 2, 5, 10].find(factor => (to - from) / (step * factor) <= most);
  if (chart.time) {
    step = STEPS.find(one => (to - from) / one <= most) || step;
    name = at => instant(at, chart, step >= DAY) || "0";
  }
  for (let at = Math.ceil((from + shows) / step) * step - shows; at <= to; at += step) yield [at, name(at)];
}

class View {
  constructor(figure, chart) {
    Object.assign(this, {figure, chart, svg: figure.querySelector("svg"), at: null});
    [this.left, this.top, this.width, this.height] = chart.box;
    this.flat = chart.log ? Math.log10 : x => x;
    this.whole = this.view = chart.x.map(this.flat);
    for (const one of chart.lines) {
      if (one.steps) one.x = Array.from({length: one.steps[2]}, (_, n) => one.steps[0] + n * one.steps[1]);
    }
    this.moved = [];  // [element, an attribute in which x stands, its text]
    for (const one of this.svg.querySelectorAll("[clip-path]")) {
      if (one.closest(".x,.y")) continue;
      for (const part of one.tagName === "g" ? one.children : [one])
        for (const name of part.tagName === "image" ? ["transform"] : ["d", "x", "width"])
          if (part.hasAttribute(name)) this.moved.push([part, name, part.getAttribute(name)]);
    }
    this.ticks = [...this.svg.querySelectorAll(".x > .tick")];
    this.marks = this.svg.appendChild(made("g", {class: "marks"}));
    this.fingers = new Map();  // by pointer: where it is, and of what x
    this.button = Object.assign(document.createElement("button"), {textContent: "all of it", hidden: true});
    this.button.addEventListener("click", () => this.reset());
    figure.append(this.button);
    (together[JSON.stringify([chart.x, chart.log, chart.clock])] ??= []).push(this);
    this.listen();
  }

  x(at) { return this.left + (this.flat(at) - this.view[0]) / (this.view[1] - this.view[0]) * this.width; }
  y(value) { const [low, high] = this.chart.y; return this.top + (high - value) / (high - low) * this.height; }
  flatAt(place) { return this.view[0] + (place - this.left) / this.width * (this.view[1] - this.view[0]); }
  back(place) { return this.chart.log ? 10 ** this.flatAt(place) : this.flatAt(place); }
  place(event) {  // of a pointer, in the picture's own units
    const box = this.svg.getBoundingClientRect(), scale = this.svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  listen() {
    const {figure, svg, chart} = this;
    figure.tabIndex = 0;
    if (!chart.names) svg.style.touchAction = "pan-y";  // the page scrolls, the rest is ours
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, event => {
      this.fingers.delete(event.pointerId);
      this.hold();
    });
    let from = null;
    svg.addEventListener("pointermove", event => {
      const [x, y] = this.place(event), finger = this.fingers.get(event.pointerId);
      if (finger) finger.x = x;
      if (finger && (this.fingers.size > 1 || this.isZoomed)) return this.follow();
      this.show(x, y, event);
      if (from !== null) this.select(from, x);
    });
    svg.addEventListener("pointerleave", () => { if (from === null) this.hide(); });
    svg.addEventListener("pointerdown", event => {
      if (event.pointerType === "touch") {
        const [x, y] = this.place(event);
        if (!chart.names) this.fingers.set(event.pointerId, {x});
        this.hold();
        return this.show(x, y, event);
      }
      if (chart.names || event.button) return;
      event.preventDefault();
      figure.focus({preventScroll: true});
      svg.setPointerCapture(event.pointerId);
      [from] = this.place(event);
    });
    svg.addEventListener("pointerup", event => {
      const [to] = this.place(event), begin = from;
      from = null;
      if (begin === null || Math.abs(to - begin) < LEAST) return;
      this.zoom(...[begin, to].sort((a, b) => a - b));
    });
    svg.addEventListener("dblclick", () => this.reset());
    svg.addEventListener("wheel", event => {
      if (document.activeElement !== figure || chart.names) return;
      event.preventDefault();
      this.around(this.place(event)[0], event.deltaY < 0 ? 0.7 : 1 / 0.7);
    }, {passive: false});
    figure.addEventListener("blur", () => this.hide());
    figure.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key], {left, width} = this;
      if (event.key === "Escape") this.reset();
      else if ("+-=".includes(event.key) && !chart.names && !event.ctrlKey && !event.metaKey)
        this.around(this.at ?? left + width / 2, event.key === "-" ? 1 / 0.7 : 0.7);
      else if (step) {
        const at = (this.at ?? left + width / 2) + step * width / (event.shiftKey ? 10 : 100);
        this.show(Math.min(left + width, Math.max(left, at)), this.top, null);
      } else return;
      event.preventDefault();
    });
  }

  hold() { for (const one of this.fingers.values()) one.at = this.flatAt(one.x); }
  follow() {  // what was under the fingers stays there
    const [low, high] = this.whole, [one, other] = this.fingers.values(), [from, to] = this.view;
    let span = to - from;
    if (other) span = (other.at - one.at) / (other.x - one.x) * this.width;
    if (!(span > 0)) return;
    const start = one.at - (one.x - this.left) / this.width * span;
    const first = Math.max(low, Math.min(start, high - span));
    this.limit(first, first + span);
  }
  get isZoomed() { return this.view.some((edge, n) => edge !== this.whole[n]); }

  around(place, factor) {
    const {left, width} = this;
    this.zoom(place - (place - left) * factor, place + (left + width - place) * factor);
  }
  zoom(first, last) {  // to what stands between two places
    this.limit(this.flatAt(first), this.flatAt(last));
  }
  limit(from, to) {
    const [low, high] = this.whole;
    const least = this.chart.time && !this.chart.log ? 10 : (high - low) / 1000;
    if (to - from < Math.min(least, high - low)) return;
    this.all([Math.max(low, from), Math.min(high, to)]);
  }
  reset() { this.all(this.whole); }
  all(view) {
    const {x, log, clock} = this.chart;
    for (const one of together[JSON.stringify([x, log, clock])]) one.draw([...view]);
    this.hide();
  }

  draw(view) {
    this.view = view;
    this.button.hidden = !this.isZoomed;
    const [low, high] = this.whole, [from, to] = view, scale = (high - low) / (to - from);
    const shift = this.left * (1 - scale) + (low - from) / (to - from) * this.width;
    const there = x => x * scale + shift;
    for (const [part, name, own] of this.moved) {
      const moved = {x: there, width: x => x * scale,
        // an image's own units are its pixels: its matrix says where they are, and how wide
        transform: matrix => matrix.replace(/\(([-\d.e]+) (.*) ([-\d.e]+) ([-\d.e]+)\)/,
          (_, wide, between, x, y) => `(${wide * scale} ${between} ${there(+x)} ${y})`),
        d: path => path.replace(/([-\d.]+) ([-\d.]+)/g, (_, x, y) => `${there(x).toFixed(2)} ${y}`)};
      part.setAttribute(name, moved[name](own));
    }
    const [first] = this.ticks;
    this.svg.querySelectorAll(".x > .zoomed").forEach(one => one.remove());
    for (const one of this.ticks) one.style.display = scale === 1 ? "" : "none";
    if (!first || scale === 1) return;
    for (const [at, name] of ticks(this.chart, ...[from, to].map(flat => this.chart.log ? 10 ** flat : flat))) {
      const one = first.cloneNode(true), text = one.querySelector("text"), x = this.x(at).toFixed(2);
      one.style.display = "";
      one.setAttribute("class", "tick zoomed");
      one.querySelector("path")?.setAttribute("d", `M${x} ${this.top}v${this.height}`);
      text.removeAttribute("transform");
      text.setAttribute("x", x);
      text.textContent = name;
      first.parentNode.append(one);
    }
  }

  select(from, to) {
    const [a, b] = [from, to].sort((one, other) => one - other);
    this.marks.append(made("rect", {x: a, y: this.top, width: b - a, height: this.height, class: "chosen"}));
  }
  hide() {
    this.marks.replaceChildren();
    this.at = null;
    card.hidden = true;
  }

  show(place, y, event) {
    const {chart, left, top, width, height} = this;
    this.hide();
    if (place < left - 1 || place > left + width + 1 || y < top - 1 || y > top + height + 1) return;
    this.at = place;
    const said = event?.target.closest?.("g[data-said]")?.dataset.said, rows = [];
    for (const line of chart.lines) {
      let best = null;
      line.x.forEach((at, n) => {
        if (line.y[n] !== null && (best === null || Math.abs(this.x(at) - place) < Math.abs(this.x(line.x[best]) - place)))
          best = n;
      });
      if (best === null || Math.abs(this.x(line.x[best]) - place) > FAR) continue;
      rows.push([line.colour, line.name, number(line.y[best]) + chart.unit, line.x[best], line.y[best]]);
    }
    const at = rows.length ? rows[0][3] : this.back(place);
    const when = chart.names ? chart.names[at] : chart.time ? instant(at, chart, false, true) || "0" : number(at) + chart.x_unit;
    const since = chart.clock === null ? "" : `, ${span(at) || "0"} after the start`;
    card.replaceChildren(Object.assign(document.createElement("b"), {textContent: when + since}));
    if (said) rows.unshift(["", said, ""]);
    const x = chart.names || rows.length ? this.x(at) : place;
    this.marks.append(made("line", {x1: x, x2: x, y1: top, y2: top + height}));
    for (const [colour, name, value, , height] of rows) {
      const row = document.createElement("div"), [swatch, text, end] = ["i", "span", "b"]
        .map(tag => row.appendChild(document.createElement(tag)));
      [text.textContent, end.textContent, swatch.style.background] = [name, value, `var(--${colour})`];
      card.append(row);
      if (colour && !chart.rows)
        this.marks.append(made("circle", {cx: x, cy: this.y(height), r: 2.5, style: `fill:var(--${colour})`}));
    }
    const box = this.svg.getBoundingClientRect(), scale = box.width / this.svg.viewBox.baseVal.width;
    if (event) put(event.clientX, event.clientY);
    else put(box.left + x * scale, box.top + top * scale);
  }
}

for (const title of document.querySelectorAll("figure g > title")) {
  const shape = title.parentNode, alone = !shape.closest("figure").querySelector("script");
  shape.dataset.said = title.textContent;
  title.remove();
  if (!alone) continue;
  shape.addEventListener("pointerenter", event => {
    card.replaceChildren(shape.dataset.said);
    put(event.clientX, event.clientY);
  });
  shape.addEventListener("pointerleave", () => { card.hidden = true; });
}
const numbers = [...document.querySelectorAll("figure > script")];
for (const one of numbers) new View(one.parentNode, JSON.parse(one.textContent));
if (numbers.length) {
  const hint = Object.assign(document.createElement("p"), {className: "hint", textContent: HINT});
  numbers[0].parentNode.before(hint);
}
})();
