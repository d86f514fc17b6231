// The page: a view (in the address), a feed of what is known of it, and panels that draw it: one of all streams, or
// eight of one stream.
import * as address from "./address.js";
import { ChangesPanel, idOf, sentence, telling } from "./changes.js";
import { clockOf, drawChanges, drawIncidents, eventRange } from "./chart.js";
import { EffectsPanel } from "./effects.js";
import { element } from "./element.js";
import { Feed } from "./feed.js";
import { GroupsPanel } from "./groups.js";
import { Choices, IncidentsPanel } from "./incidents.js";
import { OverviewPanel } from "./overview.js";
import { QualityPanel } from "./quality.js";
import { ReliancePanel } from "./reliance.js";
import { SegmentsPanel } from "./segments.js";
import { status } from "./status.js";
import { dress, onSystem } from "./theme.js";
import { TrustPanel } from "./trust.js";
import { WhyPanel } from "./why.js";

/** @import { View } from "./address.js" */
/** @import { Group } from "./changes.js" */
/** @import { Clock, Mark, Range, Span } from "./chart.js" */
/** @import { Alarm, Known } from "./messages.js" */
/** @import { Link } from "./status.js" */
/** @import uPlot from "./vendor/uplot/uPlot.esm.js" */

/**
 * What the charts over events have in common.
 * @typedef {object} Shared
 * @property {Group[]} groups the changes that are marked
 * @property {string | null} chosen id of the chosen one
 * @property {string | null} effect feature whose effect is shown
 * @property {Range} range events that are shown
 * @property {Clock | null} clock by it events are drawn at their times
 * @property {Span[]} spans the incidents that are shaded
 * @property {(plot: uPlot, more?: Mark[]) => void} underlay shade the incidents, and mark the changes and more
 * @property {(plot: uPlot) => void} mark put the marks of the changes above a chart
 */

/**
 * What a panel can change in the view.
 * @typedef {object} Act
 * @property {(name: string, on: boolean) => void} pin keep a feature drawn, or no longer
 * @property {(name: string) => void} effect show the curves of a feature
 * @property {(name: string) => void} output show the curves of an output
 * @property {(seq: number) => void} then compare the newest curve with that of an event
 */

const MOST_PINNED = 40;

/** @type {Link} */
const link = { up: false, since: null };
/** @type {Shared} */
const shared = {
  groups: [],
  chosen: null,
  effect: null,
  range: [0, 1],
  clock: null,
  spans: [],
  underlay: (plot, more = []) => {
    drawIncidents(plot, shared.spans, shared.clock);
    drawChanges(plot, [...shared.groups, ...more], shared.chosen, shared.clock);
  },
  mark: (plot) => changes.mark(plot, shared.clock),
};

let view = address.read(location.hash);
/** @type {Known | null} */
let data = null;
let due = false;
/** @type {number | null} */
let firstPaint = null;
/** @type {{key: string, known: number, incidents: number} | null} */
let spoken = null;
/** The curves shown are those of the chosen alarm, until a feature or a time is chosen. */
let curvesOfAlarm = true;

/** @param {Alarm} alarm */
function choose(alarm) {
  const { feature, curve_after } = alarm;
  const hasCurves = feature !== null && Object.hasOwn(data?.outputs ?? {}, feature);
  curvesOfAlarm = true;
  go({ alarm: idOf(alarm), ...(hasCurves ? { effect: feature, output: curve_after?.output ?? "" } : {}) });
}

const changes = new ChangesPanel(choose);
const incidents = new IncidentsPanel(
  new Choices(storage()),
  {
    open: (incident) => go({ incident }),
    alarms: (group) => {
      choose(telling(group));
      element("section", "#changes").scrollIntoView({ block: "nearest" });
    },
  },
  render,
);
/** @type {Act} */
const act = {
  pin: (name, on) => {
    const others = view.pin.filter((one) => one !== name);
    go({ pin: on ? [...others, name].slice(-MOST_PINNED) : others });
  },
  effect: (name) => {
    curvesOfAlarm = false;
    go({ effect: name, output: "" });
  },
  output: (name) => {
    curvesOfAlarm = false;
    go({ output: name });
  },
  then: (seq) => {
    curvesOfAlarm = false;
    go({ then: String(seq) });
  },
};
const overview = new OverviewPanel(go);
const quality = new QualityPanel(shared);
const reliance = new ReliancePanel(shared, act);
const effects = new EffectsPanel(act);
const trust = new TrustPanel(shared);
const why = new WhyPanel(go);
const byGroup = new GroupsPanel();
const weak = new SegmentsPanel();
const charts = {
  loss: quality.loss,
  metric: quality.metric,
  importance: reliance.chart,
  effect: effects.chart,
  novelty: trust.chart,
};

