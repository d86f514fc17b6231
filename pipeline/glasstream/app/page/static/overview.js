// All streams: a row each, sorted and searched.
import { element, focusedIn } from "./element.js";
import { ago, count, fixed, number } from "./format.js";
import { statusOf } from "./incidents.js";
import { best, sizeOf } from "./quality.js";

/** @import { View } from "./address.js" */
/** @import { Known, StreamRow } from "./messages.js" */

/** Milliseconds after the newest event from which a stream counts as idle. */
const IDLE_MS = 60_000;

/**
 * By column: what it is sorted by, and whether the largest comes first. Rows without a value come last.
 * @type {Record<string, {of: (row: StreamRow, now: number) => string | number | null, largestFirst: boolean}>}
 */
const COLUMNS = {
  stream: { of: (row) => row.stream, largestFirst: false },
  quality: { of: (row) => row.standing && skill(row.standing), largestFirst: false },
  leading: { of: (row) => row.leading[0]?.[0] ?? null, largestFirst: false },
  incident: {
    of: ({ incident }) => incident && incident.reported + (incident.status === "open" ? 1e15 : 0),
    largestFirst: true,
  },
  rate: { of: (row, now) => rateOf(row, now), largestFirst: true },
  events: { of: (row) => row.events, largestFirst: true },
};

/**
 * The column and whether it is reversed; streams with open incidents come first if nothing else is chosen.
 * @param {string} sort name of a column, after a `-` if it is reversed
 */
export function order(sort) {
  const name = sort.replace(/^-/, "");
  return Object.hasOwn(COLUMNS, name)
    ? { column: name, reversed: sort.startsWith("-") }
    : { column: "incident", reversed: false };
}

/**
 * How much of the way from the best baseline to perfection the model goes; comparable between streams.
 * @param {NonNullable<StreamRow["standing"]>} standing
 */
export function skill(standing) {
  const baseline = best(standing).value;
  const { model } = standing;
  if (baseline === null || model === null) return null;
  const room = standing.most_frequent === null ? baseline : 1 - baseline;
  const gained = standing.most_frequent === null ? baseline - model : model - baseline;
  return gained / Math.max(room, 1e-9);
}

/**
 * Events per second; 0 for a stream whose newest event is old.
 * @param {StreamRow} row
 * @param {number} now in milliseconds since 1970
 */
export const rateOf = (row, now) => (now - row.newest > IDLE_MS ? 0 : row.rate);

/**
 * The rows whose name has a text in it, in order.
 * @param {StreamRow[]} rows
 * @param {Pick<View, "sort" | "search">} view
 * @param {number} now in milliseconds since 1970
 */
export function arranged(rows, view, now) {
  const wanted = view.search.trim().toLowerCase();
  const { column, reversed } = order(view.sort);
  const { of, largestFirst } = COLUMNS[column];
  const direction = largestFirst === reversed ? 1 : -1;
  const keyed = rows
    .filter((row) => row.stream.toLowerCase().includes(wanted))
    .map((row) => ({ row, key: of(row, now) }));
  const byName = (/** @type {StreamRow} */ a, /** @type {StreamRow} */ b) =>
    a.stream.localeCompare(b.stream, "en", { numeric: true });
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null)
      return Number(a.key === null) - Number(b.key === null) || byName(a.row, b.row);
    const compared =
      typeof a.key === "string" || typeof b.key === "string"
        ? String(a.key).localeCompare(String(b.key), "en", { numeric: true })
        : a.key - b.key;
    return compared * direction || byName(a.row, b.row);
  });
  return keyed.map(({ row }) => row);
}

/**
 * The texts of a row.
 * @param {StreamRow} row
 * @param {number} now in milliseconds since 1970
 */
export function texts(row, now) {
  const { standing, incident } = row;
  const [first, ...others] = row.leading.map(([name, value]) => `${name} ${fixed(value)}`);
  const baseline = standing && best(standing);
  const rate = rateOf(row, now);
  const further = row.open > 1 ? ` (and ${row.open - 1} more)` : "";
  const error = standing?.most_frequent === null ? "MAE " : "";
  const { better, other } = row.compared ?? { better: null, other: "" };
  const compared = better === null ? "" : `; ${better === "stream" ? "better" : "worse"} than ${other}`;
  return {
    quality: standing ? `${standing.beaten ? "✓" : "▲"} ${error}${sizeOf(standing, standing.model)}` : "–",
    baseline:
      baseline && standing ? `${baseline.name} ${sizeOf(standing, baseline.value)}${compared}` : "no labels so far",
    kind: standing ? (standing.beaten ? "good" : "warn") : "",
    leading: first ?? "–",
    others: first === undefined ? "not explained so far" : others.join(", "),
    status: incident ? `${statusOf(incident.status).sign} ${statusOf(incident.status).text}` : "",
    incident: incident ? incident.title + further : "none",
    since: incident ? `${incident.since}, ${ago(now - incident.reported)}` : "",
    rate: number(rate),
    newest: rate ? "" : row.newest ? ago(now - row.newest) : "no event",
    events: count(row.events),
  };
}

