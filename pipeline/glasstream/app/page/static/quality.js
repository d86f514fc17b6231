// How good is the model now: the loss of recent events, and the metric since the start.
import { Chart, css, fromZero, sparse, tint } from "./chart.js";
import { element } from "./element.js";
import { count, fixed, named, number, percent } from "./format.js";
import { tiles } from "./tiles.js";

/** @import { Shared } from "./main.js" */
/** @import { Compared, Known, Standing, WithOther } from "./messages.js" */

/**
 * The best baseline.
 * @param {Compared} standing
 */
export function best({ constant, no_change, most_frequent }) {
  const classes = most_frequent !== null;
  const worst = classes ? -Infinity : Infinity;
  const [first, second] = [constant ?? worst, no_change ?? worst];
  const constantLeads = classes ? first >= second : first <= second;
  const mean = classes ? `always “${most_frequent}”` : "the mean so far";
  return constantLeads
    ? { name: mean, value: constant }
    : { name: `the previous ${classes ? "label" : "value"}`, value: no_change };
}

/**
 * A share of right predictions, or a mean absolute error.
 * @param {Pick<Standing, "most_frequent">} standing
 * @param {number | null} value
 */
export function sizeOf(standing, value) {
  if (standing.most_frequent === null) return number(value);
  return `${fixed(value === null ? null : 100 * value, 1)} %`;
}

/**
 * How good the model is beside the best baseline, in a sentence; null before the first event that can be compared.
 * @param {Compared | null} standing
 */
export function standingSentence(standing) {
  if (!standing) return null;
  const { events, beaten, diverged, model, most_frequent } = standing;
  const { name, value } = best(standing);
  const over = `${most_frequent !== null ? "right" : "mean absolute error"} in the last ${count(events)} events`;
  const numbers = `(${over}: the model ${sizeOf(standing, model)}, ${name} ${sizeOf(standing, value)})`;
  let verdict = beaten ? "The model is better than its baselines" : "The model is no better than a baseline";
  if (diverged) verdict = "The model has diverged, so its explanations, alarms and incidents mean nothing";
  return { beaten, text: `${verdict} ${numbers}.` };
}

/**
 * The tiles that show the model beside its baselines; none before the first event that can be compared.
 * @param {Standing | null} standing
 * @returns {[name: string, value: string, remark: string][]}
 */
export function beside(standing) {
  if (!standing) return [];
  const of = `last ${count(standing.events)}`;
  if (standing.most_frequent === null) {
    const others = `mean so far ${number(standing.constant)}, value before ${number(standing.no_change)}`;
    return [[`mean absolute error, ${of}`, number(standing.model), others]];
  }
  const always = `always “${standing.most_frequent}” ${percent(standing.constant)}`;
  const others = `${always}, previous label ${percent(standing.no_change)}`;
  const { balanced, log_loss, log_loss_events, events, roc_auc, kappa_m, kappa_temporal } = standing;
  const remarks = [];
  if (kappa_temporal !== null) remarks.push(`kappa-temporal ${fixed(kappa_temporal, 2)}`);
  if (balanced !== null) remarks.push(`balanced accuracy ${percent(balanced)}`);
  if (roc_auc !== null) remarks.push(`ROC AUC ${fixed(roc_auc, 3)}`);
  const named = log_loss_events < events ? ` (of the ${count(log_loss_events)} events that name the class)` : "";
  if (log_loss !== null) remarks.push(`log loss ${number(log_loss)}${named}`);
  return [
    [`right, ${of}`, percent(standing.model), others],
    [`kappa-M, ${of}`, kappa_m === null ? "–" : fixed(kappa_m, 2), remarks.join(", ")],
  ];
}

/**
 * A comparison with another stream, in a line.
 * @param {Pick<WithOther, "better" | "text">} comparison
 */
export function comparedLine({ better, text }) {
  if (better === null) return { kind: "", text: `– ${text}` };
  return better === "stream" ? { kind: "good", text: `✓ ${text}` } : { kind: "warn", text: `▲ ${text}` };
}

export class QualityPanel {
  /** @param {Shared} shared */
  constructor(shared) {
    this.shared = shared;
    this.lossCaption = element("h3", "#loss-caption");
    this.metricCaption = element("h3", "#metric-caption");
    this.compared = element("ul", "#compared");
    const { underlay } = shared;
    this.loss = new Chart(element("div", "#loss-chart"), { onEvents: true, underlay });
    this.metric = new Chart(element("div", "#metric-chart"), { onEvents: true, underlay });
  }

  /** @param {Known} data */
  update(data) {
    const quality = data.quality;
    const lines = (data.comparisons ?? []).map(comparedLine);
    this.compared.hidden = !lines.length;
    this.compared.replaceChildren(
      ...lines.map(({ kind, text }) => {
        const line = document.createElement("li");
        line.className = kind;
        line.textContent = text;
        return line;
      }),
    );
    if (!quality?.events) {
      tiles("quality-tiles", []);
      this.lossCaption.textContent = "";
      this.metricCaption.textContent = "";
      this.loss.clear("Waiting for the first prediction; every event gets one.", "Loss");
      this.metric.clear("", "Metric");
      return;
    }
    const name = named(quality.loss_name);
    const share = quality.loss_name === "zero_one";
    /** @type {[string, string]} */
    const loss = [`${name} loss, last ${count(quality.recent_events)}`, number(quality.recent_loss)];
    tiles("quality-tiles", [
      ...beside(quality.standing),
      ...(share && quality.standing ? [] : [loss]), // the share of wrong predictions stands there already
      [
        `${named(quality.metric_name)} since the start`,
        number(quality.metric),
        quality.labelled < quality.events ? `${count(quality.events - quality.labelled)} events had no label` : "",
      ],
    ]);
    const bins = quality.bins;
    const stroke = css("--accent");
    const what = share ? "share of wrong predictions" : `mean ${name} loss`;
    const width = `over each ${count(bins.width)} events (each predicted before it is learned)`;
    this.lossCaption.textContent = `${what}, ${width}`;
    if (bins.mean.some((one) => one !== null)) {
      this.loss.draw({
        label: `Loss over time. Now ${number(quality.recent_loss)}`,
        data: [bins.last, bins.mean],
        series: [{ label: "loss", stroke, width: 1.5, fill: tint(stroke, 0.08), points: sparse }],
        range: this.shared.range,
        clock: this.shared.clock,
        y: fromZero,
      });
    } else {
      this.loss.clear("No label so far: without one there is no loss.", "Loss");
    }
    this.metricCaption.textContent = `${named(quality.metric_name)} over all events since the start`;
    if (bins.note.some((one) => one !== null)) {
      this.metric.draw({
        label: `${named(quality.metric_name)} over time. Now ${fixed(quality.metric, 4)}`,
        data: [bins.last, bins.note],
        series: [{ label: quality.metric_name, stroke, width: 1.5, points: sparse }],
        range: this.shared.range,
        clock: this.shared.clock,
        y: (min, max) => [min - (max - min || 0.1) * 0.1, max + (max - min || 0.1) * 0.1],
      });
    } else {
      this.metric.clear("", "Metric");
    }
  }
}