const feed = new Feed(
  (known) => {
    data = known;
    render();
  },
  (up) => {
    if (!up && link.up) link.since = new Date();
    if (up !== link.up) say(up ? "Connected." : "The connection is lost.");
    link.up = up;
    render();
  },
);

/**
 * Change the view: in the address, for the server, on the screen.
 * @param {Partial<View>} changed
 */
function go(changed) {
  const only = !view.stream && data?.stream && !("theme" in changed) ? { stream: data.stream } : {};
  view = { ...view, ...only, ...changed }; // whoever chose something stays with the stream when there are others
  const hash = address.written(view);
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  follow();
}

function follow() {
  feed.follow(address.asked(view));
  render();
}

function render() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    paint();
  });
}

function paint() {
  element("select", "#method").disabled = !Object.keys(data?.methods ?? {}).length;
  const clock = clockOf(data?.quality?.bins);
  shared.clock = view.axis === "clock" ? clock : null;
  status(data, link, view.axis === "clock" && clock === null);
  controls(clock !== null);
  if (!data) return;
  const all = data.rows !== undefined;
  element("section", "#overview").hidden = !all;
  element("section", "#incidents").hidden = all;
  element("main").hidden = all;
  document.title = data.stream === null ? "Glasstream" : `${data.stream} – Glasstream`;
  if (firstPaint === null && (all || data.epoch !== null)) firstPaint = performance.now();
  if (all) {
    spoken = null;
    overview.update(data, view, (stream) => address.addressOf(view, stream));
    return;
  }
  shared.range = eventRange(data, view);
  shared.groups = changes.update(data, view);
  shared.chosen = changes.group?.id ?? null;
  shared.spans = incidents.update(data, view, shared.groups);
  const alarm = curvesOfAlarm && !view.then ? curvesAlarm() : null;
  shared.effect = (alarm?.curve_before ? alarm.feature : data.effect?.feature) ?? null;
  quality.update(data);
  reliance.update(data, view);
  effects.update(data, view, alarm);
  trust.update(data);
  why.update(data, view);
  byGroup.update(data);
  weak.update(data);
  announce(data);
}

/** The alarm whose curves are shown: the chosen one, or the one that says most if that has curves. */
function curvesAlarm() {
  const alarm = changes.alarm;
  return alarm && (view.alarm || alarm.curve_before) ? alarm : null;
}

/** @param {boolean} timed whether there are clock times */
function controls(timed) {
  const streams = data?.streams ?? [];
  const all = data?.rows !== undefined;
  for (const label of document.querySelectorAll("header > label")) label.toggleAttribute("hidden", all);
  const back = element("a", "#all");
  back.hidden = all || streams.length < 2;
  back.href = address.addressOf(view, "");
  const wanted = view.stream && !streams.includes(view.stream) ? [...streams, view.stream] : streams;
  const name = (/** @type {string} */ stream) => stream;
  fill(element("select", "#stream"), wanted, name, data?.stream ?? view.stream, "waiting for the first record");
  const methods = data?.methods ?? {};
  const label = (/** @type {string} */ method) => methods[method] ?? method;
  fill(element("select", "#method"), Object.keys(methods), label, data?.importance?.method ?? "", "–");
  for (const radio of modes()) radio.checked = radio.value === view.mode;
  element("select", "#top").value = view.top;
  const axis = element("select", "#axis");
  axis.value = view.axis;
  axis.options[1].disabled = !timed;
  axis.options[1].text = timed ? "clock time" : "clock time (events have no ts)";
  const windows = element("select", "#window");
  if (![...windows.options].some((one) => one.value === view.window)) {
    windows.append(new Option(`last ${view.window}`, view.window));
  }
  windows.value = view.window;
}

