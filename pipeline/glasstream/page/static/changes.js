// Alarms of one change stand together: those that place it at about the same event.
import { count, fixed, named, number } from "./format.js";

export const METHODS = { ipfi: "iPFI", isage: "iSAGE", ipdp: "iPDP" };

const SIGNALS = {
  importance: (alarm) => `importance (${METHODS[alarm.method] ?? alarm.method})`,
  pd_importance: () => "size of its effect",
  curve_shape: () => "shape of its effect",
  loss: () => "loss of the model",
};

/** Names an alarm in the address. */
export const idOf = (alarm) => [alarm.row, alarm.signal, alarm.feature ?? "", alarm.method ?? ""].join("~");

/** What is watched, in words: feature first. */
export function watched(alarm) {
  const signal = SIGNALS[alarm.signal]?.(alarm) ?? named(alarm.signal);
  return alarm.feature === null ? signal : `${alarm.feature}: ${signal}`;
}

/** By how much, without regard to the units: relative to the larger side. */
const weight = (alarm) => Math.abs(alarm.after - alarm.before) / (Math.max(Math.abs(alarm.before), Math.abs(alarm.after)) || 1);

/**
 * Alarms by the change that they tell of, oldest first. A detector says how many numbers lie behind the change: so an
 * alarm places it, and alarms that come thousands of events apart may tell of the same one.
 * @param {object[]} alarms
 * @param {number} events so many the stream has
 */
export function grouped(alarms, events) {
  const gap = Math.max(400, events * 0.025);
  const placed = alarms.map((alarm) => ({ alarm, start: Math.max(0, alarm.seq - alarm.width) })).sort((a, b) => a.start - b.start);
  const groups = [];
  for (const { alarm, start } of placed) {
    const last = groups.at(-1);
    if (last && start - last.end <= gap) {
      last.alarms.push(alarm);
      last.end = start;
    } else {
      groups.push({ start, end: start, alarms: [alarm] });
    }
  }
  for (const group of groups) {
    group.alarms.sort((a, b) => a.seq - b.seq || weight(b) - weight(a));
    group.seq = group.alarms[0].seq;
    group.id = idOf(group.alarms[0]);
    group.features = [...new Set(group.alarms.map((one) => one.feature).filter((one) => one !== null))];
    group.loss = group.alarms.find((one) => one.signal === "loss") ?? null;
  }
  return groups;
}

/** How far an alarm's curves are apart at most; their grids lie about the same. */
function distance(alarm) {
  const { curve_before: before, curve_after: after } = alarm;
  return before && after ? Math.max(...after.curve.map((value, at) => Math.abs(value - (before.curve[at] ?? value)))) : -1;
}

/** The alarm of a group that says most: whose curves differ most; without curves the first one. */
export const telling = (group) => group.alarms.reduce((best, one) => (distance(one) > distance(best) ? one : best));

/** One group in words. */
export function sentence(group) {
  const total = group.alarms.length;
  const loss = group.loss ? `loss ${number(group.loss.before)} → ${number(group.loss.after)}; ` : "";
  return {
    title: `about event ${count(group.start)}`,
    alarms: total > 1 ? `${count(total)} alarms, the first at ${count(group.seq)}` : `one alarm, at ${count(group.seq)}`,
    details: loss + (group.features.join(", ") || "the loss alone"),
  };
}

/** The panel: the changes, and the alarms of the chosen one. */
export class ChangesPanel {
  #groups = [];
  #listed = "";
  #rows = "";
  #revealed = {};

  constructor(choose) {
    this.choose = choose;
    this.list = document.getElementById("groups");
    this.table = document.querySelector("#alarms tbody");
    this.scroll = document.getElementById("alarms-scroll");
    this.empty = document.getElementById("changes-empty");
    this.marks = document.getElementById("marks");
  }

