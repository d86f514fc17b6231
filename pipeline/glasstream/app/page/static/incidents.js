// What happened: one sentence for each incident, and the evidence for it.
import { cell, element, focusedIn } from "./element.js";
import { count, named, number, percent } from "./format.js";
import { standingSentence } from "./quality.js";

/** @import { View } from "./address.js" */
/** @import { Group } from "./changes.js" */
/** @import { Span } from "./chart.js" */
/** @import { Affected, Incident, Known, Segment, Watching } from "./messages.js" */

/**
 * What a person has chosen for a verdict of a stream.
 * @typedef {object} Choice
 * @property {boolean} [muted]
 * @property {{epoch: number, incident: number}} [seen] acknowledged up to this incident
 */

/** @typedef {{kind: "incident", incident: Incident, seen: boolean}} Told an incident with a line of its own */
/** @typedef {{kind: "muted", verdict: string, title: string, total: number, open: number}} Muted */

/**
 * Shape and text of each status.
 * @type {Record<string, {sign: string, text: string, title: string}>}
 */
const STATUSES = {
  open: { sign: "▲", text: "open", title: "It goes on" },
  over: { sign: "✓", text: "over", title: "What changed is as it was before" },
  normal: { sign: "=", text: "new normal", title: "It has lasted so long that later rows are compared with it" },
};

/** @param {string} status */
export const statusOf = (status) =>
  (Object.hasOwn(STATUSES, status) && STATUSES[status]) || { sign: "?", text: named(status), title: "" };

/**
 * The incident that an alarm belongs to: the latest one that was going on at that row, or at that event.
 * @param {Incident[]} incidents
 * @param {{row: number, seq: number}} alarm
 */
export function owner(incidents, alarm) {
  const going = incidents.filter((one) => {
    const at = one.by_events ? alarm.seq : alarm.row;
    return one.onset.earliest <= at && (one.status === "open" || at <= one.row);
  });
  const place = (/** @type {Incident} */ { onset }) => onset.seq ?? onset.row;
  return going.reduce((/** @type {Incident | null} */ best, one) => {
    return best && place(best) > place(one) ? best : one;
  }, null);
}

/**
 * The lines of the list: open incidents first, then those that nobody has acknowledged, newest first; then one line for
 * each muted verdict.
 * @param {Incident[]} incidents
 * @param {number | null} epoch
 * @param {(verdict: string) => Choice} choice
 * @returns {(Told | Muted)[]}
 */
export function lines(incidents, epoch, choice) {
  /** @type {Told[]} */
  const told = [];
  /** @type {Map<string, Muted>} */
  const muted = new Map();
  for (const incident of incidents) {
    const { verdict, title } = incident;
    const { muted: quiet, seen } = choice(verdict);
    if (quiet) {
      const line = muted.get(verdict) ?? { kind: "muted", verdict, title, total: 0, open: 0 };
      line.total += 1;
      line.open += Number(incident.status === "open");
      muted.set(verdict, line);
    } else {
      told.push({ kind: "incident", incident, seen: seen?.epoch === epoch && incident.incident <= seen.incident });
    }
  }
  const rank = (/** @type {Told} */ one) => Number(one.incident.status !== "open") * 2 + Number(one.seen);
  told.sort((a, b) => rank(a) - rank(b) || b.incident.incident - a.incident.incident);
  return [...told, ...muted.values()];
}

/**
 * The events of an incident, for the charts. If the event of its beginning is not known, events that are no rows put it
 * a little too late.
 * @param {Incident} incident
 * @returns {Span}
 */
export function span({ onset, status, row, seq, by_events }) {
  const start = onset.seq ?? (by_events ? onset.row : seq - (row - onset.row));
  return { start: Math.max(0, start), end: status === "open" ? null : seq };
}

/**
 * When an incident began and ended, in words.
 * @param {Incident} incident
 */
export function when({ onset, status, row, by_events }) {
  const { earliest, latest } = onset;
  const between = earliest === latest ? "" : ` (between ${count(earliest)} and ${count(latest)})`;
  const unit = by_events ? "event" : "row";
  const ended = status === "normal" ? "the new normal from" : "until";
  const until = status === "open" ? "" : `, ${ended} ${unit} ${count(row)}`;
  return `since ${unit} ${count(onset.row)}${between}${until}`;
}

/**
 * The event with which an incident began, and its time in the reader's time zone; empty if it is not known.
 * @param {Incident["onset"]} onset
 * @param {string} [zone] time zone; that of the browser if it is not given
 */
export function began({ seq, ts }, zone) {
  if (seq === null) return "";
  if (ts === null) return `event ${count(seq)}, without a time`;
  const time = new Date(ts).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long", timeZone: zone });
  return `event ${count(seq)}, ${time}`;
}

