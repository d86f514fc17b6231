// For whom is it good: accuracy, loss and rates of the groups of a stream, and what got worse.
import { cell, element } from "./element.js";
import { count, fixed, percent } from "./format.js";

/** @import { ByGroup, Known, MeanOf, OneGroup } from "./messages.js" */

export class GroupsPanel {
  #drawn = "";

  constructor() {
    this.section = element("section", "#by-group");
    this.tables = element("div", "#by-group-tables");
  }

  /** @param {Known} data */
  update(data) {
    const groups = data.groups ?? [];
    this.section.hidden = !groups.length;
    const key = JSON.stringify([data.stream, data.epoch, groups.map((one) => [one.attribute, one.rows])]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.tables.replaceChildren(...groups.map(drawn));
  }
}

/** @param {ByGroup} of */
function drawn(of) {
  const made = document.createElement("div");
  const caption = document.createElement("h3");
  caption.textContent = captionOf(of);
  const alarms = document.createElement("ul");
  alarms.className = "claims";
  alarms.setAttribute("aria-label", `Alarms of ${of.attribute}`);
  alarms.append(
    ...of.alarms.map((text) => {
      const entry = document.createElement("li");
      entry.textContent = `▲ ${text}`;
      return entry;
    }),
  );
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `Groups by ${of.attribute}`);
  const table = document.createElement("table");
  const columns = columnsOf(of);
  const head = table.createTHead().insertRow();
  for (const [name, title] of [[of.attribute, ""], ["rows", ""], ...columns]) {
    const column = document.createElement("th");
    column.scope = "col";
    column.textContent = name;
    column.title = title;
    if (name !== of.attribute) column.className = "number";
    head.append(column);
  }
  const body = table.createTBody();
  for (const group of of.groups) {
    const row = body.insertRow();
    row.append(cell(nameOf(group), "name"), cell(count(group.rows), "number"));
    for (const [, , kind] of columns) row.append(cell(shown(group[kind], kind), "number"));
  }
  scroll.append(table);
  made.append(caption, ...(of.alarms.length ? [alarms] : []), scroll);
  return made;
}

/**
 * The columns of a table after the group and its rows: head, explanation, and the part of a group.
 * @param {ByGroup} of
 * @returns {[name: string, title: string, kind: "accuracy" | "error" | "loss" | "selection" | "true_positive" |
 *   "false_positive"][]}
 */
export function columnsOf(of) {
  if (of.positive === null) {
    return [
      ["mean absolute error", "", "error"],
      [`${of.loss} loss`, "", "loss"],
    ];
  }
  const chosen = `“${of.positive}”`;
  return [
    ["accuracy", "share of right predictions", "accuracy"],
    [`${of.loss.replaceAll("_", "-")} loss`, "", "loss"],
    ["selection", `share of rows for which ${chosen} is predicted`, "selection"],
    ["true positives", `share of the rows of ${chosen} for which it is predicted`, "true_positive"],
    ["false positives", `share of the rows of other classes for which ${chosen} is predicted`, "false_positive"],
  ];
}

/**
 * What a table is about, and the differences between its groups.
 * @param {ByGroup} of
 */
export function captionOf(of) {
  const what = `by ${of.attribute}, ${count(of.rows)} labelled events (${percent(of.level)} intervals)`;
  if (of.positive === null) return what;
  const parity = `demographic parity difference ${fixed(of.demographic_parity_difference)}`;
  const odds = `equalized odds difference ${fixed(of.equalized_odds_difference)}`;
  return `${what}; rates of “${of.positive}”; ${parity}, ${odds}`;
}

/** @param {OneGroup} group */
export const nameOf = ({ kind, value }) =>
  kind === "value" ? (value ?? "") : kind === "other" ? "(other values)" : "(missing)";

/**
 * A mean with its interval; the number of rows where they are too few.
 * @param {MeanOf | null} mean
 * @param {string} kind
 */
export function shown(mean, kind) {
  if (mean === null) return "–";
  const [of, value, low, high] = mean;
  if (value === null) return `of ${count(of)} only`;
  const told = kind === "loss" || kind === "error" ? (/** @type {number} */ one) => fixed(one) : percent;
  return low === null || high === null ? told(value) : `${told(value)} (${told(low)} – ${told(high)})`;
}
