import assert from "node:assert/strict";
import test from "node:test";
import { merged } from "../../../../pipeline/glasstream/app/page/static/feed.js";
/** @import { Quality } from "../../../../pipeline/glasstream/app/page/static/messages.js" */

import { alarm, delta, incident, quality, state } from "./messages.js";

// ../test_javascript.py merges messages of a real server and compares the result with the state of that server.

/** @template T @param {T} value @returns {T} */
function frozen(value) {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

test("merging changes neither the known state nor the message", () => {
  const known = frozen(merged(null, frozen(state({ alarms: [alarm({ seq: 1 })], quality: quality(100, 0, [1, 2]) }))));
  const next = merged(known, frozen(delta({ alarms: [alarm({ seq: 2 })], quality: quality(100, 1, [3, 4]) })));
  assert.deepEqual(
    next.alarms.map((one) => one.seq),
    [1, 2],
  );
});

test("bins of a message replace the known ones from its first bin on, or all of them if the width differs", () => {
  const known = merged(null, state({ quality: quality(100, 0, [1, 2, 3]) }));
  const means = (/** @type {Quality} */ sent) => merged(known, delta({ quality: sent })).quality?.bins.mean;
  assert.deepEqual(means(quality(100, 2, [4, 5])), [1, 2, 4, 5]);
  assert.deepEqual(means(quality(100, 3, [])), [1, 2, 3]);
  assert.deepEqual(means(quality(200, 0, [6, 7])), [6, 7]);
});

test("a state replaces everything", () => {
  const known = merged(null, state({ alarms: [alarm({})] }));
  assert.deepEqual(merged(known, state({ epoch: 1 })), merged(null, state({ epoch: 1 })));
});

test("the newest 200 alarms are kept", () => {
  let known = merged(null, state({}));
  for (let seq = 0; seq < 250; seq += 1) known = merged(known, delta({ alarms: [alarm({ seq })] }));
  assert.deepEqual(
    known.alarms.map((one) => one.seq),
    Array.from({ length: 200 }, (_, at) => at + 50),
  );
});

test("a changed incident replaces what was known of it, and those that the server has dropped go", () => {
  const first = state({ incidents: [1, 2, 3].map((one) => incident({ incident: one })), incidents_kept: [1, 2, 3] });
  const known = frozen(merged(null, first));
  assert.equal(merged(known, delta({ incidents_kept: [1, 2, 3] })).incidents, known.incidents);
  const changed = [incident({ incident: 2, status: "over" }), incident({ incident: 4 })];
  const next = merged(known, frozen(delta({ incidents: changed, incidents_kept: [2, 3, 4] })));
  assert.deepEqual(
    next.incidents.map((one) => [one.incident, one.status]),
    [
      [2, "over"],
      [3, "open"],
      [4, "open"],
    ],
  );
});

test("a delta needs a state before it", () => {
  assert.throws(() => merged(null, delta({})), /expected a state first/);
});