/** @type {Record<string, (affected: Affected) => string>} */
const FAULTS = {
  missing: () => "more values are missing",
  constant: () => "one value only",
  scaled: ({ factor, factor_low: low, factor_high: high }) =>
    low == null
      ? `multiplied by ${number(factor)}`
      : `multiplied by about ${number(factor)} (${number(low)} to ${number(high)})`,
  swapped: ({ other }) => `has the values of ${other}`,
  apart: ({ other }) => `no longer goes with ${other}`,
  shifted: () => "other values",
  alive: () => "was constant or missing before",
};

/**
 * What happened to a feature, in words.
 * @param {Affected} affected
 */
export function fault(affected) {
  if (affected.fault === null) return `${affected.feature}: same values, another role in the model`;
  const known = Object.hasOwn(FAULTS, affected.fault) ? FAULTS[affected.fault] : null;
  return `${affected.feature}: ${known ? known(affected) : named(affected.fault)}`;
}

/**
 * A part of the events that carries a change, in words.
 * @param {Segment} segment
 */
export function segment({ text, share_before, share_since, loss_before, loss_since, low, high, carried }) {
  const shares = `${percent(share_before)} of the events before, ${percent(share_since)} since`;
  const losses =
    loss_before === null && loss_since === null ? "" : `, loss ${number(loss_before)} → ${number(loss_since)}`;
  const between = low === null || high === null ? "" : ` (rise ${number(low)} to ${number(high)})`;
  const part = carried === null ? "" : `, carries ${percent(carried)} of the change`;
  return `${text}: ${shares}${losses}${between}${part}`;
}

/**
 * Why the list is empty.
 * @param {Known} data
 */
export function calm(data) {
  if (data.reading) return "Reading back what is on the topics.";
  if (!data.watched) return "Streams are not watched for incidents: drift.budget is 0.";
  if (data.epoch === null) return "Waiting for the stream.";
  const last = data.importance?.last;
  return last
    ? `No incident was published in ${count(last.row + 1)} rows.`
    : "No incident: no row has been explained so far.";
}

/** Choices of a person, kept in the browser: one entry for each stream and verdict. */
export class Choices {
  /** @param {Pick<Storage, "getItem" | "setItem" | "removeItem"> | null} storage null if the browser keeps nothing */
  constructor(storage) {
    this.storage = storage;
  }

  /**
   * @param {string} stream
   * @param {string} verdict
   * @returns {Choice}
   */
  of(stream, verdict) {
    const text = this.storage?.getItem(entry(stream, verdict)) ?? "{}";
    try {
      /** @type {Choice | null} */
      const choice = JSON.parse(text);
      return choice ?? {};
    } catch {
      return {}; // somebody else wrote it
    }
  }

  /**
   * Change a choice; whether the browser has kept it.
   * @param {string} stream
   * @param {string} verdict
   * @param {Choice} changed
   */
  set(stream, verdict, changed) {
    const { muted, seen } = { ...this.of(stream, verdict), ...changed };
    try {
      if (muted || seen) this.storage?.setItem(entry(stream, verdict), JSON.stringify({ muted, seen }));
      else this.storage?.removeItem(entry(stream, verdict));
    } catch {
      return false; // no room
    }
    return this.storage !== null;
  }
}

/**
 * @param {string} stream
 * @param {string} verdict
 */
const entry = (stream, verdict) => `glasstream.incidents ${JSON.stringify([stream, verdict])}`;

const EVIDENCE = "Logarithm to base 10 of the evidence against “nothing has changed”";
const WEIGHT = "How well each verdict explains the evidence, as a share of all; it is no probability of being right";

/** What an incident's line can do. @typedef {{open: (number: string) => void, alarms: (group: Group) => void}} Does */

/** The panel above all others. */
export class IncidentsPanel {
  #listed = "";
  /** @type {Watching | undefined} */
  #watching;

  /**
   * @param {Choices} choices
   * @param {Does} does
   * @param {() => void} redraw
   */
  constructor(choices, does, redraw) {
    this.choices = choices;
    this.does = does;
    this.redraw = redraw;
    this.standing = element("p", "#standing");
    this.calm = element("p", "#calm");
    this.list = element("ul", "#incident-list");
    this.more = element("p", "#incidents-more");
    this.watching = element("details", "#watching");
  }

