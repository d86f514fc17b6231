// What the table of weak segments shows.
import assert from "node:assert/strict";
import test from "node:test";
import { cellsOf, noteOf } from "../../../../pipeline/glasstream/app/page/static/segments.js";

test("a segment has its share, both losses, their difference with its interval, and its first row", () => {
  const one = { text: "age >= 60", share: 0.125, loss: 0.5, outside: 0.25, low: 0.125, high: 0.375, since: 3000 };
  assert.deepEqual(cellsOf(one), ["age >= 60", "13 %", "0.500", "0.250", "+0.250 (+0.125 – +0.375)", "3,000"]);
});

test("the note is a sentence", () => {
  assert.equal(noteOf("no segment stands out"), "No segment stands out.");
});
