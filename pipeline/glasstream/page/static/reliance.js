// What does it rely on: importance over time, and the ranking of now.
import { Chart, OTHERS, css, drawChanges, fromZero, ink, sparse, tint } from "./chart.js";
import { METHODS } from "./changes.js";
import { count, fixed, named, percent } from "./format.js";

const ROWS = 100;

const MEANING = {
  ipfi: (loss) => `rise of the ${loss} loss when the feature's value is taken from another recent row`,
  isage: (loss) => `the feature's share of what the model gains over its mean prediction, in ${loss} loss`,
};

export class ReliancePanel {
  #slots = new Map();
  #stream = null;
  #cursor = null;
  #data = null;
  #view = null;

  constructor(shared, act) {
    this.shared = shared;
    this.act = act;
    this.body = document.querySelector("#ranking tbody");
    this.find = document.getElementById("find");
    this.find.addEventListener("input", () => this.#rank());
    this.chart = new Chart(document.getElementById("importance-chart"), {
      onEvents: true,
      underlay: (plot) => drawChanges(plot, shared.groups, shared.chosen),
      onDraw: (plot) => shared.mark(plot),
      onCursor: (index) => this.#point(index),
    });
    this.body.addEventListener("mouseover", (event) => this.#stress(event));
    this.body.addEventListener("focusin", (event) => this.#stress(event));
    this.body.addEventListener("mouseleave", () => this.chart.stress(null));
    this.body.addEventListener("focusout", () => this.chart.stress(null));
  }

  /** The colour of a feature stays while the page is open. */
  #ink(name) {
    if (!this.#slots.has(name)) {
      const used = new Set(this.#slots.values());
      let slot = 0;
      while (used.has(slot)) slot += 1;
      this.#slots.set(name, slot);
    }
    return ink(this.#slots.get(name));
  }

  update(data, view) {
    this.#data = data;
    this.#view = view;
    if (data.stream !== this.#stream) {
      this.#stream = data.stream;
      this.#slots.clear();
    }
    const known = data.importance;
    const caption = document.getElementById("importance-caption");
    if (!known?.seq.length) {
      caption.textContent = "";
      this.chart.clear(data.epoch === null
        ? "Waiting for the stream: nothing of it is on the topics yet."
        : "Waiting for the first importance record. Explaining begins when the reservoir is full, after 100 labelled events unless set otherwise; from then on every 100 rows (`publish.every`) bring a record.", "Importance");
      this.#legend([]);
      this.#rank();
      return;
    }
    const names = Object.keys(known.features);
    for (const name of this.#slots.keys()) if (!names.includes(name)) this.#slots.delete(name);
    const loss = named(known.loss);
    const band = known.interval.level ? `; shaded: ${percent(known.interval.level)} interval` : "";
    const thinned = known.kept_every > 1 ? `; of older records every ${count(known.kept_every)}th` : "";
    const meaning = (MEANING[known.method] ?? (() => `importance, in ${loss} loss`))(loss);
    caption.textContent = `${meaning}${view.mode === "lines" ? band : "; below 0 drawn as 0"}${thinned}`;
    if (view.mode === "stacked") this.#stack(known, names);
    else this.#lines(known, names);
    this.#legend(view.mode === "stacked" ? [...names, null] : names);
    this.#rank();
  }

  #label(known) {
    const leaders = known.ranking.slice(0, 3).map(([, name, value]) => `${name} ${fixed(value)}`);
    return `Importance over time by ${METHODS[known.method] ?? known.method}, ${Object.keys(known.features).length} features drawn. Now: ${leaders.join(", ")}`;
  }

  #lines(known, names) {
    const data = [known.seq];
    const series = [];
    const bands = [];
    for (const name of names) {
      const { stroke, dash } = this.#ink(name);
      const { value, low, high } = known.features[name];
      data.push(high, low, value);
      const edge = { stroke: "transparent", width: 0, points: { show: false } };
      series.push({ ...edge, label: `${name} high` }, { ...edge, label: `${name} low` }, { label: name, stroke, dash, width: 1.6, points: sparse });
      bands.push({ series: [series.length - 2, series.length - 1], fill: tint(stroke, 0.12) });
    }
    this.chart.draw({ label: this.#label(known), data, series, bands, range: this.shared.range, shape: "lines" });
  }

  #stack(known, names) {
    const floor = known.seq.map(() => 0);
    const layers = [...names.map((name) => [name, known.features[name].value, this.#ink(name)]), ["other features", known.others, { stroke: OTHERS }]];
    const tops = [];
    let below = floor;
    for (const [, values] of layers) {
      below = below.map((base, at) => base + Math.max(0, values[at] ?? 0));
      tops.push(below);
    }
    // uPlot paints in order: the highest sum first, each layer down to the one below.
    const data = [known.seq, ...[...tops].reverse(), floor];
    const series = [...layers].reverse().map(([name, , { stroke, dash }]) => ({ label: name, stroke, dash, width: 1, points: { show: false } }));
    series.push({ label: "0", stroke: "transparent", width: 0, points: { show: false } });
    const bands = layers.map((layer, at) => ({ series: [at + 1, at + 2], fill: tint([...layers].reverse()[at][2].stroke, 0.55) }));
    this.chart.draw({ label: `${this.#label(known)}, stacked`, data, series, bands, range: this.shared.range, y: fromZero, shape: "stacked" });
  }

  /** What each colour is; null: all the others. */
  #legend(names) {
    const list = document.getElementById("legend");
    const key = JSON.stringify([names, names.map((name) => this.#slots.get(name))]);
    if (key === list.dataset.key) return;
    list.dataset.key = key;
    list.replaceChildren(...names.map((name) => {
      const entry = document.createElement("li");
      const swatch = document.createElement("span");
      const { stroke, dash } = name === null ? { stroke: OTHERS } : this.#ink(name);
      swatch.className = "swatch";
      swatch.style.borderTop = `3px ${dash ? "dashed" : "solid"} ${stroke}`;
      entry.append(swatch, name ?? "other features");
      return entry;
    }));
  }

  #point(index) {
    if (index === this.#cursor) return;
    this.#cursor = index;
    this.#rank();
  }

  /** The table: now, or at the cursor. */
  #rank() {
    const known = this.#data?.importance;
    const more = document.getElementById("ranking-more");
    document.getElementById("ranking-scroll").hidden = !known;
    if (!known) {
      this.body.replaceChildren();
      more.textContent = "";
      return;
    }
    const at = this.#cursor !== null && this.#cursor < known.seq.length && this.#cursor >= 0 ? this.#cursor : null;
    document.getElementById("ranking-when").textContent = at === null
      ? `now (event ${count(known.last?.seq)})`
      : `at event ${count(known.seq[at])}`;
    const wanted = this.find.value.trim().toLowerCase();
    const matching = known.ranking.filter(([, name]) => !wanted || name.toLowerCase().includes(wanted));
    // What is drawn comes first where not all have room.
    const shown = matching.length > ROWS
      ? [...matching.filter(([, name]) => name in known.features), ...matching.filter(([, name]) => !(name in known.features))].slice(0, ROWS).sort((a, b) => a[0] - b[0])
      : matching;
    let low = 0;
    let high = 1e-12;
    for (const [, , value, bottom, top] of known.ranking) {
      low = Math.min(low, value, bottom ?? 0);
      high = Math.max(high, value, top ?? 0);
    }
    const place = (value) => (100 * (Math.min(high, Math.max(low, value)) - low)) / (high - low);
    while (this.body.children.length > shown.length) this.body.lastChild.remove();
    while (this.body.children.length < shown.length) this.body.append(this.#row());
    shown.forEach(([rank, name, ...numbers], row) => {
      const drawn = known.features[name];
      const [value, bottom, top] = at === null ? numbers : drawn ? [drawn.value[at], drawn.low[at], drawn.high[at]] : [null, null, null];
      this.#fill(this.body.children[row], { rank, name, drawn, value, bottom, top, zero: place(0), place });
    });
    const hidden = matching.length - shown.length;
    more.textContent = !matching.length
      ? `No feature of this stream has “${this.find.value.trim()}” in its name.`
      : [hidden ? `${count(hidden)} more: type a part of the name above.` : "", known.left_out ? "More features than the page keeps (page.features): some are left out." : ""].join(" ").trim();
  }

  #row() {
    const row = document.createElement("tr");
    row.innerHTML = "<td><label class='tick'><input type='checkbox'><span class='swatch'></span></label></td><td class='name'><button type='button'></button></td><td class='wide'><div class='bar'><i></i><b></b><u></u></div></td><td class='number'></td><td class='number'></td>";
    row.querySelector("input").addEventListener("change", (event) => this.act.pin(row.dataset.name, event.target.checked));
    row.querySelector("button").addEventListener("click", () => this.act.effect(row.dataset.name));
    return row;
  }

  #fill(row, { rank, name, drawn, value, bottom, top, zero, place }) {
    const [tick, label, bar, number, interval] = row.children;
    if (row.dataset.name !== name) {
      row.dataset.name = name;
      const button = label.firstChild;
      button.textContent = button.title = name;
      button.setAttribute("aria-label", `${name}: show its effect on the prediction`);
      tick.querySelector("input").setAttribute("aria-label", `keep ${name} drawn`);
    }
    row.dataset.rank = rank;
    row.classList.toggle("chosen", name === this.shared.effect);
    tick.querySelector("input").checked = this.#view.pin.includes(name);
    const { stroke, dash } = drawn ? this.#ink(name) : { stroke: "transparent" };
    tick.querySelector(".swatch").style.borderTop = `3px ${dash ? "dashed" : "solid"} ${stroke}`;
    const [fill, whisker, axis] = bar.firstChild.children;
    fill.style.background = drawn ? stroke : css("--faint");
    fill.style.left = `${value == null ? 0 : Math.min(zero, place(value))}%`;
    fill.style.width = `${value == null ? 0 : Math.abs(place(value) - zero)}%`;
    whisker.style.left = `${bottom == null ? 0 : place(bottom)}%`;
    whisker.style.width = `${bottom == null || top == null ? 0 : place(top) - place(bottom)}%`;
    axis.style.left = `${zero}%`;
    number.textContent = fixed(value, 4);
    interval.textContent = bottom == null || top == null ? "" : `${fixed(bottom)} … ${fixed(top)}`;
  }

  #stress(event) {
    const name = event.target.closest("tr")?.dataset.name;
    const drawn = name !== undefined && this.#data?.importance && name in this.#data.importance.features;
    this.chart.stress(drawn ? (one) => one.label === name || one.label === `${name} low` || one.label === `${name} high` : null);
  }
}