  /**
   * @param {Known} data
   * @param {View} view
   * @param {Group[]} groups the alarms of each incident
   * @returns {Span[]} of the incidents that are not muted
   */
  update(data, view, groups) {
    const standing = standingSentence(data.quality?.standing ?? null);
    this.standing.hidden = !standing;
    this.standing.className = standing?.beaten ? "" : "warn";
    this.standing.textContent = standing?.text ?? "";
    this.calm.hidden = data.incidents.length > 0;
    this.calm.textContent = calm(data);
    this.calm.title = data.watched ? "" : "The page's own settings say so";
    const left = data.epoch === null ? 0 : (data.incidents_total ?? 0) - data.incidents.length;
    this.more.hidden = left <= 0;
    this.more.textContent = `${count(left)} earlier incidents are not shown; \`glasstream incidents\` lists all.`;
    this.#updateWatching(data.watching);
    const stream = data.stream ?? "";
    const shown = lines(data.incidents, data.epoch, (verdict) => this.choices.of(stream, verdict));
    const alarms = (/** @type {Incident} */ one) => groups.find((group) => group.incident === one.incident);
    const opened = shown.find((one) => one.kind === "incident" && String(one.incident.incident) === view.incident);
    const folded = opened?.kind === "incident" ? alarms(opened.incident) : undefined;
    const key = JSON.stringify([stream, data.epoch, shown, view.incident, folded?.id, folded?.alarms.length]);
    const spans = shown.flatMap((line) => (line.kind === "incident" ? span(line.incident) : []));
    if (key === this.#listed) return spans;
    this.#listed = key;
    const focused = focusedIn(this.list);
    this.list.replaceChildren(
      ...shown.map((line) => {
        if (line.kind === "muted") return this.#muted(stream, line);
        const isOpened = line === opened;
        const item = this.#line(line, isOpened);
        if (isOpened) item.append(this.#details(data, line, folded));
        return item;
      }),
    );
    for (const button of this.list.querySelectorAll("button")) {
      if (focused !== undefined && button.dataset.id === focused) button.focus();
    }
    return spans;
  }

  /** @param {Watching | undefined} watching */
  #updateWatching(watching) {
    this.watching.hidden = !watching;
    if (!watching || watching === this.#watching) return;
    this.#watching = watching;
    element("p", "", this.watching).textContent = watchingNote(watching);
    const { heads, rows } = watchingTable(watching);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    const kind = (/** @type {number} */ at) => ["feature", ""][at] ?? "number";
    for (const [at, text] of heads.entries()) head.append(Object.assign(piece("th", kind(at), text), { scope: "col" }));
    const body = table.createTBody();
    for (const { title, cells } of rows) {
      const row = body.insertRow();
      row.append(...cells.map((text, at) => cell(text, kind(at))));
      row.title = title;
    }
    element("table", "", this.watching).replaceWith(table);
  }

  /**
   * @param {Told} told
   * @param {boolean} opened
   */
  #line({ incident, seen }, opened) {
    const item = document.createElement("li");
    item.className = seen ? "seen" : "";
    item.dataset.status = incident.status;
    const id = String(incident.incident);
    const line = button(id, "", () => this.does.open(opened ? "" : id));
    line.className = "line";
    line.setAttribute("aria-expanded", String(opened));
    const { sign, text, title } = statusOf(incident.status);
    const chip = piece("span", "chip", `${sign} ${text}`);
    chip.title = title;
    const small = `${incident.title} · ${when(incident)}${seen ? " · acknowledged" : ""}`;
    line.append(chip, piece("span", "summary", incident.summary), piece("small", "", small));
    if (incident.status === "open" && incident.suggestion) {
      const what = piece("small", "todo", `→ ${incident.suggestion}`);
      what.title = "Advice, from verdict, loss and recovery";
      line.append(what);
    }
    item.append(line);
    return item;
  }

  /**
   * @param {string} stream
   * @param {Muted} line
   */
  #muted(stream, { verdict, title, total, open }) {
    const item = document.createElement("li");
    item.className = "muted";
    const incidents = `${count(total)} incident${total > 1 ? "s" : ""}${open ? `, ${count(open)} open` : ""}`;
    const text = piece("span", "", `muted: “${title}”, ${incidents} `);
    item.append(text, this.#choice(`unmute~${verdict}`, "Unmute", stream, verdict, { muted: false }, ""));
    return item;
  }

  /**
   * @param {Known} data
   * @param {Told} told
   * @param {Group | undefined} alarms
   */
  #details(data, { incident, seen }, alarms) {
    const details = piece("div", "details", "");
    const stream = data.stream ?? "";
    const { verdict, title } = incident;

    const facts = document.createElement("dl");
    /** @param {string} name @param {string} text @param {string} [tip] */
    const fact = (name, text, tip = "") => {
      const value = piece("dd", "", text);
      value.title = tip;
      facts.append(piece("dt", "", name), value);
      return value;
    };
    const more = piece("code", "", `ops/docs/incidents.md#${verdict}`);
    if (incident.suggestion) fact("suggestion", incident.suggestion, "From verdict, loss and recovery");
    fact("what to do", `${incident.advice} More: `).append(more);
    const first = began(incident.onset);
    if (first) fact("began with", first, "The event, and its time in your time zone");
    const ranked = [{ title, weight: incident.weight }, ...incident.alternatives];
    fact("verdict", ranked.map((one) => `${one.title} ${percent(one.weight)}`).join(" · "), WEIGHT);
    if (incident.features.length) fact("features", incident.features.map(fault).join("; "));
    const { loss_name, loss_before, loss_after } = incident;
    fact("loss", `${named(loss_name)} ${number(loss_before)} → ${number(loss_after)}`);
    for (const one of incident.segments) fact("where", segment(one), "Estimated with rows that did not grow the tree");
    if (alarms) {
      const total = alarms.alarms.length;
      const show = button(`alarms~${incident.incident}`, `show ${count(total)} below`, () => this.does.alarms(alarms));
      fact("drift alarms", "").append(show);
    }

    const last = data.incidents.filter((one) => one.verdict === verdict).at(-1) ?? incident;
    const mark = { epoch: data.epoch ?? 0, incident: last.incident };
    const scope = `This holds for the stream ${stream} and the verdict “${title}”`;
    const until = `${scope}. Later incidents stand out again`;
    const buttons = piece("div", "controls", "");
    buttons.append(
      seen
        ? this.#choice(`seen~${verdict}`, "Take back the acknowledgement", stream, verdict, { seen: undefined }, scope)
        : this.#choice(`seen~${verdict}`, "Acknowledge", stream, verdict, { seen: mark }, until),
      this.#choice(`mute~${verdict}`, `Mute “${title}”`, stream, verdict, { muted: true }, scope),
    );
    details.append(facts, evidence(incident), buttons);
    return details;
  }

