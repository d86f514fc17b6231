// What must be known to judge the rest: how current, how complete.
import { ago, count, number, percent } from "./format.js";

/** The strip at the top. */
export function status(data, link) {
  const entries = [];
  const add = (name, value, kind, title) => entries.push({ name, value, kind, title });
  add("page", link.up ? "live" : "not connected", link.up ? "good" : "bad", link.up ? "Connected to glasstream page" : "The server of this page does not answer");
  if (data?.epoch != null) {
    const last = data.importance?.last;
    const predicted = data.quality?.last_seq;
    add("events", predicted == null ? "–" : count(predicted + 1), "", "Events predicted so far");
    if (last) {
      const behind = predicted == null ? null : Math.max(0, predicted - last.seq);
      add("explanations", `${count(behind)} events behind`, "", `Newest importance record: event ${count(last.seq)}. Records come every publish.every rows, so some events behind is usual`);
      add("model lag", `${count(last.lag)} events`, "", `The explained model had learned so many events less than it could have${last.staleness == null ? "" : `; that can matter by ${number(last.staleness)} in units of the loss`}`);
      add("coverage", percent(last.coverage), last.coverage < 0.999 ? "bad" : "good", "Rows explained, of those that could have been");
    } else {
      add("model lag", "–", "", "Known with the first importance record");
      add("coverage", "–", "", "Known with the first importance record");
    }
    const newest = Math.max(0, ...Object.values(data.newest ?? {}));
    if (newest) add("newest record", ago(Date.now() - newest), "", new Date(newest).toLocaleString());
    if (data.epoch > 0) add("epoch", data.epoch, "", "The stream was begun anew so many times; earlier epochs are not shown");
  }
  const rejected = Object.entries(data?.rejected ?? {});
  const total = rejected.reduce((sum, [, one]) => sum + one, 0);
  add("rejected input", count(total), total ? "warn" : "", total ? rejected.map(([reason, one]) => `${reason}: ${count(one)}`).join("\n") : "Messages on events.dead");
  const list = document.getElementById("status");
  const key = JSON.stringify(entries);
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...entries.map(({ name, value, kind, title }) => {
      const entry = document.createElement("div");
      entry.title = title ?? "";
      const term = document.createElement("dt");
      const definition = document.createElement("dd");
      term.textContent = name;
      definition.textContent = value;
      definition.className = kind ?? "";
      entry.append(term, definition);
      return entry;
    }));
  }
  notice(data, link);
}

function notice(data, link) {
  const said = [];
  if (!link.up && link.since) said.push(`The server of this page does not answer; trying again. Below: what was known at ${link.since.toLocaleTimeString()}.`);
  if (data?.trouble) said.push(`The page's server cannot read on: ${data.trouble}`);
  if (data?.reading) said.push(`Reading back what is on the topics: ${percent(data.reading.total ? data.reading.read / data.reading.total : 0)}`);
  if (data?.damaged) said.push(`${count(data.damaged)} records cannot be read (damaged, or of a newer release) and are not shown.`);
  if (data?.left_out) said.push(`There are more streams than the page keeps (page.streams); ${count(data.left_out)} records of others are not shown.`);
  const element = document.getElementById("notice");
  const text = said.join(" ");
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}
