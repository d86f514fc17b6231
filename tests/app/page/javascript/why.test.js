import assert from "node:assert/strict";
import test from "node:test";
import { read, written } from "../../../../pipeline/glasstream/app/page/static/address.js";
import { at, axis, caption, matching } from "../../../../pipeline/glasstream/app/page/static/why.js";

/** @import { ExplainedRow } from "../../../../pipeline/glasstream/app/page/static/messages.js" */

const NOON = 1_767_268_800_000;

/** @type {ExplainedRow[]} */
const ROWS = [
  [12_345, "good", 0.75, "loan-7", NOON, "bad", false],
  [12_346, "bad", 0.625, null, null, null, true],
  [12_347, "good", 1, "Loan-70", NOON, "good", false],
];

/** @param {string} predicted @param {string} find */
const seqs = (predicted, find, only = "") => matching(ROWS, { predicted, only, find }).map(([seq]) => seq);

test("events are filtered by class, by what is unusual, and by a part of the id or the number, newest first", () => {
  assert.deepEqual(seqs("", ""), [12_347, 12_346, 12_345]);
  assert.deepEqual(seqs("good", " loan-7 "), [12_347, 12_345]);
  assert.deepEqual(seqs("", "12,346"), [12_346]);
  assert.deepEqual(seqs("other", ""), []);
  assert.deepEqual(seqs("", "", "wrong"), [12_345]);
  assert.deepEqual(seqs("", "", "unfamiliar"), [12_346]);
  assert.deepEqual(seqs("good", "", "unfamiliar"), []);
});

test("what was predicted is told with what is known of the event", () => {
  assert.equal(caption(ROWS[1]), "Event 12,346 · predicted bad, 63 % · unfamiliar");
  assert.equal(caption([7, null, 12.5, "7", null, 11, false]), "Event 7 · predicted 12.5 · label 11");
  assert.match(caption(ROWS[0]), /^Event 12,345 \(loan-7\) · .+ · predicted good, 75 % · label bad$/);
  assert.equal(at(NOON, "UTC"), "1 Jan 2026, 12:00:00");
});

test("the axis of a waterfall holds all sums, and stands for a sum of one step", () => {
  const place = axis([
    ["average event", 0.25, 0.25, 0.25],
    ["a", 0.5, 0.25, 0.75],
    ["b", -1, 0.75, -0.25],
    ["prediction", -0.25, -0.25, -0.25],
  ]);
  assert.deepEqual([place(-0.25), place(0.25), place(0.75)], [0, 50, 100]);
  assert.equal(axis([["average event", 1, 1, 1]])(1), 0);
});

test("the address holds the opened event and the filters", () => {
  const hash = "event=12345&predicted=a+b&only=wrong&find=loan";
  assert.equal(written(read(hash)), hash);
  assert.equal(read("event=x").event, "");
  assert.equal(read("only=x").only, "");
});
