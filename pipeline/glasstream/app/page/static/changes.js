// Alarms of one change stand together: those of an incident, and others that place it at about the same event.
import { cell, element, focusedIn } from "./element.js";
import { count, fixed, named, number } from "./format.js";
import { owner } from "./incidents.js";

/** @import { View } from "./address.js" */
/** @import { Clock } from "./chart.js" */
/** @import { Alarm, Incident, Known } from "./messages.js" */
/** @import uPlot from "./vendor/uplot/uPlot.esm.js" */

/**
 * A change: alarms of one incident, or others that place it at about the same event.
 * @typedef {object} Group
 * @property {string} id that of its first alarm
 * @property {number | null} incident number of the incident that they belong to
 * @property {number} start event at which the earliest of the alarms places it, or at which the incident began
 * @property {number} end event at which the latest of them does
 * @property {number} seq event at which it was noticed first
 * @property {Alarm[]} alarms in the order they were raised
 * @property {string[]} features
 * @property {Alarm | null} loss the first alarm of the loss
 */

/** @type {Record<string, (alarm: Alarm) => string>} */
const SIGNALS = {
  importance: (alarm) => `importance (${alarm.label})`,
  pd_importance: () => "size of its effect",
  curve_shape: () => "shape of its effect",
  loss: () => "loss of the model",
};

/**
 * Names an alarm in the address.
 * @param {Alarm} alarm
 */
export const idOf = (alarm) => [alarm.row, alarm.signal, alarm.feature ?? "", alarm.method ?? ""].join("~");

/**
 * What is watched, in words: feature first.
 * @param {Alarm} alarm
 */
export function watched(alarm) {
  const signal = SIGNALS[alarm.signal]?.(alarm) ?? named(alarm.signal);
  return alarm.feature === null ? signal : `${alarm.feature}: ${signal}`;
}

/**
 * By how much, without regard to the units: relative to the larger side.
 * @param {Alarm} alarm
 */
function weight(alarm) {
  const larger = Math.max(Math.abs(alarm.before), Math.abs(alarm.after)) || 1;
  return Math.abs(alarm.after - alarm.before) / larger;
}

/**
 * Alarms by the change that they tell of, oldest first: by incident, and the others by their place. A detector says how
 * many numbers lie behind the change: so an alarm places it, and alarms that come thousands of events apart may tell of
 * the same one.
 * @param {Alarm[]} alarms
 * @param {number} events so many the stream has
 * @param {Incident[]} [incidents]
 * @returns {Group[]}
 */
export function grouped(alarms, events, incidents = []) {
  const gap = Math.max(400, events * 0.025);
  const placed = alarms
    .map((alarm) => ({ alarm, start: Math.max(0, alarm.seq - alarm.width) }))
    .sort((a, b) => a.start - b.start);
  /** @typedef {{incident: number | null, start: number, end: number, alarms: Alarm[]}} Run */
  /** @type {Run[]} */
  const runs = [];
  /** @type {Map<number, Run>} */
  const owned = new Map();
  for (const { alarm, start } of placed) {
    const incident = owner(incidents, alarm);
    const last = incident ? owned.get(incident.incident) : runs.at(-1);
    if (last && (incident || start - last.end <= gap)) {
      last.alarms.push(alarm);
      last.end = Math.max(last.end, start);
    } else if (incident) {
      // Events that are no rows, between the two, put the place of a row a little too late.
      const began = incident.by_events ? incident.onset.row : alarm.seq - (alarm.row - incident.onset.row);
      const from = Math.max(0, began);
      owned.set(incident.incident, { incident: incident.incident, start: from, end: from, alarms: [alarm] });
    } else {
      runs.push({ incident: null, start, end: start, alarms: [alarm] });
    }
  }
  const all = [...runs, ...owned.values()].sort((a, b) => a.start - b.start);
  return all.map((run) => {
    run.alarms.sort((a, b) => a.seq - b.seq || weight(b) - weight(a));
    const [first] = run.alarms;
    const features = run.alarms.map((one) => one.feature).filter((one) => one !== null);
    const loss = run.alarms.find((one) => one.signal === "loss") ?? null;
    return { ...run, seq: first.seq, id: idOf(first), features: [...new Set(features)], loss };
  });
}

