// The page: a view (in the address), a feed of what is known of it, and five panels that draw it.
import * as address from "./address.js";
import { ChangesPanel, METHODS, idOf, sentence } from "./changes.js";
import { EffectsPanel, options } from "./effects.js";
import { Feed } from "./feed.js";
import { QualityPanel } from "./quality.js";
import { ReliancePanel } from "./reliance.js";
import { status } from "./status.js";
import { dress, onSystem } from "./theme.js";
import { TrustPanel } from "./trust.js";

const element = (id) => document.getElementById(id);
const link = { up: false, since: null };
/** What the charts over events have in common. */
const shared = { groups: [], chosen: null, effect: null, range: null, mark: (plot) => changes.mark(plot) };

let view = address.read();
let data = null;
let due = false;
let firstPaint = null;
let spoken = null;
/** The curves shown are those of the chosen alarm, until a feature or a time is chosen. */
let curvesOfAlarm = true;

const changes = new ChangesPanel((alarm) => {
  curvesOfAlarm = true;
  go({ alarm: idOf(alarm), ...(alarm.feature === null || !(alarm.feature in (data.outputs ?? {})) ? {} : { effect: alarm.feature, output: alarm.curve_after?.output ?? "" }) });
});
const act = {
  pin: (name, on) => go({ pin: on ? [...view.pin.filter((one) => one !== name), name].slice(-40) : view.pin.filter((one) => one !== name) }),
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
const quality = new QualityPanel(shared);
const reliance = new ReliancePanel(shared, act);
const effects = new EffectsPanel(act);
const trust = new TrustPanel(shared);
const charts = { loss: quality.loss, metric: quality.metric, importance: reliance.chart, effect: effects.chart, novelty: trust.chart };

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

/** Change the view: in the address, for the server, on the screen. */
function go(changed) {
  view = { ...view, ...changed };
  address.write(view);
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
  element("method").disabled = !data?.methods?.length;
  status(data, link);
  controls();
  if (!data) return;
  shared.range = range();
  shared.groups = changes.update(data, view);
  shared.chosen = changes.group?.id ?? null;
  const alarm = curvesOfAlarm && !view.then ? curvesAlarm() : null;
  shared.effect = (alarm?.curve_before ? alarm.feature : data.effect?.feature) ?? null;
  quality.update(data);
  reliance.update(data, view);
  effects.update(data, view, alarm);
  trust.update(data);
  announce();
  document.title = data.stream === null ? "Glasstream" : `${data.stream} – Glasstream`;
  if (firstPaint === null && data.epoch !== null) firstPaint = performance.now();
}

/** The alarm whose curves are shown: the chosen one, or the one that says most if that has curves. */
function curvesAlarm() {
  const alarm = changes.alarm;
  return alarm && (view.alarm || alarm.curve_before) ? alarm : null;
}

/** The events that the charts show: all, or the last ones. */
function range() {
  const last = Math.max(data.quality?.last_seq ?? 0, data.importance?.seq.at(-1) ?? 0, data.novelty?.last_seq ?? 0);
  const first = Math.min(data.quality?.bins.first[0] ?? last, data.importance?.seq[0] ?? last);
  return [view.window ? Math.max(first, last - Number(view.window)) : first, Math.max(last, first + 1)];
}

function controls() {
  const streams = data?.streams ?? [];
  const wanted = view.stream && !streams.includes(view.stream) ? [...streams, view.stream] : streams;
  fill("stream", wanted.map((name) => [name, name]), data?.stream ?? view.stream, "waiting for the first record");
  fill("method", (data?.methods ?? []).map((name) => [name, METHODS[name] ?? name]), data?.importance?.method ?? "", "–");
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.checked = radio.value === view.mode;
  element("top").value = view.top;
  if (![...element("window").options].some((one) => one.value === view.window)) element("window").append(new Option(`last ${view.window}`, view.window));
  element("window").value = view.window;
}

function fill(id, entries, chosen, none) {
  const select = element(id);
  const key = JSON.stringify(entries);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    select.replaceChildren(...(entries.length ? entries : [["", none]]).map(([value, text]) => new Option(text, value)));
  }
  if (chosen != null && select.value !== chosen) select.value = chosen;
}

/** Tell of new changes to who cannot see them. */
function announce() {
  const key = `${data.stream}~${data.epoch}`;
  const known = shared.groups.length;
  if (spoken?.key === key && known > spoken.known) {
    const words = sentence(shared.groups.at(-1));
    say(`New change ${words.title}: ${words.alarms}, ${words.details}.`);
  }
  spoken = { key, known };
}

function say(text) {
  element("spoken").textContent = text;
}

function redress() {
  dress(view.theme);
  for (const chart of Object.values(charts)) chart.restyle();
  render();
}

element("stream").addEventListener("change", (event) => {
  curvesOfAlarm = true;
  go({ stream: event.target.value, method: "", pin: [], effect: "", output: "", then: "", alarm: "" });
});
element("method").addEventListener("change", (event) => go({ method: event.target.value }));
element("top").addEventListener("change", (event) => go({ top: event.target.value }));
element("window").addEventListener("change", (event) => go({ window: event.target.value }));
for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", () => go({ mode: radio.value }));
element("theme").addEventListener("click", () => {
  go({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
  redress();
});
element("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind the # is the view
  element("reliance-title").focus();
});
addEventListener("hashchange", () => {
  view = address.read();
  curvesOfAlarm = true;
  redress();
  follow();
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input[type=search]")) return;
  event.preventDefault();
  element("find").focus();
});
onSystem(redress);
setInterval(() => status(data, link), 1000);

redress();
follow();

/**
 * For tests and the curious; nothing can be changed through it.
 *
 *     glasstream.connected    whether the server answers
 *     glasstream.firstPaint   milliseconds from the opening of the page until a stream was drawn; null before
 *     glasstream.known        all that the server has sent of this view, as one object
 *     glasstream.drawn        by chart (loss, metric, importance, effect, novelty): x, series (label, values), range
 *     glasstream.changes      the changes that are marked: start, seq, alarms
 *     glasstream.view         what the address says
 */
Object.defineProperty(window, "glasstream", {
  value: Object.freeze({
    get connected() { return link.up; },
    get firstPaint() { return firstPaint; },
    get known() { return structuredClone(data); },
    get drawn() { return Object.fromEntries(Object.entries(charts).map(([name, chart]) => [name, chart.drawn])); },
    get changes() { return structuredClone(shared.groups); },
    get view() { return structuredClone(view); },
  }),
});
