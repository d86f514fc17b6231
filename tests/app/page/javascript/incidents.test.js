// What the list of incidents says, in which order, and what a person can make it leave out.
import assert from "node:assert/strict";
import test from "node:test";
import { merged } from "../../../../pipeline/glasstream/app/page/static/feed.js";
import {
  began,
  Choices,
  calm,
  fault,
  lines,
  owner,
  segment,
  span,
  statusOf,
  watchingNote,
  watchingTable,
  when,
} from "../../../../pipeline/glasstream/app/page/static/incidents.js";
/** @import { Choice } from "../../../../pipeline/glasstream/app/page/static/incidents.js" */
/** @import { Incident, WatchedSeries } from "../../../../pipeline/glasstream/app/page/static/messages.js" */
import { importance, incident, state } from "./messages.js";

/** What a browser keeps. */
function storage() {
  /** @type {Map<string, string>} */
  const items = new Map();
  return {
    items,
    getItem: (/** @type {string} */ key) => items.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => void items.set(key, value),
    removeItem: (/** @type {string} */ key) => void items.delete(key),
  };
}

const ONSET = { row: 100, earliest: 90, latest: 110, seq: null, ts: null };
const INCIDENTS = [
  incident({ incident: 1, status: "open", verdict: "data_moved", title: "data moved" }),
  incident({ incident: 2, status: "over", verdict: "unclear", title: "unclear" }),
  incident({ incident: 3, status: "normal", verdict: "data_moved", title: "data moved" }),
  incident({ incident: 4, status: "open", verdict: "concept_moved", title: "concept moved" }),
];

/** @param {Record<string, Choice>} choices */
const listed = (choices) =>
  lines(INCIDENTS, 5, (verdict) => choices[verdict] ?? {}).map((line) =>
    line.kind === "muted"
      ? `${line.title} ${line.total} ${line.open}`
      : `${line.incident.incident}${line.seen ? "s" : ""}`,
  );

test("open incidents come first, the newest first", () => {
  assert.deepEqual(listed({}), ["4", "1", "3", "2"]);
});

test("acknowledged incidents come after the others of their status, until the next one or the next epoch", () => {
  assert.deepEqual(listed({ concept_moved: { seen: { epoch: 5, incident: 4 } } }), ["1", "4s", "3", "2"]);
  assert.deepEqual(listed({ data_moved: { seen: { epoch: 5, incident: 1 } } }), ["4", "1s", "3", "2"]);
  assert.deepEqual(listed({ data_moved: { seen: { epoch: 4, incident: 3 } } }), ["4", "1", "3", "2"]);
});

test("a muted verdict is one line at the end with the number of its incidents", () => {
  assert.deepEqual(listed({ data_moved: { muted: true } }), ["4", "2", "data moved 2 1"]);
});

test("choices are kept for a stream and a verdict, and what is taken back leaves nothing", () => {
  const kept = storage();
  const choices = new Choices(kept);
  assert.ok(choices.set("a", "unclear", { muted: true }));
  assert.ok(choices.set("a", "unclear", { seen: { epoch: 0, incident: 2 } }));
  const other = new Choices(kept); // another tab
  assert.deepEqual(other.of("a", "unclear"), { muted: true, seen: { epoch: 0, incident: 2 } });
  assert.deepEqual([other.of("b", "unclear"), other.of("a", "data_moved")], [{}, {}]);
  choices.set("a", "unclear", { muted: false });
  assert.equal(other.of("a", "unclear").muted, false);
  choices.set("a", "unclear", { seen: undefined });
  assert.equal(kept.items.size, 0);
});

test("a browser that keeps nothing, has no room or keeps something else is no error", () => {
  const none = new Choices(null);
  assert.equal(none.set("a", "unclear", { muted: true }), false);
  assert.deepEqual(none.of("a", "unclear"), {});
  const full = storage();
  full.setItem = () => {
    throw new Error("quota");
  };
  assert.equal(new Choices(full).set("a", "unclear", { muted: true }), false);
  for (const text of ["{", "null", "7", "[]"]) {
    const odd = { ...storage(), getItem: () => text };
    assert.deepEqual(lines(INCIDENTS, 0, (verdict) => new Choices(odd).of("a", verdict)).length, 4, text);
  }
});

test("an alarm belongs to the latest incident that was going on", () => {
  /** @param {Partial<Incident>[]} parts @param {number} row */
  const owned = (parts, row) =>
    owner(
      parts.map((one) => incident({ onset: ONSET, ...one })),
      { row, seq: 10 * row },
    )?.incident;
  const over = { incident: 1, status: "over", row: 200 };
  assert.deepEqual(
    [89, 90, 200, 201].map((row) => owned([over], row)),
    [undefined, 1, 1, undefined],
  );
  assert.equal(owned([{ incident: 1, status: "open", row: 110 }], 99_999), 1);
  const later = { incident: 2, status: "open", onset: { ...ONSET, row: 150, earliest: 140, latest: 160 } };
  assert.deepEqual(
    [139, 140].map((row) => owned([over, later], row)),
    [1, 2],
  );
  const byEvents = { incident: 3, status: "over", row: 2000, by_events: true };
  assert.deepEqual(
    [8, 9, 200, 201].map((row) => owned([byEvents], row)),
    [undefined, 3, 3, undefined],
  );
});

