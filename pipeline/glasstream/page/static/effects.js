// How the prediction moves with a feature: before and after an alarm, or then and now.
import { Chart, css } from "./chart.js";
import { count, number } from "./format.js";

export class EffectsPanel {
  #listed = "";

  constructor(act) {
    this.act = act;
    this.caption = document.getElementById("effect-caption");
    this.feature = document.getElementById("effect");
    this.output = document.getElementById("output");
    this.slider = document.getElementById("then");
    this.feature.addEventListener("change", () => act.effect(this.feature.value));
    this.output.addEventListener("change", () => act.output(this.output.value));
    this.slider.addEventListener("input", () => act.then(this.#seqs[Number(this.slider.value)]));
    this.chart = new Chart(document.getElementById("effect-chart"));
  }

  #seqs = [];

  /** @param {object | null} alarm whose curves are asked for; null: then against now */
  update(data, view, alarm) {
    this.#list(data, alarm);
    const effect = data.effect;
    this.#seqs = effect ? effect.curves.map((one) => one.seq) : [];
    const at = this.#index(view.then);
    this.slider.max = Math.max(0, this.#seqs.length - 1);
    this.slider.disabled = this.#seqs.length < 2;
    this.slider.value = at;
    document.getElementById("then-label").hidden = !this.#seqs.length;
    if (alarm?.curve_before && alarm.curve_after) {
      const { output } = alarm.curve_after;
      document.getElementById("then-text").textContent = "compare then and now";
      this.#say(`Effect of ${alarm.feature}${output === null ? "" : ` on the probability of ${output}`}:`, "before the change", `at the alarm (event ${count(alarm.seq)})`);
      this.#draw(alarm.curve_before, alarm.curve_after, `Effect of ${alarm.feature} before and after the alarm at event ${count(alarm.seq)}`, ["before", "after"]);
    } else if (alarm && alarm.feature !== null && alarm.feature !== effect?.feature) {
      this.#nothing("No curves came with this alarm. Effect curves are there when the run explains with iPDP: `--explain ipfi,isage,ipdp`.");
    } else if (effect?.curves.length) {
      const then = effect.curves[at];
      const now = effect.curves.at(-1);
      document.getElementById("then-text").textContent = `then: event ${count(then.seq)}`;
      this.#say(`Effect of ${effect.feature}${effect.output === null ? "" : ` on the probability of ${effect.output}`}:`, `then (event ${count(then.seq)})`, `now (event ${count(now.seq)})`);
      this.#draw(then, now, `Effect of ${effect.feature} at event ${count(then.seq)} and now`, ["then", "now"]);
    } else {
      this.#nothing("No effect curves yet. They are there when the run explains with iPDP: `--explain ipfi,isage,ipdp`; the first ones come with the first importance record.");
    }
  }

  #nothing(reason) {
    this.caption.textContent = "How does the prediction move with a feature?";
    this.chart.clear(reason, "Effect curves");
  }

  #say(what, then, now) {
    const key = (kind) => Object.assign(document.createElement("span"), { className: `key ${kind}` });
    this.caption.replaceChildren(`${what} `, key("then"), `${then}  `, key("now"), now);
  }

  /** The curve at an event, or the newest before it; the oldest where none is named. */
  #index(then) {
    if (!then) return 0;
    let found = 0;
    this.#seqs.forEach((seq, at) => {
      if (seq <= Number(then)) found = at;
    });
    return found;
  }

  #list(data, alarm) {
    const outputs = data.outputs ?? {};
    const feature = alarm?.curve_before ? alarm.feature : (data.effect?.feature ?? "");
    const key = JSON.stringify([Object.keys(outputs), feature, outputs[feature], data.effect?.output]);
    if (key === this.#listed) return;
    this.#listed = key;
    const features = Object.keys(outputs);
    if (feature && !features.includes(feature)) features.push(feature);
    options(this.feature, features, feature);
    document.getElementById("effect-controls").hidden = !features.length;
    const choices = outputs[data.effect?.feature] ?? [];
    options(this.output, choices.filter((one) => one !== null), data.effect?.output);
    document.getElementById("output-label").hidden = choices.length < 2;
  }

  #draw(before, after, label, names) {
    const categorical = [...before.grid, ...after.grid].some((value) => typeof value !== "number");
    const faint = { stroke: css("--faint"), dash: [6, 4], width: 1.5, spanGaps: true, points: { show: true, size: 4, fill: css("--faint") } };
    const strong = { stroke: css("--accent"), width: 2, spanGaps: true, points: { show: true, size: 5, fill: css("--accent") } };
    const series = [{ ...faint, label: names[0] }, { ...strong, label: names[1] }];
    if (categorical) {
      const categories = [...new Set([...before.grid, ...after.grid].map(String))];
      const values = (curve) => categories.map((name) => curve.curve[curve.grid.map(String).indexOf(name)] ?? null);
      for (const one of series) one.paths = () => null;
      series[0].points.size = 9;
      series[1].points.size = 9;
      this.chart.draw({
        label, series, shape: "categories", y: tight, splits: categories.map((name, at) => at),
        data: [categories.map((name, at) => at), values(before), values(after)],
        range: [-0.5, categories.length - 0.5],
        ticks: (places) => places.map((at) => shortened(categories[at] ?? "")),
      });
      return;
    }
    const x = [...new Set([...before.grid, ...after.grid])].sort((a, b) => a - b);
    const values = (curve) => {
      const found = new Map(curve.grid.map((at, index) => [at, curve.curve[index]]));
      return x.map((at) => found.get(at) ?? null);
    };
    this.chart.draw({ label, series, shape: "numbers", y: tight, data: [x, values(before), values(after)], ticks: (places) => places.map((at) => number(at)) });
  }
}

/** Room for what is there; a curve that hardly moves must look flat. */
function tight(min, max) {
  const middle = (min + max) / 2;
  const half = Math.max((max - min) * 0.55, Math.abs(middle) * 0.05, 1e-9);
  return [middle - half, middle + half];
}

const shortened = (text) => (text.length > 10 ? `${text.slice(0, 9)}…` : text);

/** Fill a select element. */
export function options(select, names, chosen) {
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
  if (chosen != null) select.value = chosen;
}
