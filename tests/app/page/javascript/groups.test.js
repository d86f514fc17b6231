// What the tables of groups say: columns of the task, means with intervals, and sizes in their place.
import assert from "node:assert/strict";
import test from "node:test";
import { captionOf, columnsOf, nameOf, shown } from "../../../../pipeline/glasstream/app/page/static/groups.js";

/** @import { ByGroup, OneGroup } from "../../../../pipeline/glasstream/app/page/static/messages.js" */

/** @type {ByGroup} */
const SEX = {
  attribute: "sex",
  rows: 12_340,
  level: 0.95,
  least: 30,
  loss: "cross_entropy",
  positive: ">50K",
  groups: [],
  demographic_parity_difference: 0.1875,
  equalized_odds_difference: null,
  alarms: [],
};

test("the caption has the differences of classes, with a dash for what is not known", () => {
  assert.equal(
    captionOf(SEX),
    "by sex, 12,340 labelled events (95 % intervals); rates of “>50K”; demographic parity difference 0.188, " +
      "equalized odds difference –",
  );
  assert.equal(captionOf({ ...SEX, positive: null }), "by sex, 12,340 labelled events (95 % intervals)");
});

test("numbers have errors in place of accuracy and rates", () => {
  assert.deepEqual(
    columnsOf(SEX).map(([name]) => name),
    ["accuracy", "cross-entropy loss", "selection", "true positives", "false positives"],
  );
  assert.match(columnsOf(SEX)[3][1], /rows of “>50K”/);
  assert.deepEqual(
    columnsOf({ ...SEX, positive: null, loss: "squared" }).map(([, , kind]) => kind),
    ["error", "loss"],
  );
});

test("a mean has its interval, and too few rows only their number", () => {
  assert.equal(shown([400, 0.75, 0.625, 0.875], "accuracy"), "75 % (63 % – 88 %)");
  assert.equal(shown([400, 0.5, 0.25, 0.75], "loss"), "0.500 (0.250 – 0.750)");
  assert.equal(shown([1, 0.5, null, null], "error"), "0.500");
  assert.equal(shown([7, null, null, null], "selection"), "of 7 only");
  assert.equal(shown(null, "selection"), "–");
});

test("values that are counted together have names of their own", () => {
  /** @type {OneGroup} */
  const group = {
    kind: "value",
    value: "f",
    rows: 1,
    accuracy: null,
    error: null,
    loss: null,
    selection: null,
    true_positive: null,
    false_positive: null,
  };
  assert.equal(nameOf(group), "f");
  assert.equal(nameOf({ ...group, kind: "other", value: null }), "(other values)");
  assert.equal(nameOf({ ...group, kind: "missing", value: null }), "(missing)");
});
