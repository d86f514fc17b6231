// Why was this predicted: the newest explained events, and the contributions to one prediction.
import { cell, element, focusedIn } from "./element.js";
import { count, number, percent } from "./format.js";

/** @import { View } from "./address.js" */
/** @import { ExplainedRow, Known, Opened, Step } from "./messages.js" */

/**
 * What the panel can change in the view.
 * @typedef {Partial<Pick<View, "event" | "predicted" | "only" | "find">>} Wanted
 */

const NONE =
  "No explained event so far. The method attributions explains single predictions (`--explain ipfi,attributions`), " +
  "except those of the first events of a stream (explain.start).";

/**
 * Whether another class was predicted than the label.
 * @param {ExplainedRow} row
 */
const isWrong = ([, output, , , , target]) => output !== null && target !== null && target !== output;

/**
 * Whether the novelty detector flags the event.
 * @param {ExplainedRow} row
 */
const isUnfamiliar = ([, , , , , , flagged]) => flagged;

/**
 * The events of a predicted class with a text in their id or number, newest first.
 * @param {ExplainedRow[]} rows oldest first
 * @param {Pick<View, "predicted" | "only" | "find">} view
 */
export function matching(rows, { predicted, only, find }) {
  const wanted = find.trim().toLowerCase();
  const digits = wanted.replaceAll(",", ""); // numbers are shown with commas
  return rows
    .filter(([, output]) => !predicted || output === predicted)
    .filter((row) => !only || (only === "wrong" ? isWrong : isUnfamiliar)(row))
    .filter(([seq, , , id]) => `${seq}`.includes(digits) || `${id ?? ""}`.toLowerCase().includes(wanted))
    .reverse();
}

/**
 * A time in the reader's time zone.
 * @param {number | null} ts milliseconds since 1970
 * @param {string} [zone] time zone; that of the browser if it is not given
 */
export const at = (ts, zone) =>
  ts === null
    ? "–"
    : new Date(ts).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: zone });

/**
 * What was predicted, in words.
 * @param {ExplainedRow} row
 */
export function caption([seq, output, prediction, id, ts, target, flagged]) {
  const parts = [`Event ${count(seq)}${id === null || id === String(seq) ? "" : ` (${id})`}`];
  if (ts !== null) parts.push(at(ts));
  parts.push(output === null ? `predicted ${number(prediction)}` : `predicted ${output}, ${percent(prediction)}`);
  if (target !== null) parts.push(`label ${label(target)}`);
  if (flagged) parts.push("unfamiliar");
  return parts.join(" · ");
}

/** @param {string | number | null} target */
const label = (target) => (typeof target === "number" ? number(target) : (target ?? "–"));

/**
 * Where a sum stands on an axis that holds all sums of a waterfall, in percent.
 * @param {Step[]} steps
 */
export function axis(steps) {
  const ends = steps.map(([, , , end]) => end);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  return (/** @type {number} */ sum) => (high > low ? (100 * (sum - low)) / (high - low) : 0);
}

/** The panel: a list of events, and the one that is opened. */
export class WhyPanel {
  #listed = "";
  #filter = "";
  /** @type {Opened | undefined} */
  #drawn;

  /** @param {(changed: Wanted) => void} go */
  constructor(go) {
    this.go = go;
    this.table = element("table", "#explained");
    this.body = element("tbody", "", this.table);
    this.scroll = element("div", "#explained-scroll");
    this.predicted = element("select", "#predicted");
    this.only = element("select", "#only");
    this.find = element("input", "#find-event");
    this.predicted.addEventListener("change", () => go({ predicted: this.predicted.value }));
    this.only.addEventListener("change", () => go({ only: this.only.value }));
    this.find.addEventListener("input", () => go({ find: this.find.value }));
  }

  /**
   * @param {Known} data
   * @param {View} view
   */
  update(data, view) {
    const { explained, opened } = data;
    const empty = element("p", "#why-empty");
    empty.hidden = explained !== undefined;
    empty.textContent = data.epoch === null ? "Waiting for the stream." : NONE;
    element("div", "#why-list").hidden = explained === undefined;
    element("div", "#opened").hidden = explained === undefined;
    if (!explained) return;
    const rows = matching(explained.rows, view);
    this.#controls(explained.rows, view);
    const kept = `${count(explained.total)} explained events, of which the page keeps ${count(explained.rows.length)}`;
    const older = "`glasstream explain --id ID` shows older ones";
    element("p", "#why-total").textContent = rows.length
      ? `${kept}; ${older}`
      : `None of the kept events fits; ${older}`;
    this.#list(rows, view);
    this.#mark(opened);
    this.#open(explained.rows, opened, view);
  }