/**
 * What all rows come to, in words.
 * @param {StreamRow[]} rows
 * @param {number} shown
 */
export function total(rows, shown) {
  const open = rows.filter((row) => row.open).length;
  const weak = rows.filter((row) => row.standing && !row.standing.beaten).length;
  const parts = [`${count(rows.length)} streams`];
  if (shown < rows.length) parts.push(`${count(shown)} shown`);
  parts.push(`${count(open)} with an open incident`, `${count(weak)} no better than a baseline`);
  return parts.join(" · ");
}

/** The table of all streams. */
export class OverviewPanel {
  /** @type {Map<string, Row>} */
  #rows = new Map();
  #arranged = "";
  #shown = "";

  /** @param {(changed: Partial<View>) => void} go */
  constructor(go) {
    this.body = element("tbody", "", element("table", "#streams"));
    this.buttons = [...document.querySelectorAll("#streams th button")].filter((one) => one instanceof HTMLElement);
    this.search = element("input", "#search");
    this.search.addEventListener("input", () => go({ search: this.search.value }));
    /** @type {View | null} */
    this.view = null;
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        const column = button.dataset.column ?? "";
        const { column: now, reversed } = order(this.view?.sort ?? "");
        go({ sort: now === column && !reversed ? `-${column}` : column });
      });
    }
  }

  /**
   * @param {Known} data
   * @param {View} view
   * @param {(stream: string) => string} address of a stream
   */
  update(data, view, address) {
    this.view = view;
    const now = Date.now();
    const all = data.rows ?? [];
    const rows = arranged(all, view, now);
    if (this.search.value !== view.search) this.search.value = view.search;
    element("p", "#streams-total").textContent = total(all, rows.length);
    const { column, reversed } = order(view.sort);
    for (const button of this.buttons) {
      const sorted = button.dataset.column === column;
      const direction = COLUMNS[column].largestFirst === reversed ? "ascending" : "descending";
      button.closest("th")?.setAttribute("aria-sort", sorted ? direction : "none");
    }
    for (const row of rows) {
      const shown = this.#rows.get(row.stream) ?? new Row(row.stream);
      this.#rows.set(row.stream, shown);
      shown.show(row, now, address(row.stream));
    }
    const empty = element("p", "#streams-empty");
    empty.hidden = rows.length > 0;
    empty.textContent = `No stream has “${view.search}” in its name.`;
    this.#place(rows, JSON.stringify([view.sort, view.search, rows.length]));
  }

  /**
   * Put the rows in order. While somebody points at one, the order stays, so that a click opens what was aimed at.
   * @param {StreamRow[]} rows
   * @param {string} arrangement what was chosen, and the number of rows
   */
  #place(rows, arrangement) {
    if (arrangement === this.#arranged && this.body.matches(":hover, :focus-within")) return;
    const names = JSON.stringify(rows.map((row) => row.stream));
    this.#arranged = arrangement;
    if (names === this.#shown) return;
    this.#shown = names;
    const focused = focusedIn(this.body);
    this.body.replaceChildren(...rows.flatMap((row) => this.#rows.get(row.stream)?.root ?? []));
    if (focused !== undefined) this.#rows.get(focused)?.link.focus();
  }
}

/** One row of the table. */
class Row {
  #key = "";

  /** @param {string} stream */
  constructor(stream) {
    const copy = element("template", "#streams-row").content.cloneNode(true);
    this.root = element("tr", "", /** @type {DocumentFragment} */ (copy));
    this.link = element("a", "", this.root);
    this.link.textContent = stream;
    this.link.title = stream;
    this.link.dataset.id = stream;
    this.root.dataset.stream = stream;
  }

  /**
   * @param {StreamRow} row
   * @param {number} now in milliseconds since 1970
   * @param {string} address
   */
  show(row, now, address) {
    const said = texts(row, now);
    const key = JSON.stringify([said, address]);
    if (key === this.#key) return;
    this.#key = key;
    this.link.href = address;
    this.#fill(".quality", said.quality, said.baseline);
    element("span", ".main", element("td", ".quality", this.root)).className = `main ${said.kind}`;
    element("td", ".quality", this.root).title = `${said.quality}, ${said.baseline}`;
    this.#fill(".leading", said.leading, said.others);
    element("td", ".leading", this.root).title = row.leading.length
      ? `By ${row.method}: ${said.leading}, ${said.others}`
      : "";
    const incident = element("td", ".incident", this.root);
    const chip = element("span", ".chip", incident);
    element("span", ".main", incident).textContent = said.incident;
    element("td", ".since", this.root).textContent = said.since;
    incident.dataset.status = row.incident?.status ?? "";
    incident.title = row.incident?.summary ?? "";
    chip.hidden = !row.incident;
    chip.textContent = said.status;
    this.#fill(".rate", said.rate, said.newest);
    element("td", ".events", this.root).textContent = said.events;
  }

  /**
   * @param {string} column
   * @param {string} main
   * @param {string} small
   */
  #fill(column, main, small) {
    const cell = element("td", column, this.root);
    element("span", ".main", cell).textContent = main;
    element("small", "", cell).textContent = small;
  }
}