  /**
   * A button that changes what the browser keeps.
   * @param {string} id
   * @param {string} text
   * @param {string} stream
   * @param {string} verdict
   * @param {Choice} changed
   * @param {string} scope
   */
  #choice(id, text, stream, verdict, changed, scope) {
    const made = button(id, text, () => {
      if (!this.choices.set(stream, verdict, changed)) made.textContent = "This browser has no room to keep it";
      else this.redraw();
    });
    made.disabled = this.choices.storage === null;
    const kept = `${scope}${scope && ". "}It is kept in this browser only, and nobody else sees it`;
    made.title = made.disabled ? "This browser does not let the page keep anything" : kept;
    return made;
  }
}

/** @param {Incident} incident */
function evidence(incident) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const [text, kind, title] of [
    ["series", "", "The watched series that changed, strongest first"],
    ["feature", "", ""],
    ["since row", "number", "First row of the change in this series"],
    ["strength", "number", EVIDENCE],
    [
      "before → after",
      "number",
      "Median of a number or difference, share of the formerly most frequent category, or mean loss or importance",
    ],
  ]) {
    const made = Object.assign(document.createElement("th"), {
      textContent: text,
      scope: "col",
      className: kind,
      title,
    });
    head.append(made);
  }
  const body = table.createTBody();
  for (const one of incident.evidence) {
    body
      .insertRow()
      .append(
        cell(one.side),
        cell(one.other === null ? (one.feature ?? "–") : `${one.feature}, ${one.other}`, "feature"),
        cell(count(one.row), "number"),
        cell(number(one.strength), "number"),
        cell(`${number(one.before)} → ${number(one.after)}`, "number"),
      );
  }
  return table;
}

/**
 * What the table of watched series shows.
 * @param {Watching} watching
 */
export function watchingNote({ row, left_out, note }) {
  const all = "`glasstream incidents --watching` lists all.";
  const further = left_out ? ` ${count(left_out)} further features are not shown; ${all}` : "";
  return `As of row ${count(row)}. ${note}${further}`;
}

/**
 * Heads and rows of the table of watched series.
 * @param {Watching} watching
 */
export function watchingTable({ series }) {
  const horizons = [...new Set(series.flatMap((one) => Object.keys(one.detectable)))].sort(
    (a, b) => Number(a) - Number(b),
  );
  const heads = [
    "feature",
    "state",
    "values",
    "bins",
    "block",
    ...horizons.map((rows) => `within ${count(Number(rows))} rows`),
  ];
  const rows = series.map((one) => ({
    title: one.title,
    cells: [
      one.feature ?? "(label)",
      named(one.state),
      count(one.known),
      count(one.bins),
      count(one.block),
      ...horizons.map((rows) => one.detectable[rows] ?? "–"),
    ],
  }));
  return { heads, rows };
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} kind a class of page.css
 * @param {string} text
 */
function piece(tag, kind, text) {
  const made = document.createElement(tag);
  made.className = kind;
  made.textContent = text;
  return made;
}

/**
 * @param {string} id
 * @param {string} text
 * @param {() => void} call
 */
function button(id, text, call) {
  const made = document.createElement("button");
  made.type = "button";
  made.dataset.id = id;
  made.textContent = text;
  made.addEventListener("click", call);
  return made;
}
