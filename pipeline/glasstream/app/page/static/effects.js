// How the prediction moves with a feature: before and after an alarm, or then and now.
import { Chart, css, tint } from "./chart.js";
import { element } from "./element.js";
import { count, number } from "./format.js";

/** @import { View } from "./address.js" */
/** @import { Range } from "./chart.js" */
/** @import { Act } from "./main.js" */
/** @import { Alarm, Curve, Known, Place } from "./messages.js" */

const WITH_IPDP = "when the run explains with iPDP: `--explain ipfi,isage,ipdp`";

export class EffectsPanel {
  #listed = "";
  /** @type {number[]} */
  #seqs = [];

  /** @param {Act} act */
  constructor(act) {
    this.caption = element("h3", "#effect-caption");
    this.feature = element("select", "#effect");
    this.output = element("select", "#output");
    this.slider = element("input", "#then");
    this.sliderText = element("span", "#then-text");
    this.feature.addEventListener("change", () => act.effect(this.feature.value));
    this.output.addEventListener("change", () => act.output(this.output.value));
    this.slider.addEventListener("input", () => act.then(this.#seqs[Number(this.slider.value)]));
    this.chart = new Chart(element("div", "#effect-chart"));
  }

  /**
   * @param {Known} data
   * @param {View} view
   * @param {Alarm | null} alarm whose curves are asked for; null: then against now
   */
  update(data, view, alarm) {
    this.#list(data, alarm);
    const effect = data.effect;
    this.#seqs = effect ? effect.curves.map((one) => one.seq) : [];
    const at = view.then ? newestUpTo(this.#seqs, Number(view.then)) : 0;
    this.slider.max = String(Math.max(0, this.#seqs.length - 1));
    this.slider.disabled = this.#seqs.length < 2;
    this.slider.value = String(at);
    element("label", "#then-label").hidden = !this.#seqs.length;
    const now = effect?.curves.at(-1);
    if (alarm?.curve_before && alarm.curve_after) {
      this.sliderText.textContent = "compare then and now";
      const what = described(alarm.feature ?? "", alarm.curve_after.output);
      this.#say(what, "before the change", `at the alarm (event ${count(alarm.seq)})`);
      const label = `Effect of ${alarm.feature} before and after the alarm at event ${count(alarm.seq)}`;
      this.#draw(alarm.curve_before, alarm.curve_after, label, ["before", "after"]);
    } else if (alarm && alarm.feature !== null && alarm.feature !== effect?.feature) {
      this.#nothing(`No curves came with this alarm. Effect curves are there ${WITH_IPDP}.`);
    } else if (effect && now) {
      const then = effect.curves[at];
      this.sliderText.textContent = `then: event ${count(then.seq)}`;
      const what = described(effect.feature, effect.output);
      this.#say(what, `then (event ${count(then.seq)})`, `now (event ${count(now.seq)})`);
      const label = `Effect of ${effect.feature} at event ${count(then.seq)} and now`;
      this.#draw(then, now, label, ["then", "now"]);
    } else {
      const first = "the first ones come with the first importance record";
      this.#nothing(`No effect curves yet. They are there ${WITH_IPDP}; ${first}.`);
    }
  }

  /** @param {string} reason */
  #nothing(reason) {
    this.caption.textContent = "How does the prediction move with a feature?";
    this.chart.clear(reason, "Effect curves");
  }

  /**
   * @param {string} what
   * @param {string} then
   * @param {string} now
   */
  #say(what, then, now) {
    const key = (/** @type {string} */ kind) =>
      Object.assign(document.createElement("span"), { className: `key ${kind}` });
    this.caption.replaceChildren(`${what} `, key("then"), `${then}  `, key("now"), now);
  }

  /**
   * @param {Known} data
   * @param {Alarm | null} alarm
   */
  #list(data, alarm) {
    const outputs = data.outputs ?? {};
    const feature = (alarm?.curve_before ? alarm.feature : data.effect?.feature) ?? "";
    const key = JSON.stringify([Object.keys(outputs), feature, outputs[feature], data.effect?.output]);
    if (key === this.#listed) return;
    this.#listed = key;
    const features = Object.keys(outputs);
    if (feature && !features.includes(feature)) features.push(feature);
    fill(this.feature, features, feature);
    element("div", "#effect-controls").hidden = !features.length;
    const choices = (data.effect && outputs[data.effect.feature]) ?? [];
    const names = choices.filter((one) => one !== null);
    fill(this.output, names, data.effect?.output);
    element("label", "#output-label").hidden = choices.length < 2;
  }

  /**
   * @param {Curve} before
   * @param {Curve} after
   * @param {string} label
   * @param {[string, string]} names
   */
  #draw(before, after, label, names) {
    const drawn = aligned(before, after);
    const faint = css("--faint");
    const strong = css("--accent");
    // Categories have no order: points, without a line between them.
    const line = drawn.names ? { spanGaps: true, paths: () => null } : { spanGaps: true };
    const size = (/** @type {number} */ pixels) => (drawn.names ? 9 : pixels);
    // The ends of the intervals bound a band; those of categories are points.
    const end = drawn.names
      ? { ...line, stroke: strong, points: { show: true, size: 4, fill: tint(strong, 0.4), stroke: "transparent" } }
      : { spanGaps: true, stroke: "transparent", width: 0, points: { show: false } };
    this.chart.draw({
      label,
      data: [drawn.x, drawn.high, drawn.low, drawn.before, drawn.after],
      bands: [{ series: [1, 2], fill: tint(strong, 0.12) }],
      series: [
        { ...end, label: `${names[1]} high` },
        { ...end, label: `${names[1]} low` },
        {
          ...line,
          label: names[0],
          stroke: faint,
          dash: [6, 4],
          width: 1.5,
          points: drawn.names
            ? { show: true, size: 9, fill: css("--panel"), stroke: faint, width: 2 } // hollow: not by colour alone
            : { show: true, size: 4, fill: faint },
        },
        { ...line, label: names[1], stroke: strong, width: 2, points: { show: true, size: size(5), fill: strong } },
      ],
      y: tight,
      ...(drawn.names
        ? { shape: "categories", names: drawn.names }
        : { shape: "numbers", ticks: (places) => places.map((at) => number(at)) }),
    });
  }
}

/**
 * @param {string} feature
 * @param {string | null} output
 */
const described = (feature, output) =>
  `Effect of ${feature}${output === null ? "" : ` on the probability of ${output}`}:`;

/**
 * Position of the newest curve up to an event; that of the oldest if all are newer.
 * @param {number[]} seqs in ascending order
 * @param {number} seq
 */
export const newestUpTo = (seqs, seq) =>
  Math.max(
    0,
    seqs.findLastIndex((one) => one <= seq),
  );

/**
 * @typedef {object} Aligned two curves over the same places
 * @property {number[]} x
 * @property {(number | null)[]} before
 * @property {(number | null)[]} after
 * @property {(number | null)[]} low lower ends of the intervals of `after`
 * @property {(number | null)[]} high
 * @property {string[]} [names]
 */

/**
 * Two curves over the same places: those of either grid, in order if they are numbers. Categories stand at 0, 1, ...
 * and have `names`.
 * @param {Curve} before
 * @param {Curve} after
 * @returns {Aligned}
 */
export function aligned(before, after) {
  /**
   * @template {number | string} Key
   * @param {Key[]} places
   * @param {(place: Place) => Key} key
   * @returns {Aligned}
   */
  const over = (places, key) => {
    const values = (/** @type {Place[]} */ grid, /** @type {(number | null)[]} */ column) => {
      const known = new Map(grid.map((place, at) => [key(place), column[at]]));
      return places.map((place) => known.get(place) ?? null);
    };
    const ends = (/** @type {-1 | 1} */ side) =>
      after.curve.map((value, at) => {
        const margin = after.margin?.[at] ?? null;
        return margin === null ? null : value + side * margin;
      });
    return {
      x: places.map((place, at) => (typeof place === "number" ? place : at)),
      before: values(before.grid, before.curve),
      after: values(after.grid, after.curve),
      low: values(after.grid, ends(-1)),
      high: values(after.grid, ends(1)),
    };
  };
  const grid = [...before.grid, ...after.grid];
  if (grid.every((place) => typeof place === "number")) {
    return over(
      [...new Set(grid)].sort((a, b) => a - b),
      Number,
    );
  }
  const names = [...new Set(grid.map(String))];
  return { ...over(names, String), names };
}

/**
 * Room for what is there; a curve that hardly moves must look flat.
 * @param {number} min
 * @param {number} max
 * @returns {Range}
 */
export function tight(min, max) {
  const middle = (min + max) / 2;
  const half = Math.max((max - min) * 0.55, Math.abs(middle) * 0.05, 1e-9);
  return [middle - half, middle + half];
}

/**
 * Fill a select element.
 * @param {HTMLSelectElement} select
 * @param {string[]} names
 * @param {string | null | undefined} chosen
 */
function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
  if (chosen != null) select.value = chosen;
}