  /**
   * @param {ExplainedRow[]} rows
   * @param {View} view
   */
  #controls(rows, { predicted, only, find }) {
    const classes = new Set(rows.flatMap(([, output]) => output ?? []));
    if (predicted) classes.add(predicted);
    element("label", "#predicted-label").hidden = !classes.size;
    const values = ["", ...[...classes].sort()];
    const key = JSON.stringify(values);
    if (this.predicted.dataset.key !== key) {
      this.predicted.dataset.key = key;
      this.predicted.replaceChildren(...values.map((value) => new Option(value || "any class", value)));
    }
    this.predicted.value = predicted;
    this.only.value = only;
    if (document.activeElement !== this.find) this.find.value = find;
    const outputs = classes.size > 0;
    element("th", "#explained-output").hidden = !outputs;
    element("th", "#explained-number").textContent = outputs ? "probability" : "predicted";
  }

  /**
   * List the events. While the list is in use, it changes with the filters only.
   * @param {ExplainedRow[]} rows
   * @param {View} view
   */
  #list(rows, { stream, predicted, only, find }) {
    const filter = JSON.stringify([stream, predicted, only, find]);
    if (filter === this.#filter && this.scroll.matches(":hover, :focus-within")) return;
    const key = JSON.stringify(rows);
    this.#filter = filter;
    if (key === this.#listed) return;
    this.#listed = key;
    const focused = focusedIn(this.body);
    this.body.replaceChildren(...rows.map((row) => this.#row(row)));
    for (const button of this.body.querySelectorAll("button")) {
      if (focused !== undefined && button.dataset.id === focused) button.focus();
    }
  }

  /** @param {ExplainedRow} row */
  #row(row) {
    const [seq, output, prediction, id, ts, target, flagged] = row;
    const made = document.createElement("tr");
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.id = String(seq);
    button.textContent = count(seq);
    button.setAttribute("aria-label", `event ${count(seq)}: show why it was predicted so`);
    button.addEventListener("click", () => this.go({ event: String(seq) }));
    const name = cell("", "number");
    name.append(button);
    const text = id === String(seq) ? "–" : (id ?? "–");
    const named = cell(flagged ? `◆ ${text}` : text, "name");
    named.title = flagged ? `${id ?? ""} (unfamiliar)` : (id ?? "");
    const wrong = isWrong(row);
    made.append(
      name,
      named,
      cell(at(ts)),
      ...(output === null ? [] : [cell(output, "name")]),
      cell(output === null ? number(prediction) : percent(prediction), "number"),
      cell(wrong ? `▲ ${label(target)}` : label(target), wrong ? "name bad" : "name"),
    );
    return made;
  }

  /** @param {Opened | undefined} opened */
  #mark(opened) {
    for (const button of this.body.querySelectorAll("button")) {
      const chosen = button.dataset.id === String(opened?.row[0]);
      button.setAttribute("aria-pressed", String(chosen));
      button.closest("tr")?.classList.toggle("chosen", chosen);
    }
  }

  /**
   * @param {ExplainedRow[]} rows
   * @param {Opened | undefined} opened
   * @param {View} view
   */
  #open(rows, opened, { event }) {
    const title = element("h3", "#opened-caption");
    if (!opened || (event && String(opened.row[0]) !== event)) {
      const number = Number(event);
      title.textContent = !event
        ? ""
        : rows.some(([seq]) => seq === number)
          ? `Event ${count(number)}`
          : `Event ${count(number)} is not kept any more; \`glasstream explain --seq ${number}\` shows it.`;
      this.#fill(undefined);
      return;
    }
    title.textContent = caption(rows.find(([seq]) => seq === opened.row[0]) ?? opened.row);
    this.#fill(opened);
  }

  /** @param {Opened | undefined} opened */
  #fill(opened) {
    if (this.#drawn === opened) return;
    this.#drawn = opened;
    element("p", "#opened-sentence").textContent = opened?.sentence ?? "";
    element("p", "#opened-origin").textContent = opened?.origin ?? "";
    const steps = opened?.steps ?? [];
    const place = axis(steps);
    const bars = steps.map(([words, amount, begin, end], step) => {
      const whole = step === 0 || step === steps.length - 1;
      const bar = document.createElement("div");
      const part = document.createElement("i");
      bar.className = "bar";
      part.className = whole ? "whole" : amount < 0 ? "down" : "up";
      part.style.left = `${place(Math.min(begin, end))}%`;
      part.style.width = `${Math.abs(place(end) - place(begin))}%`;
      bar.append(part);
      const drawn = cell("", "wide");
      drawn.append(bar);
      const made = document.createElement("tr");
      made.append(cell(words, "words"), drawn, cell(`${whole || amount < 0 ? "" : "+"}${number(amount)}`, "number"));
      return made;
    });
    element("tbody", "", element("table", "#waterfall")).replaceChildren(...bars);
  }
}
