// Messages for tests: a test names the fields that matter to it, the others have defaults.

/**
 * @import { Alarm, Delta, Importance, Incident, Last, Outline, Quality, Ranked, State }
 *   from "../../../../pipeline/glasstream/app/page/static/messages.js"
 */

/** @type {Outline} */
export const OUTLINE = {
  streams: ["s"],
  left_out: 0,
  rejected: {},
  damaged: 0,
  watched: true,
  trouble: null,
  reading: null,
};

/**
 * @param {number} width
 * @param {number} from
 * @param {number[]} mean
 * @returns {Quality}
 */
export function quality(width, from, mean) {
  const index = mean.map((_, at) => from + at);
  const first = index.map((one) => one * width);
  const last = first.map((one) => one + width - 1);
  const bins = {
    width,
    from,
    index,
    first,
    last,
    count: mean.map(() => width),
    mean,
    note: mean,
    ts: mean.map(() => null),
  };
  const last_seq = last.at(-1) ?? null;
  const events = (last_seq ?? -1) + 1;
  const numbers = { metric: 0.5, events, labelled: events, last_seq, recent_loss: 0.5, recent_events: events, bins };
  return { loss_name: "zero_one", metric_name: "accuracy", standing: null, ...numbers };
}

/**
 * One record, and that as the newest.
 * @param {Partial<Last>} parts
 * @returns {Importance}
 */
export function importance(parts) {
  const last = { row: 0, seq: 0, n: 1, lag: 0, coverage: 1, model_version: 0, staleness: null, ...parts };
  const columns = { row: [last.row], seq: [last.seq], lag: [last.lag], coverage: [last.coverage], others: [0] };
  return {
    method: "ipfi",
    label: "iPFI",
    meaning: "",
    loss: "zero_one",
    alpha: 0.001,
    interval: { kind: null, level: null },
    records: 1,
    kept_every: 1,
    ...columns,
    features: {},
    ranking: [],
    left_out: 0,
    totals: [null, null, null],
    last,
  };
}

const NO_INCIDENTS = { incidents_total: 0, incidents_kept: [] };
const PARTS = { newest: {}, methods: {}, quality: quality(100, 0, []), alarms_total: 0, ...NO_INCIDENTS, outputs: {} };

/** @param {Partial<State>} parts @returns {State} */
export const state = (parts) => ({ type: "state", stream: "s", epoch: 0, ...OUTLINE, ...PARTS, ...parts });

/** @param {Partial<Delta>} parts @returns {Delta} */
export const delta = (parts) => ({ type: "delta", ...OUTLINE, ...PARTS, ...parts });

/** @param {Partial<Alarm>} parts @returns {Alarm} */
export const alarm = (parts) => ({
  row: parts.seq ?? 0,
  seq: 0,
  signal: "importance",
  feature: "age",
  method: "ipfi",
  label: "iPFI",
  before: 0.1,
  after: 0.5,
  width: 100,
  detector: "adwin",
  curve_before: null,
  curve_after: null,
  ...parts,
});

/** @param {Partial<Incident>} parts @returns {Incident} */
export const incident = (parts) => ({
  incident: 1,
  status: "open",
  row: parts.onset?.row ?? 0,
  seq: parts.onset?.row ?? 0,
  by_events: false,
  onset: { row: 0, earliest: 0, latest: 0, seq: null, ts: null },
  verdict: "data_moved",
  title: "data moved",
  weight: 0.75,
  alternatives: [],
  features: [],
  loss_name: "log_loss",
  loss_before: 0.25,
  loss_after: 0.5,
  summary: `incident ${parts.incident ?? 1}`,
  evidence: [],
  segments: [],
  advice: "",
  suggestion: "",
  ...parts,
});

/** @param {Record<string, number>} values @returns {Ranked[]} */
export function ranking(values) {
  const sorted = Object.entries(values).sort((a, b) => b[1] - a[1]);
  return sorted.map(([name, value], at) => [at + 1, name, value, value - 0.1, value + 0.1]);
}