/**
 * How far an alarm's curves are apart at most; their grids lie about the same.
 * @param {Alarm} alarm
 */
function distance(alarm) {
  const { curve_before: before, curve_after: after } = alarm;
  if (!before || !after) return -1;
  return Math.max(...after.curve.map((value, at) => Math.abs(value - (before.curve[at] ?? value))));
}

/**
 * The alarm of a group that says most: whose curves differ most; without curves the first one.
 * @param {Group} group
 */
export const telling = (group) => group.alarms.reduce((best, one) => (distance(one) > distance(best) ? one : best));

/**
 * The group of most alarms, the first of those.
 * @param {Group[]} groups one at least
 */
export const largest = (groups) => groups.reduce((best, one) => (one.alarms.length > best.alarms.length ? one : best));

/**
 * One group in words.
 * @param {Group} group
 */
export function sentence(group) {
  const total = group.alarms.length;
  const loss = group.loss ? `loss ${number(group.loss.before)} → ${number(group.loss.after)}; ` : "";
  return {
    title: `${group.incident === null ? "" : `incident ${group.incident}, `}about event ${count(group.start)}`,
    alarms:
      total > 1 ? `${count(total)} alarms, the first at ${count(group.seq)}` : `one alarm, at ${count(group.seq)}`,
    details: loss + (group.features.join(", ") || "the loss alone"),
  };
}

const RAISED =
  "One is raised when an importance, an effect curve or the loss moves away from what it was; it is marked on the " +
  "time axes.";

/** The panel: the changes, and the alarms of the chosen one. */
export class ChangesPanel {
  /** @type {Group[]} */
  #groups = [];
  #listed = "";
  #rows = "";
  /**
   * What each list was scrolled to last.
   * @type {{group?: string, alarm?: string}}
   */
  #revealed = {};
  /**
   * The chosen change.
   * @type {Group | null}
   */
  group = null;
  /**
   * The chosen alarm of it.
   * @type {Alarm | null}
   */
  alarm = null;

