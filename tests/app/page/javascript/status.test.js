import assert from "node:assert/strict";
import test from "node:test";
import { merged } from "../../../../pipeline/glasstream/app/page/static/feed.js";
import { entries, notice } from "../../../../pipeline/glasstream/app/page/static/status.js";
/** @import { State } from "../../../../pipeline/glasstream/app/page/static/messages.js" */

import { importance, quality, state } from "./messages.js";

const UP = { up: true, since: null };

/**
 * By name the entries for what a message says, ten seconds after 1970 began.
 * @param {State} message
 */
const said = (message) => Object.fromEntries(entries(merged(null, message), UP, 10_000).map((one) => [one.name, one]));

test("without records the strip shows dashes instead of numbers", () => {
  assert.deepEqual(
    entries(null, { up: false, since: null }, 0).map((one) => [one.name, one.value]),
    [
      ["page", "not connected"],
      ["rejected input", "0"],
    ],
  );
  assert.deepEqual(
    ["events", "model lag", "coverage"].map((name) => said(state({}))[name].value),
    ["–", "–", "–"],
  );
});

test("explanations lag by the number of events predicted after the newest importance record", () => {
  const strip = said(
    state({ quality: quality(100, 0, [0.5, 0.5]), importance: importance({ seq: 150, coverage: 1 }) }),
  );
  assert.deepEqual([strip.events.value, strip.explanations.value], ["200", "49 events behind"]);
  const ahead = said(state({ quality: quality(100, 0, [0.5]), importance: importance({ seq: 150, coverage: 1 }) }));
  assert.equal(ahead.explanations.value, "0 events behind");
});

test("a model of version 0 does not learn, and has no lag", () => {
  const strip = said(state({ importance: importance({ model_version: 0 }) }));
  assert.equal(strip.model.value, "does not learn");
  assert.equal(strip["model lag"], undefined);
  assert.equal(said(state({ importance: importance({ model_version: 64 }) })).model, undefined);
  const pushed = said(state({ importance: importance({ row: 900, model_version: 2, lag: 0 }) }));
  assert.equal(pushed.model.value, "does not learn");
  assert.match(pushed.model.title, /2 models were before it/);
});

test("coverage below 99.9 % is marked as bad", () => {
  for (const [coverage, kind] of /** @type {const} */ ([
    [1, "good"],
    [0.9985, "bad"],
    [0, "bad"],
  ])) {
    assert.equal(said(state({ importance: importance({ coverage }) })).coverage.kind, kind);
  }
});

test("rejected input is summed over all reasons, and the tooltip lists them", () => {
  const { value, kind, title } = said(state({ rejected: { not_json: 1200, no_features: 1 } }))["rejected input"];
  assert.deepEqual([value, kind, title], ["1,201", "warn", "Messages on events.dead\nnot_json: 1,200\nno_features: 1"]);
});

test("the age of the newest record of any topic is shown", () => {
  assert.equal(said(state({ newest: { importance: 1_000, drift: 5_000 } }))["newest record"].value, "5 s ago");
});

test("the notice is empty while all is well, and names every trouble", () => {
  assert.equal(notice(merged(null, state({})), UP), "");
  const troubles = { trouble: "no broker answers", damaged: 2, left_out: 3, reading: { read: 1, total: 4 } };
  const text = notice(merged(null, state(troubles)), { up: false, since: new Date(0) });
  for (const part of ["trying again", "no broker answers", "2 records", "3 records", "25 %"]) {
    assert.ok(text.includes(part), part);
  }
});

test("the notice says that clock time is wanted and the events have none, once there are events", () => {
  const known = merged(null, state({ quality: quality(100, 0, [1]) }));
  assert.match(notice(known, UP, true), /have no ts/);
  assert.equal(notice(known, UP, false), "");
  assert.equal(notice(merged(null, state({})), UP, true), "");
});