/** @returns {NodeListOf<HTMLInputElement>} */
const modes = () => document.querySelectorAll("input[name=mode]");

/**
 * @param {HTMLSelectElement} select
 * @param {string[]} values
 * @param {(value: string) => string} name
 * @param {string} chosen
 * @param {string} none said where there is no value
 */
function fill(select, values, name, chosen, none) {
  const key = JSON.stringify(values);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    const options = values.map((value) => new Option(name(value), value));
    select.replaceChildren(...(options.length ? options : [new Option(none, "")]));
  }
  if (select.value !== chosen) select.value = chosen;
}

/**
 * Tell of new incidents and changes to who cannot see them.
 * @param {Known} known
 */
function announce(known) {
  const key = `${known.stream}~${known.epoch}`;
  const newest = shared.groups.at(-1);
  if (spoken?.key === key && newest && shared.groups.length > spoken.known) {
    const words = sentence(newest);
    say(`New change ${words.title}: ${words.alarms}, ${words.details}.`);
  }
  const total = known.incidents_total ?? 0;
  const incident = known.incidents.at(-1);
  if (spoken?.key === key && incident && total > spoken.incidents) say(`New incident: ${incident.summary}`);
  spoken = { key, known: shared.groups.length, incidents: total };
}

/** What the browser keeps for this page; null if it keeps nothing. */
function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

/** @param {string} text */
function say(text) {
  element("p", "#spoken").textContent = text;
}

function redress() {
  dress(view.theme);
  for (const chart of Object.values(charts)) chart.restyle();
  render();
}

/**
 * Call with what is chosen from a list.
 * @param {string} id
 * @param {(value: string) => void} call
 */
function onChoice(id, call) {
  const select = element("select", `#${id}`);
  select.addEventListener("change", () => call(select.value));
}

onChoice("stream", (stream) => {
  curvesOfAlarm = true;
  const { theme, window, axis, mode, top, sort, search } = view;
  go({ ...address.read(""), theme, window, axis, mode, top, sort, search, stream });
});
onChoice("method", (method) => go({ method }));
onChoice("top", (top) => go({ top }));
onChoice("axis", (axis) => go({ axis }));
onChoice("window", (last) => go({ window: last }));
for (const radio of modes()) radio.addEventListener("change", () => go({ mode: radio.value }));
element("button", "#theme").addEventListener("click", () => {
  go({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  redress();
});
element("a", "#skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind the # is the view
  if (data?.rows) element("input", "#search").focus();
  else element("h2", "#reliance-title").focus();
});
addEventListener("hashchange", () => {
  view = address.read(location.hash);
  curvesOfAlarm = true;
  redress();
  follow();
});
addEventListener("keydown", (event) => {
  const find = element("input", data?.rows ? "#search" : "#find");
  if (event.key !== "/" || event.target === find) return;
  event.preventDefault();
  find.focus();
});
addEventListener("storage", render); // another tab has acknowledged or muted something
onSystem(redress);
setInterval(() => status(data, link, view.axis === "clock" && clockOf(data?.quality?.bins) === null), 1000);
setInterval(() => {
  if (data?.rows) render(); // times that are said relative to now
}, 10_000);

redress();
follow();

/**
 * For tests and the curious; nothing can be changed through it.
 *
 *     glasstream.connected    whether the server answers
 *     glasstream.firstPaint   milliseconds from the opening of the page until something was drawn; null before
 *     glasstream.known        all that the server has sent of this view, as one object
 *     glasstream.drawn        by chart (loss, metric, importance, effect, novelty): x, series (label, values), range
 *     glasstream.base.changes      the changes that are marked: start, seq, alarms
 *     glasstream.view         what the address says
 */
Object.defineProperty(window, "glasstream", {
  value: Object.freeze({
    get connected() {
      return link.up;
    },
    get firstPaint() {
      return firstPaint;
    },
    get known() {
      return structuredClone(data);
    },
    get drawn() {
      return Object.fromEntries(Object.entries(charts).map(([name, chart]) => [name, chart.drawn]));
    },
    get changes() {
      return structuredClone(shared.groups);
    },
    get view() {
      return structuredClone(view);
    },
  }),
});
