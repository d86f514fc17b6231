// The tile of the model beside its baselines.
import assert from "node:assert/strict";
import test from "node:test";
import { beside } from "../../../pipeline/glasstream/page/static/quality.js";

const SHARES = { events: 1000, model: 0.96, constant: 0.97, no_change: 0.9, most_frequent: "no", beaten: false };

test("a model that is no better than always the most frequent class is called so", () => {
  const [[name, value, remark]] = beside(SHARES);
  assert.deepEqual([name, value], ["right, last 1,000", "96 %"]);
  assert.equal(remark, "no better than a baseline: always “no” 97 %, previous label 90 %");
});

test("a model that beats its baselines stands beside them", () => {
  const [[, , remark]] = beside({ ...SHARES, model: 0.98, beaten: true });
  assert.equal(remark, "always “no” 97 %, previous label 90 %");
});

test("numbers have errors, and nothing is shown before the first comparison", () => {
  const numbers = { events: 10, model: 2, constant: 3, no_change: 4, most_frequent: null, beaten: true };
  assert.deepEqual(beside(numbers), [["mean absolute error, last 10", "2", "mean so far 3, value before 4"]]);
  assert.deepEqual(beside(null), []);
});
