// What does it rely on: importance over time, and the ranking of now.

import { Chart, css, fromZero, ink, OTHERS, sparse, tint } from "./chart.js";
import { element } from "./element.js";
import { count, fixed, number, percent } from "./format.js";

/** @import { View } from "./address.js" */
/** @import { Maybe } from "./format.js" */
/** @import { Act, Shared } from "./main.js" */
/** @import { Importance, Known, Ranked } from "./messages.js" */
/** @import uPlot from "./vendor/uplot/uPlot.esm.js" */

const ROWS = 100;
const OTHER = "other features";

const FIRST =
  "Waiting for the first importance record. Explaining begins when the reservoir is full, after 100 labelled events " +
  "unless set otherwise; from then on every 100 rows (`publish.every`) bring a record.";

export class ReliancePanel {
  /**
   * Which colour each feature has.
   * @type {Map<string, number>}
   */
  #slots = new Map();
  /** @type {string | null} */
  #stream = null;
  /** @type {number | null} */
  #cursor = null;
  /** @type {Known | null} */
  #data = null;
  /** @type {string[]} */
  #pinned = [];
  /** @type {Row[]} */
  #rows = [];

  /**
   * @param {Shared} shared
   * @param {Act} act
   */
  constructor(shared, act) {
    this.shared = shared;
    this.act = act;
    this.caption = element("h3", "#importance-caption");
    this.body = element("tbody", "", element("table", "#ranking"));
    this.find = element("input", "#find");
    this.find.addEventListener("input", () => this.#rank());
    this.chart = new Chart(element("div", "#importance-chart"), {
      onEvents: true,
      underlay: shared.underlay,
      onDraw: (plot) => shared.mark(plot),
      onCursor: (index) => this.#point(index),
    });
    this.body.addEventListener("mouseover", (event) => this.#stress(event));
    this.body.addEventListener("focusin", (event) => this.#stress(event));
    this.body.addEventListener("mouseleave", () => this.chart.stress(null));
    this.body.addEventListener("focusout", () => this.chart.stress(null));
  }

  /**
   * The colour of a feature stays while the page is open.
   * @param {string} name
   */
  #ink(name) {
    let slot = this.#slots.get(name);
    if (slot === undefined) {
      const used = new Set(this.#slots.values());
      slot = 0;
      while (used.has(slot)) slot += 1;
      this.#slots.set(name, slot);
    }
    return ink(slot);
  }

  /**
   * @param {Known} data
   * @param {View} view
   */
  update(data, view) {
    this.#data = data;
    this.#pinned = view.pin;
    if (data.stream !== this.#stream) {
      this.#stream = data.stream;
      this.#slots.clear();
    }
    const known = data.importance;
    if (!known?.seq.length) {
      this.caption.textContent = "";
      const waiting = "Waiting for the stream: nothing of it is on the topics yet.";
      this.chart.clear(data.epoch === null ? waiting : FIRST, "Importance");
      this.#legend([]);
      this.#rank();
      return;
    }
    const names = Object.keys(known.features);
    for (const name of this.#slots.keys()) if (!names.includes(name)) this.#slots.delete(name);
    const thinned = known.kept_every > 1 ? `; of older records every ${count(known.kept_every)}th` : "";
    const drawn = view.mode === "lines" ? band(known.interval) : "; below 0 drawn as 0";
    this.caption.textContent = `${known.meaning}${drawn}${thinned}`;
    if (view.mode === "stacked") this.#stack(known, names);
    else this.#lines(known, names);
    this.#legend(view.mode === "stacked" ? [...names, null] : names);
    this.#rank();
  }

  /** @param {Importance} known */
  #label(known) {
    const leaders = known.ranking.slice(0, 3).map(([, name, value]) => `${name} ${fixed(value)}`);
    const drawn = `${Object.keys(known.features).length} features drawn`;
    return `Importance over time by ${known.label}, ${drawn}. Now: ${leaders.join(", ")}`;
  }

  /**
   * @param {Importance} known
   * @param {string[]} names
   */
  #lines(known, names) {
    /** @type {uPlot.AlignedData} */
    const data = [known.seq];
    /** @type {uPlot.Series[]} */
    const series = [];
    /** @type {uPlot.Band[]} */
    const bands = [];
    for (const name of names) {
      const { stroke, dash } = this.#ink(name);
      const { value, low, high } = known.features[name];
      data.push(high, low, value);
      const edge = { stroke: "transparent", width: 0, points: { show: false } };
      series.push(
        { ...edge, label: `${name} high` },
        { ...edge, label: `${name} low` },
        { label: name, stroke, dash, width: 1.6, points: sparse },
      );
      bands.push({ series: [series.length - 2, series.length - 1], fill: tint(stroke, 0.12) });
    }
    const { range, clock } = this.shared;
    this.chart.draw({ label: this.#label(known), data, series, bands, range, clock, shape: "lines" });
  }

  /**
   * @param {Importance} known
   * @param {string[]} names
   */
  #stack(known, names) {
    // uPlot paints in order: the highest sum first, each layer down to the one below.
    const columns = [...names.map((name) => known.features[name].value), known.others];
    const data = /** @type {uPlot.AlignedData} */ ([known.seq, ...sums(known.seq.length, columns).reverse()]);
    const inks = [...names.map((name) => ({ label: name, ...this.#ink(name) })), { label: OTHER, stroke: OTHERS }];
    inks.reverse();
    /** @type {uPlot.Series[]} */
    const series = inks.map((one) => ({ ...one, width: 1, points: { show: false } }));
    series.push({ label: "0", stroke: "transparent", width: 0, points: { show: false } });
    /** @type {uPlot.Band[]} */
    const bands = inks.map(({ stroke }, at) => ({ series: [at + 1, at + 2], fill: tint(stroke, 0.55) }));
    this.chart.draw({
      label: `${this.#label(known)}, stacked`,
      data,
      series,
      bands,
      range: this.shared.range,
      clock: this.shared.clock,
      y: fromZero,
      shape: "stacked",
    });
  }

  /**
   * What each colour is; null: all the others.
   * @param {(string | null)[]} names
   */
  #legend(names) {
    const list = element("ul", "#legend");
    const key = JSON.stringify([names, names.map((name) => name !== null && this.#slots.get(name))]);
    if (key === list.dataset.key) return;
    list.dataset.key = key;
    list.replaceChildren(
      ...names.map((name) => {
        const entry = document.createElement("li");
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.borderTop = border(name === null ? { stroke: OTHERS } : this.#ink(name));
        entry.append(swatch, name ?? OTHER);
        return entry;
      }),
    );
  }

  /** @param {number | null} index */
  #point(index) {
    if (index === this.#cursor) return;
    this.#cursor = index;
    this.#rank();
  }

  /** The table: now, or at the cursor. */
  #rank() {
    const known = this.#data?.importance;
    const more = element("p", "#ranking-more");
    element("div", "#ranking-scroll").hidden = !known;
    if (!known) {
      this.#rows = [];
      this.body.replaceChildren();
      more.textContent = "";
      return;
    }
    const at = this.#cursor !== null && this.#cursor < known.seq.length && this.#cursor >= 0 ? this.#cursor : null;
    element("th", "#ranking-when").textContent =
      at === null ? `now (event ${count(known.last?.seq)})` : `at event ${count(known.seq[at])}`;
    const wanted = this.find.value.trim();
    const drawn = (/** @type {string} */ name) => Object.hasOwn(known.features, name);
    const { shown, hidden } = listed(known.ranking, wanted, drawn, ROWS);
    const place = axis(known.ranking);
    for (const row of this.#rows.splice(shown.length)) row.root.remove();
    while (this.#rows.length < shown.length) {
      const row = new Row(this.act);
      this.#rows.push(row);
      this.body.append(row.root);
    }
    shown.forEach(([rank, name, ...numbers], position) => {
      const row = this.#rows[position];
      row.name(rank, name);
      row.root.classList.toggle("chosen", name === this.shared.effect);
      row.pin.checked = this.#pinned.includes(name);
      row.ink(drawn(name) ? this.#ink(name) : null);
      const columns = drawn(name) ? known.features[name] : null;
      if (at === null) row.show(...numbers, place);
      else row.show(columns?.value[at], columns?.low[at], columns?.high[at], place);
    });
    const notes = [];
    if (hidden) notes.push(`${count(hidden)} more: type a part of the name above.`);
    if (known.left_out) notes.push("More features than the page keeps (page.features): some are left out.");
    more.textContent = shown.length ? notes.join(" ") : `No feature of this stream has “${wanted}” in its name.`;
  }

  /** @param {Event} event */
  #stress(event) {
    const name = event.target instanceof Element ? event.target.closest("tr")?.dataset.name : undefined;
    const known = this.#data?.importance;
    if (name === undefined || !known || !Object.hasOwn(known.features, name)) {
      this.chart.stress(null);
      return;
    }
    const labels = [name, `${name} low`, `${name} high`];
    this.chart.stress((one) => labels.includes(String(one.label)));
  }
}

/** One row of the ranking. */
class Row {
  /** @param {Act} act */
  constructor(act) {
    const row = element("template", "#ranking-row").content.cloneNode(true);
    this.root = element("tr", "", /** @type {DocumentFragment} */ (row));
    this.pin = element("input", "", this.root);
    this.swatch = element("span", ".swatch", this.root);
    this.button = element("button", "", this.root);
    this.bar = element("i", "", this.root);
    this.whisker = element("b", "", this.root);
    this.zero = element("u", "", this.root);
    this.value = element("td", ".value", this.root);
    this.interval = element("td", ".interval", this.root);
    this.pin.addEventListener("change", () => act.pin(this.root.dataset.name ?? "", this.pin.checked));
    this.button.addEventListener("click", () => act.effect(this.root.dataset.name ?? ""));
  }

  /**
   * @param {number} rank
   * @param {string} name
   */
  name(rank, name) {
    this.root.dataset.rank = String(rank);
    if (this.root.dataset.name === name) return;
    this.root.dataset.name = name;
    this.button.textContent = name;
    this.button.title = name;
    this.button.setAttribute("aria-label", `${name}: show its effect on the prediction`);
    this.pin.setAttribute("aria-label", `keep ${name} drawn`);
  }

  /** @param {ReturnType<typeof ink> | null} drawn how the feature is drawn, if it is */
  ink(drawn) {
    this.swatch.style.borderTop = border(drawn ?? { stroke: "transparent" });
    this.bar.style.background = drawn ? drawn.stroke : css("--faint");
  }

  /**
   * @param {Maybe} value
   * @param {Maybe} low
   * @param {Maybe} high
   * @param {(value: number) => number} place in percent of the width
   */
  show(value, low, high, place) {
    const zero = place(0);
    this.zero.style.left = `${zero}%`;
    this.bar.style.left = `${value == null ? 0 : Math.min(zero, place(value))}%`;
    this.bar.style.width = `${value == null ? 0 : Math.abs(place(value) - zero)}%`;
    this.whisker.style.left = `${low == null ? 0 : place(low)}%`;
    this.whisker.style.width = `${low == null || high == null ? 0 : place(high) - place(low)}%`;
    this.value.textContent = aligned(value, 4);
    this.interval.textContent = low == null || high == null ? "" : `${aligned(low, 3)} … ${aligned(high, 3)}`;
  }
}

/**
 * What the caption says about intervals.
 * @param {Importance["interval"]} interval
 */
export function band({ kind, level }) {
  if (kind === "biased") return "; no intervals: these values have a bias of unknown size";
  return level ? `; shaded: ${percent(level)} interval` : "";
}

/**
 * A number of a column: with fixed decimals as long as these say something.
 * @param {Maybe} value
 * @param {number} digits
 */
const aligned = (value, digits) => (value != null && Math.abs(value) >= 1000 ? number(value) : fixed(value, digits));

/** @param {{stroke: string, dash?: number[]}} line */
function border({ stroke, dash }) {
  const style = dash ? (dash[0] > 3 ? "dashed" : "dotted") : "solid";
  return `3px ${style} ${stroke}`;
}

/**
 * The layers of a stacked chart, from the floor up: 0, and after each column the sum of what is positive so far.
 * @param {number} length
 * @param {(number | null)[][]} columns
 */
export function sums(length, columns) {
  const layers = [Array.from({ length }, () => 0)];
  for (const column of columns) {
    layers.push(layers[layers.length - 1].map((base, at) => base + Math.max(0, column[at] ?? 0)));
  }
  return layers;
}

/**
 * The entries with a text in their name, in order, and how many are hidden where not all have room: what is drawn has
 * precedence then.
 * @param {Ranked[]} ranking
 * @param {string} wanted
 * @param {(name: string) => boolean} drawn
 * @param {number} most
 */
export function listed(ranking, wanted, drawn, most) {
  const matching = ranking.filter(([, name]) => name.toLowerCase().includes(wanted.toLowerCase()));
  const first = matching.filter(([, name]) => drawn(name));
  const shown = [...first, ...matching.filter(([, name]) => !drawn(name))].slice(0, most);
  return { shown: shown.sort((a, b) => a[0] - b[0]), hidden: matching.length - shown.length };
}

/**
 * Where a value stands on an axis that holds 0 and all values and intervals of a ranking, in percent.
 * @param {Ranked[]} ranking
 */
export function axis(ranking) {
  const numbers = ranking.flatMap(([, , value, low, high]) => [value, low ?? 0, high ?? 0]);
  const low = numbers.reduce((least, one) => Math.min(least, one), 0);
  const high = numbers.reduce((most, one) => Math.max(most, one), 1e-12);
  return (/** @type {number} */ value) => (100 * (Math.min(high, Math.max(low, value)) - low)) / (high - low);
}