test("an incident is shaded from its first event to its end, or to the newest event", () => {
  assert.deepEqual(span(incident({ onset: { ...ONSET, seq: 130 } })), { start: 130, end: null });
  const over = { status: "over", row: 300, seq: 450, onset: ONSET };
  assert.deepEqual(span(incident(over)), { start: 250, end: 450 });
  assert.deepEqual(span(incident({ ...over, by_events: true })), { start: 100, end: 450 });
  const normal = incident({ ...over, status: "normal", onset: { ...ONSET, seq: 120 } });
  assert.deepEqual(span(normal), { start: 120, end: 450 });
});

test("what an incident is comes in words, not by colour alone", () => {
  const statuses = ["open", "over", "normal", "of_tomorrow"].map(statusOf);
  assert.equal(new Set(statuses.map((one) => one.sign)).size, 4);
  assert.equal(statuses[3].text, "of-tomorrow");
  assert.equal(when(incident({ onset: ONSET })), "since row 100 (between 90 and 110)");
  const sure = { ...ONSET, earliest: 100, latest: 100 };
  assert.equal(when(incident({ status: "over", row: 2000, onset: sure })), "since row 100, until row 2,000");
  const normal = incident({ status: "normal", row: 2000, onset: sure });
  assert.equal(when(normal), "since row 100, the new normal from row 2,000");
  const unlabelled = incident({ status: "over", row: 2000, onset: sure, by_events: true });
  assert.equal(when(unlabelled), "since event 100, until event 2,000");
  assert.equal(began(ONSET), "");
  assert.equal(began({ ...ONSET, seq: 1207 }), "event 1,207, without a time");
  const known = { ...ONSET, seq: 1207, ts: Date.UTC(2026, 0, 1, 0, 4) };
  assert.equal(began(known, "UTC"), "event 1,207, 1 Jan 2026, 00:04:00 UTC");
  const nothing = { feature: "age", other: null, factor: null };
  assert.equal(fault({ ...nothing, fault: "scaled", factor: 1000 }), "age: multiplied by 1,000");
  const between = { ...nothing, fault: "scaled", factor: 59, factor_low: 56, factor_high: 62 };
  assert.equal(fault(between), "age: multiplied by about 59 (56 to 62)");
  assert.equal(fault({ ...nothing, fault: "swapped", other: "loan" }), "age: has the values of loan");
  assert.equal(fault({ ...nothing, fault: "of_tomorrow" }), "age: of-tomorrow");
  assert.match(fault({ ...nothing, fault: null }), /another role/);
});

test("without incidents one line says over how many rows, or why nothing can be said yet", () => {
  const rows = { importance: importance({ row: 1233 }) };
  assert.equal(calm(merged(null, state(rows))), "No incident was published in 1,234 rows.");
  assert.match(calm(merged(null, state({ ...rows, watched: false }))), /drift.budget is 0/);
  assert.match(calm(merged(null, state({}))), /no row has been explained/);
  assert.match(calm(merged(null, state({ ...rows, reading: { read: 1, total: 2 } }))), /Reading back/);
});

test("a segment says what it is, how often it occurs, its losses and how much of the change it carries", () => {
  const part = { text: "hour >= 15", share_before: 0.25, share_since: 0.5, loss_before: 0.1, loss_since: 0.4 };
  assert.equal(
    segment({ ...part, low: 0.2, high: 0.4, carried: 0.92 }),
    "hour >= 15: 25 % of the events before, 50 % since, loss 0.1 → 0.4 (rise 0.2 to 0.4), carries 92 % of the change",
  );
  const bare = { ...part, loss_before: null, loss_since: null, low: null, high: null, carried: null };
  assert.equal(segment(bare), "hour >= 15: 25 % of the events before, 50 % since");
});

test("the table of watched series has a column for each number of rows, and the note tells what is left out", () => {
  const one = { state: "watched", title: "goes on", known: 4600, bins: 17, block: 3 };
  /** @type {WatchedSeries[]} */
  const series = [
    { ...one, feature: null, detectable: { 1000: "6.2 % / – / –" } },
    { ...one, feature: "age", detectable: { 10000: "3.1 % / 25 % / ±1.25", 1000: "6.2 % / – / ±2.5" } },
    { ...one, feature: "car", state: "of_tomorrow", title: "", detectable: {} },
  ];
  assert.deepEqual(watchingTable({ row: 4999, left_out: 0, note: "", series }), {
    heads: ["feature", "state", "values", "bins", "block", "within 1,000 rows", "within 10,000 rows"],
    rows: [
      { title: "goes on", cells: ["(label)", "watched", "4,600", "17", "3", "6.2 % / – / –", "–"] },
      {
        title: "goes on",
        cells: ["age", "watched", "4,600", "17", "3", "6.2 % / – / ±2.5", "3.1 % / 25 % / ±1.25"],
      },
      { title: "", cells: ["car", "of-tomorrow", "4,600", "17", "3", "–", "–"] },
    ],
  });
  assert.equal(watchingNote({ row: 4999, left_out: 0, note: "The sizes.", series }), "As of row 4,999. The sizes.");
  assert.match(watchingNote({ row: 4999, left_out: 7, note: "", series }), /7 further features are not shown/);
});