  /** @param {(alarm: Alarm) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.list = element("div", "#groups");
    this.table = element("tbody", "", element("table", "#alarms"));
    this.scroll = element("div", "#alarms-scroll");
    this.empty = element("p", "#changes-empty");
    this.marks = element("div", "#marks");
  }

  /**
   * Draw; all changes, oldest first.
   * @param {Known} data
   * @param {View} view
   */
  update(data, view) {
    const events = Math.max(data.quality?.last_seq ?? 0, data.importance?.last?.seq ?? 0);
    this.#groups = grouped(data.alarms, events, data.incidents);
    const isChosen = (/** @type {Alarm} */ one) => idOf(one) === view.alarm;
    const pointed = this.#groups.find((group) => group.alarms.some(isChosen));
    this.group = pointed ?? (this.#groups.length ? largest(this.#groups) : null);
    this.alarm = this.group && (this.group.alarms.find(isChosen) ?? telling(this.group));
    this.empty.hidden = this.#groups.length > 0;
    const seen = events ? `, in ${count(events + 1)} events` : "";
    this.empty.textContent = data.epoch === null ? "Waiting for the stream." : `No alarm so far${seen}. ${RAISED}`;
    this.scroll.hidden = !this.group;
    const shown = this.#groups.map((group) => [group.id, group.start, group.alarms.length]);
    const key = JSON.stringify([shown, this.group?.id]);
    if (key !== this.#listed) {
      this.#listed = key;
      this.#fill();
    }
    const rows = JSON.stringify([this.group?.id, this.group?.alarms.length, this.alarm && idOf(this.alarm)]);
    if (rows !== this.#rows) {
      this.#rows = rows;
      this.#fillAlarms();
    }
    return this.#groups;
  }

  #fill() {
    const focused = focusedIn(this.list);
    this.list.replaceChildren(
      ...[...this.#groups].reverse().map((group) => {
        const words = sentence(group);
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.id = group.id;
        button.setAttribute("aria-pressed", String(group === this.group));
        const title = document.createElement("strong");
        title.textContent = words.title;
        const small = document.createElement("small");
        small.textContent = words.details;
        small.title = words.details;
        button.append(title, ` · ${words.alarms}`, small);
        button.addEventListener("click", () => this.choose(telling(group)));
        if (group.id === focused) queueMicrotask(() => button.focus());
        return button;
      }),
    );
    const inUse = this.list.matches(":hover, :focus-within"); // then it stays where it is
    const id = inUse ? this.#revealed.group : `${this.group?.id} of ${this.#groups.length}`;
    this.#reveal("group", id, this.list, this.list.querySelector("[aria-pressed=true]"));
  }

  #fillAlarms() {
    const focused = focusedIn(this.table);
    this.table.replaceChildren(
      ...(this.group?.alarms ?? []).map((alarm) => {
        const row = document.createElement("tr");
        row.classList.toggle("chosen", alarm === this.alarm);
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.id = idOf(alarm);
        button.textContent = watched(alarm);
        button.title = `${watched(alarm)}: detector ${alarm.detector}`;
        button.addEventListener("click", () => this.choose(alarm));
        const name = cell("", "name wide");
        name.append(button);
        row.append(
          name,
          cell(fixed(alarm.before), "number"),
          cell(alarm.after > alarm.before ? "↗" : "↘"),
          cell(fixed(alarm.after), "number"),
          cell(count(alarm.seq), "number"),
        );
        if (idOf(alarm) === focused) queueMicrotask(() => button.focus());
        return row;
      }),
    );
    this.#reveal("alarm", this.alarm ? idOf(this.alarm) : undefined, this.scroll, this.table.querySelector(".chosen"));
  }

  /**
   * Scroll a list, and nothing else, to what is newly chosen in it.
   * @param {"group" | "alarm"} kind
   * @param {string | undefined} id
   * @param {HTMLElement} list
   * @param {Element | null} entry
   */
  #reveal(kind, id, list, entry) {
    if (!entry || this.#revealed[kind] === id) return;
    this.#revealed[kind] = id;
    const [outer, inner] = [list.getBoundingClientRect(), entry.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 2;
  }

  /**
   * The marks above a chart over events: buttons, those that would overlap as one.
   * @param {uPlot} plot
   * @param {Clock | null} clock
   */
  mark(plot, clock) {
    const { min = -Infinity, max = Infinity } = plot.scales.x;
    /** @type {{at: number, groups: Group[]}[]} */
    const near = [];
    for (const group of [...this.#groups].sort((a, b) => a.seq - b.seq)) {
      const x = clock ? clock(group.seq) : group.seq;
      if (x < min || x > max) continue;
      const at = plot.bbox.left / devicePixelRatio + plot.valToPos(x, "x");
      const last = near.at(-1);
      if (last && at - last.at < 20) last.groups.push(group);
      else near.push({ at, groups: [group] });
    }
    const key = JSON.stringify(
      near.map((one) => [
        Math.round(one.at),
        one.groups.map((group) => [group.id, group.alarms.length]),
        one.groups.some((group) => group === this.group),
      ]),
    );
    if (key === this.marks.dataset.key) return;
    this.marks.dataset.key = key;
    const focused = focusedIn(this.marks);
    this.marks.replaceChildren(
      ...near.map(({ at, groups }) => {
        const chosen = groups.find((one) => one === this.group);
        const group = chosen ?? largest(groups);
        const words = sentence(group);
        const total = groups.reduce((sum, one) => sum + one.alarms.length, 0);
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.id = group.id;
        button.dataset.seq = String(group.seq);
        button.textContent = total > 1 ? String(total) : "▾";
        button.style.left = `${at}px`;
        button.setAttribute("aria-pressed", String(chosen !== undefined));
        button.setAttribute("aria-label", `Change ${words.title}: ${words.alarms}; ${words.details}`);
        button.title = `${words.title}: ${words.alarms}\n${words.details}`;
        button.addEventListener("click", () => this.choose(telling(group)));
        if (group.id === focused) queueMicrotask(() => button.focus());
        return button;
      }),
    );
  }
}
