import assert from "node:assert/strict";
import test from "node:test";
import {
  grouped,
  idOf,
  largest,
  sentence,
  telling,
  watched,
} from "../../../../pipeline/glasstream/app/page/static/changes.js";
import { alarm, incident } from "./messages.js";

/** Numbers that look random, the same each time. @param {number} seed */
function draws(seed) {
  let last = seed;
  return (/** @type {number} */ below) => {
    last = (last * 48271) % 2147483647;
    return last % below;
  };
}

/** @param {number} seed */
function someAlarms(seed) {
  const draw = draws(seed);
  return Array.from({ length: 1 + draw(12) }, (_, at) =>
    alarm({ seq: draw(20000), width: 1 + draw(3000), feature: ["age", "loan", null][draw(3)], row: at }),
  );
}

test("every alarm is in exactly one group, and groups are split wherever the gap is exceeded", () => {
  for (let seed = 1; seed < 200; seed += 1) {
    const alarms = someAlarms(seed);
    const events = [100, 20000, 60000][seed % 3];
    const gap = Math.max(400, events * 0.025);
    const groups = grouped(alarms, events);
    assert.deepEqual(new Set(groups.flatMap((one) => one.alarms)), new Set(alarms));
    assert.equal(groups.flatMap((one) => one.alarms).length, alarms.length);
    groups.forEach((group, at) => {
      const starts = group.alarms.map((one) => Math.max(0, one.seq - one.width)).sort((a, b) => a - b);
      assert.deepEqual([group.start, group.end], [starts[0], starts.at(-1)]);
      assert.ok(starts.every((start, place) => place === 0 || start - starts[place - 1] <= gap));
      assert.ok(at === 0 || group.start - groups[at - 1].end > gap);
      assert.equal(group.seq, Math.min(...group.alarms.map((one) => one.seq)));
      assert.ok(group.alarms.includes(telling(group)));
    });
    assert.equal(largest(groups).alarms.length, Math.max(...groups.map((one) => one.alarms.length)));
  }
});

test("the order of the alarms does not change the groups", () => {
  for (let seed = 1; seed < 50; seed += 1) {
    const alarms = someAlarms(seed);
    const ids = (/** @type {typeof alarms} */ some) => grouped(some, 0).map((one) => [one.start, one.seq, one.end]);
    assert.deepEqual(ids(alarms), ids([...alarms].reverse()));
  }
});

test("the telling alarm is the one whose curves differ most, or the first if none has curves", () => {
  const flat = { output: null, grid: [0, 1], curve: [0.1, 0.1] };
  const curves = (/** @type {number} */ top) => ({
    curve_before: flat,
    curve_after: { ...flat, curve: [0.1, top] },
  });
  const [group] = grouped([alarm({ seq: 3, ...curves(0.2) }), alarm({ seq: 4, ...curves(0.9) }), alarm({ seq: 1 })], 0);
  assert.equal(telling(group).seq, 4);
  const [plain] = grouped([alarm({ seq: 3 }), alarm({ seq: 1 })], 0);
  assert.equal(telling(plain).seq, 1);
});

test("alarms of an incident are one group, however far apart they are, and do not join others", () => {
  const onset = { row: 5000, earliest: 4900, latest: 5050, seq: 5000, ts: null };
  const seqs = [4899, 4900, 5200, 9000, 9001];
  const alarms = seqs.map((seq) => alarm({ seq: seq + 10, row: seq, width: 10 }));
  const closed = incident({ incident: 7, status: "over", row: 9000, onset });
  const groups = grouped(alarms, 0, [closed]);
  assert.deepEqual(
    groups.map((one) => [one.incident, one.start, one.alarms.map(({ seq }) => seq)]),
    [
      [null, 4899, [4909]],
      [7, 5010, [4910, 5210, 9010]],
      [null, 9001, [9011]],
    ],
  );
  assert.equal(sentence(groups[1]).title, "incident 7, about event 5,010");
  const [, open] = grouped(alarms, 0, [{ ...closed, status: "open" }]);
  assert.deepEqual(open.alarms.at(-1)?.seq, 9011);
});

test("alarms and changes have descriptions", () => {
  const loss = alarm({ seq: 2100, signal: "loss", feature: null, method: null, width: 64, before: 0.25, after: 0.125 });
  const shape = alarm({ seq: 2200, signal: "curve_shape", width: 164 });
  assert.deepEqual([loss, shape, alarm({ signal: "of_tomorrow" })].map(watched), [
    "loss of the model",
    "age: shape of its effect",
    "age: of-tomorrow",
  ]);
  assert.equal(watched(alarm({ method: "isage", label: "iSAGE" })), "age: importance (iSAGE)");
  assert.equal(idOf(loss), "2100~loss~~");
  assert.deepEqual(sentence(grouped([shape, loss], 0)[0]), {
    title: "about event 2,036",
    alarms: "2 alarms, the first at 2,100",
    details: "loss 0.25 → 0.125; age",
  });
  const alone = sentence(grouped([loss], 0)[0]);
  assert.deepEqual(alone.alarms, "one alarm, at 2,100");
  assert.match(alone.details, /the loss alone$/);
});
