// What must be known to judge the rest: how current, how complete.
import { element } from "./element.js";
import { ago, count, number, percent } from "./format.js";

/** @import { Known } from "./messages.js" */

/** @typedef {{up: boolean, since: Date | null}} Link the connection to the server, and since when it is lost */
/** @typedef {{name: string, value: string, kind: string, title: string}} Entry `kind` is a class of page.css */

/**
 * The entries of the strip at the top.
 * @param {Known | null} data
 * @param {Link} link
 * @param {number} now in milliseconds since 1970
 */
export function entries(data, link, now) {
  /** @type {Entry[]} */
  const list = [];
  /** @param {string} name @param {string} value @param {string} kind @param {string} title */
  const add = (name, value, kind, title) => list.push({ name, value, kind, title });
  if (link.up) add("page", "live", "good", "Connected to glasstream page");
  else add("page", "not connected", "bad", "The server of this page does not answer");
  if (data?.rows) {
    const open = data.rows.reduce((sum, row) => sum + row.open, 0);
    add("streams", count(data.rows.length), "", "Streams with records");
    add("open incidents", count(open), open ? "warn" : "good", "Incidents that go on, of all streams");
  }
  if (data?.epoch != null) {
    const last = data.importance?.last;
    const predicted = data.quality?.last_seq;
    add("events", predicted == null ? "–" : count(predicted + 1), "", "Events predicted so far");
    if (last) {
      const behind = predicted == null ? null : Math.max(0, predicted - last.seq);
      const usual = "Records come every publish.every rows, so some events behind is usual";
      const newest = `Newest importance record: event ${count(last.seq)}. ${usual}`;
      add("explanations", `${count(behind)} events behind`, "", newest);
      const matters =
        last.staleness == null ? "" : `; that can matter by ${number(last.staleness)} in units of the loss`;
      const lag = `The explained model had learned so many events less than it could have${matters}`;
      // The lag of a model that learns is the number of rows since its version.
      const learns = last.model_version > 0 && (last.lag > 0 || last.row <= last.model_version);
      const replaced = last.model_version ? `; ${count(last.model_version)} models were before it` : "";
      if (!learns) add("model", "does not learn", "", `It was trained before it came to the stream${replaced}`);
      else add("model lag", `${count(last.lag)} events`, "", lag);
      const kind = last.coverage < 0.999 ? "bad" : "good";
      add("coverage", percent(last.coverage), kind, "Rows explained, of those that could have been");
    } else {
      add("model lag", "–", "", "Known with the first importance record");
      add("coverage", "–", "", "Known with the first importance record");
    }
    const newest = Math.max(0, ...Object.values(data.newest ?? {}));
    if (newest) add("newest record", ago(now - newest), "", new Date(newest).toLocaleString());
    const again = "The stream was begun anew so many times; earlier epochs are not shown";
    if (data.epoch > 0) add("epoch", String(data.epoch), "", again);
  }
  const rejected = Object.entries(data?.rejected ?? {});
  const total = rejected.reduce((sum, [, one]) => sum + one, 0);
  const reasons = rejected.map(([reason, one]) => `${reason}: ${count(one)}`);
  add("rejected input", count(total), total ? "warn" : "", ["Messages on events.dead", ...reasons].join("\n"));
  return list;
}

/**
 * What keeps the page from being current or complete, in words.
 * @param {Known | null} data
 * @param {Link} link
 * @param {boolean} timeless whether clock times are wanted and there are none
 */
export function notice(data, link, timeless = false) {
  const said = [];
  if (!link.up && link.since) {
    const since = link.since.toLocaleTimeString();
    said.push(`The server of this page does not answer; trying again. Below: what was known at ${since}.`);
  }
  if (data?.trouble) said.push(`The page's server cannot read on: ${data.trouble}`);
  if (data?.reading) {
    const { read, total } = data.reading;
    said.push(`Reading back what is on the topics: ${percent(total ? read / total : 0)}`);
  }
  if (timeless && data?.quality?.events) {
    said.push("The events of this stream have no ts: the axes show event numbers in place of clock time.");
  }
  if (data?.behind === "reading") said.push("Reading back what the topics hold of this stream.");
  if (data?.behind === "crowded") {
    said.push(
      "Others look at as many streams as the page keeps (page.streams); this one is shown when one of them goes.",
    );
  }
  if (data?.damaged) {
    said.push(`${count(data.damaged)} records cannot be read (damaged, or of a newer release) and are not shown.`);
  }
  if (data?.left_out) {
    const others = `${count(data.left_out)} records of others are not shown.`;
    said.push(`There are more streams than the page lists (page.listed); ${others}`);
  }
  return said.join(" ");
}

/**
 * Show the strip and the notice.
 * @param {Known | null} data
 * @param {Link} link
 * @param {boolean} timeless whether clock times are wanted and there are none
 */
export function status(data, link, timeless) {
  const shown = entries(data, link, Date.now());
  const list = element("dl", "#status");
  const key = JSON.stringify(shown);
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(
      ...shown.map(({ name, value, kind, title }) => {
        const entry = document.createElement("div");
        entry.title = title;
        const term = document.createElement("dt");
        const definition = document.createElement("dd");
        term.textContent = name;
        definition.textContent = value;
        definition.className = kind;
        entry.append(term, definition);
        return entry;
      }),
    );
  }
  const place = element("p", "#notice");
  const text = notice(data, link, timeless);
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}