  /** All changes, oldest first, and the ones that are chosen. */
  update(data, view) {
    const events = Math.max(data.quality?.last_seq ?? 0, data.importance?.last?.seq ?? 0);
    this.#groups = grouped(data.alarms, events);
    this.group = this.#groups.find((group) => group.alarms.some((one) => idOf(one) === view.alarm)) ?? largest(this.#groups);
    this.alarm = this.group ? (this.group.alarms.find((one) => idOf(one) === view.alarm) ?? telling(this.group)) : null;
    this.empty.hidden = this.#groups.length > 0;
    this.empty.textContent = data.epoch === null
      ? "Waiting for the stream."
      : `No alarm so far${events ? `, in ${count(events + 1)} events` : ""}. One is raised when an importance, an effect curve or the loss moves away from what it was; it is marked on the time axes.`;
    this.scroll.hidden = !this.group;
    const key = JSON.stringify([this.#groups.map((group) => [group.id, group.alarms.length]), this.group?.id]);
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
    const focused = document.activeElement?.closest?.("#groups") ? document.activeElement.dataset.id : null;
    this.list.replaceChildren(...[...this.#groups].reverse().map((group) => {
      const words = sentence(group);
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.id = group.id;
      button.setAttribute("aria-pressed", String(group === this.group));
      const title = document.createElement("strong");
      title.textContent = words.title;
      const small = document.createElement("small");
      small.textContent = small.title = words.details;
      button.append(title, ` · ${words.alarms}`, small);
      button.addEventListener("click", () => this.choose(telling(group)));
      if (group.id === focused) queueMicrotask(() => button.focus());
      return button;
    }));
    const inUse = this.list.matches(":hover, :focus-within"); // then it stays where it is
    const id = inUse ? this.#revealed.group : `${this.group?.id} of ${this.#groups.length}`;
    this.#reveal("group", id, this.list, this.list.querySelector("[aria-pressed=true]"));
  }

  #fillAlarms() {
    const focused = this.table.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.table.replaceChildren(...(this.group?.alarms ?? []).map((alarm) => {
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
      row.append(name, cell(fixed(alarm.before), "number"), cell(alarm.after > alarm.before ? "↗" : "↘"), cell(fixed(alarm.after), "number"), cell(count(alarm.seq), "number"));
      if (idOf(alarm) === focused) queueMicrotask(() => button.focus());
      return row;
    }));
    this.#reveal("alarm", this.alarm && idOf(this.alarm), this.scroll, this.table.querySelector(".chosen"));
  }

  /** Scroll a list, and nothing else, to what is newly chosen in it. */
  #reveal(kind, id, list, entry) {
    if (!entry || this.#revealed[kind] === id) return;
    this.#revealed[kind] = id;
    const [outer, inner] = [list.getBoundingClientRect(), entry.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 2;
  }

  /** The marks above a chart over events: buttons, those that would overlap as one. */
  mark(plot) {
    const scale = plot.scales.x;
    const near = [];
    for (const group of this.#groups) {
      if (group.seq < scale.min || group.seq > scale.max) continue;
      const at = plot.bbox.left / devicePixelRatio + plot.valToPos(group.seq, "x");
      const last = near.at(-1);
      if (last && at - last.at < 20) last.groups.push(group);
      else near.push({ at, groups: [group] });
    }
    const key = JSON.stringify(near.map((one) => [Math.round(one.at), one.groups.map((group) => [group.id, group.alarms.length]), one.groups.includes(this.group)]));
    if (key === this.marks.dataset.key) return;
    this.marks.dataset.key = key;
    const focused = this.marks.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.marks.replaceChildren(...near.map(({ at, groups }) => {
      const group = groups.includes(this.group) ? this.group : largest(groups);
      const words = sentence(group);
      const total = groups.reduce((sum, one) => sum + one.alarms.length, 0);
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.id = group.id;
      button.dataset.seq = group.seq;
      button.textContent = total > 1 ? total : "▾";
      button.style.left = `${at}px`;
      button.setAttribute("aria-pressed", String(groups.includes(this.group)));
      button.setAttribute("aria-label", `Change ${words.title}: ${words.alarms}; ${words.details}`);
      button.title = `${words.title}: ${words.alarms}\n${words.details}`;
      button.addEventListener("click", () => this.choose(telling(group)));
      if (group.id === focused) queueMicrotask(() => button.focus());
      return button;
    }));
  }
}

const largest = (groups) => groups.reduce((best, one) => (best && best.alarms.length >= one.alarms.length ? best : one), null);

function cell(text, kind = "") {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = kind;
  return made;
}
