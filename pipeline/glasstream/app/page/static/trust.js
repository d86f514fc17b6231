// Can I trust this input: how many events look like none that the model has learned.
import { Chart, css, sparse, tint } from "./chart.js";
import { element } from "./element.js";
import { count, number, percent } from "./format.js";
import { tiles } from "./tiles.js";

/** @import { Mark } from "./chart.js" */
/** @import { Shared } from "./main.js" */
/** @import { Known } from "./messages.js" */

const NONE =
  "No novelty record so far. The novelty detector writes them, for every event from its first map on (after 3,000 " +
  "labelled events unless set otherwise); a run has one with `--explain ipfi,novelty`, a deployment with " +
  "`glasstream worker novelty`.";

export class TrustPanel {
  #listed = "";
  /** @type {Mark[]} */
  #alarms = [];

  /** @param {Shared} shared */
  constructor(shared) {
    this.shared = shared;
    this.list = element("ol", "#flagged");
    this.chart = new Chart(element("div", "#trust-chart"), {
      onEvents: true,
      percent: true,
      underlay: (plot) => shared.underlay(plot, this.#alarms),
    });
  }

  /** @param {Known} data */
  update(data) {
    const novelty = data.novelty;
    const caption = element("h3", "#trust-caption");
    const flagged = element("h3", "#flagged-caption");
    if (!novelty?.bins.last.length) {
      tiles("trust-tiles", []);
      this.list.replaceChildren();
      this.#listed = "";
      caption.textContent = "";
      flagged.textContent = "";
      this.chart.clear(NONE, "Novelty");
      return;
    }
    this.#alarms = novelty.alarms.map((one) => ({
      id: `novelty~${one.seq}`,
      seq: one.seq,
      start: Math.max(0, one.seq - one.width),
    }));
    tiles("trust-tiles", [
      [
        `looked strange, of the last ${count(novelty.recent_events)}`,
        percent(novelty.recent_rate),
        novelty.away ? `beyond ${number(novelty.away)} × what recent labelled events keep to` : "",
      ],
      [
        "of all events",
        percent(novelty.flagged / novelty.events),
        novelty.alarms_total ? `${novelty.alarms_total} alarm${novelty.alarms_total > 1 ? "s" : ""}` : "",
      ],
    ]);
    const bins = novelty.bins;
    const stroke = css("--accent");
    const last = novelty.alarms.at(-1);
    const share = "share of events whose prediction their neighbours do not support";
    const change = last && `from ${percent(last.before)} to ${percent(last.after)} at event ${count(last.seq)}`;
    const changed = change ? `; the share changed ${change}` : "";
    caption.textContent = `${share}, over each ${count(bins.width)} events${changed}`;
    this.chart.draw({
      label: `Share of strange events over time. Now ${percent(novelty.recent_rate)}`,
      data: [bins.last, bins.mean],
      series: [{ label: "novelty rate", stroke, width: 1.5, fill: tint(stroke, 0.1), points: sparse }],
      range: this.shared.range,
      clock: this.shared.clock,
      y: (_min, max) => [0, Math.min(1.02, Math.max(0.02, max * 1.1))],
    });
    flagged.textContent = novelty.examples.length
      ? "The last strange events, strangest features first"
      : "None of them looked strange.";
    const key = novelty.examples.map((one) => one.seq).join();
    if (key === this.#listed) return;
    this.#listed = key;
    this.list.replaceChildren(
      ...novelty.examples.map((one) => {
        const entry = document.createElement("li");
        const names = one.attribution.map(([name]) => name).join(", ");
        const small = document.createElement("small");
        small.textContent = `${names ? `${names} · ` : ""}${number(one.indicator)}, allowed ${number(one.threshold)}`;
        entry.append(`event ${count(one.seq)}${one.id === String(one.seq) ? "" : ` (${one.id})`}`, small);
        return entry;
      }),
    );
  }
}
