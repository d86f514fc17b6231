import assert from "node:assert/strict";
import test from "node:test";
import { addressOf, asked, read, written } from "../../../../pipeline/glasstream/app/page/static/address.js";
import { merged } from "../../../../pipeline/glasstream/app/page/static/feed.js";
import {
  arranged,
  order,
  rateOf,
  skill,
  texts,
  total,
} from "../../../../pipeline/glasstream/app/page/static/overview.js";
/** @import { Compared, StreamRow } from "../../../../pipeline/glasstream/app/page/static/messages.js" */

import { OUTLINE } from "./messages.js";

const NOW = 1_700_000_000_000;

/** @param {Partial<Compared>} parts @returns {Compared} */
const shares = (parts) => ({
  events: 100,
  model: 0.9,
  constant: 0.8,
  no_change: 0.5,
  most_frequent: "no",
  beaten: true,
  diverged: false,
  ...parts,
});

/** @param {string} status @param {number} reported @returns {NonNullable<StreamRow["incident"]>} */
const incident = (status, reported) => ({
  incident: 1,
  status,
  title: "data moved",
  since: "row 9",
  summary: "",
  reported,
});

/** @param {Partial<StreamRow>} parts @returns {StreamRow} */
const row = (parts) => ({
  stream: "s",
  epoch: 0,
  events: 10,
  rate: 5,
  newest: NOW,
  standing: null,
  method: "iPFI",
  leading: [],
  compared: null,
  open: 0,
  incident: null,
  ...parts,
});

/** @param {StreamRow[]} rows @param {string} sort @param {string} [search] */
const names = (rows, sort, search = "") => arranged(rows, { sort, search }, NOW).map((one) => one.stream);

test("open incidents come first unless another column is chosen, and the newest of them", () => {
  const rows = [
    row({ stream: "none 10" }),
    row({ stream: "none 9" }),
    row({ stream: "over", incident: incident("over", NOW - 5) }),
    row({ stream: "new", incident: incident("open", NOW - 10), open: 1 }),
    row({ stream: "old", incident: incident("open", NOW - 90), open: 1 }),
  ];
  assert.deepEqual(names(rows, ""), ["new", "old", "over", "none 9", "none 10"]);
  assert.deepEqual(names(rows, "-incident"), ["over", "old", "new", "none 9", "none 10"]);
  assert.deepEqual(names(rows, "nonsense"), names(rows, ""));
});

test("each column sorts both ways, and rows without a value come last", () => {
  const rows = [
    row({ stream: "a", standing: shares({ model: 0.7 }), leading: [["y", 1]], rate: 3, events: 7 }),
    row({ stream: "b", standing: shares({ model: 0.95 }), leading: [["x", 1]], rate: 9, events: 5 }),
    row({ stream: "c", rate: 4, events: 6 }),
    row({ stream: "d", rate: 100, newest: NOW - 3_600_000, events: 1 }),
  ];
  assert.deepEqual(names(rows, "quality"), ["a", "b", "c", "d"]);
  assert.deepEqual(names(rows, "-quality"), ["b", "a", "c", "d"]);
  assert.deepEqual(names(rows, "leading"), ["b", "a", "c", "d"]);
  assert.deepEqual(names(rows, "rate"), ["b", "c", "a", "d"]);
  assert.deepEqual(names(rows, "-events"), ["d", "b", "c", "a"]);
  assert.deepEqual(names(rows, "-stream"), ["d", "c", "b", "a"]);
});

test("a search finds parts of names, whatever their case", () => {
  const rows = ["Loans-fi", "loans-se", "meters"].map((stream) => row({ stream }));
  assert.deepEqual(names(rows, "stream", " LOANS"), ["Loans-fi", "loans-se"]);
  assert.deepEqual(names(rows, "stream", "nothing"), []);
});

test("skill is 0 for a model like its best baseline and 1 for no error, of classes and of numbers", () => {
  assert.equal(skill(shares({ model: 0.8 })), 0);
  assert.equal(skill(shares({ model: 1 })), 1);
  assert.ok((skill(shares({ model: 0.4 })) ?? 0) < 0);
  const numbers = { most_frequent: null, constant: 4, no_change: 2 };
  assert.equal(skill(shares({ ...numbers, model: 2 })), 0);
  assert.equal(skill(shares({ ...numbers, model: 0 })), 1);
  assert.equal(skill(shares({ ...numbers, model: 4 })), -1);
});

test("a row says how good, on what, since when and how fast", () => {
  const said = texts(
    row({
      standing: shares({}),
      leading: [
        ["age", 0.25],
        ["loan", 0.125],
      ],
      incident: incident("open", NOW - 300_000),
      open: 3,
    }),
    NOW,
  );
  assert.deepEqual([said.quality, said.baseline, said.kind], ["✓ 90.0 %", "always “no” 80.0 %", "good"]);
  assert.deepEqual([said.leading, said.others], ["age 0.250", "loan 0.125"]);
  assert.deepEqual([said.status, said.incident], ["▲ open", "data moved (and 2 more)"]);
  assert.deepEqual([said.since, said.rate, said.newest], ["row 9, 5 min ago", "5", ""]);
  const weak = texts(row({ standing: shares({ most_frequent: null, model: 2, beaten: false }) }), NOW);
  assert.deepEqual([weak.quality, weak.baseline, weak.kind], ["▲ MAE 2", "the previous value 0.5", "warn"]);
});

test("a stream whose newest event is old has no rate", () => {
  assert.equal(rateOf(row({ newest: NOW - 59_000 }), NOW), 5);
  assert.equal(rateOf(row({ newest: NOW - 61_000 }), NOW), 0);
  assert.equal(texts(row({ newest: NOW - 600_000 }), NOW).newest, "10 min ago");
});

test("the total counts streams that need a look", () => {
  const rows = [row({ open: 2 }), row({ standing: shares({ beaten: false }) }), row({ standing: shares({}) })];
  assert.equal(total(rows, 3), "3 streams · 1 with an open incident · 1 no better than a baseline");
  assert.equal(total(rows, 1), "3 streams · 1 shown · 1 with an open incident · 1 no better than a baseline");
});

test("changed rows replace the known ones, and new ones are added", () => {
  const { streams: _, ...outline } = OUTLINE;
  const first = [row({ stream: "a" }), row({ stream: "b" })];
  const known = merged(null, { ...OUTLINE, type: "state", stream: null, epoch: null, behind: null, rows: first });
  const changed = [row({ stream: "b", events: 11 }), row({ stream: "c" })];
  const next = merged(known, { ...outline, type: "rows", rows: changed });
  assert.deepEqual(next.rows, [first[0], ...changed]);
});

test("the address of a stream keeps the order and the search of the table", () => {
  const view = { ...read("sort=-rate&search=lo&theme=dark&method=isage&pin=x"), stream: "a" };
  assert.deepEqual(read(addressOf(view, "b")), { ...read("sort=-rate&search=lo&theme=dark"), stream: "b" });
  assert.equal(asked(read("sort=-rate&search=lo")), "top=8");
  assert.equal(written(read("sort=<b>")), "");
  assert.deepEqual(order("-rate"), { column: "rate", reversed: true });
});

test("a comparison with another stream stands after the baseline", () => {
  const compared = { better: /** @type {const} */ ("other"), other: "s @ new." };
  assert.equal(texts(row({ standing: shares({}), compared }), NOW).baseline, "always “no” 80.0 %; worse than s @ new.");
  const better = { better: /** @type {const} */ ("stream"), other: "b" };
  assert.match(texts(row({ standing: shares({}), compared: better }), NOW).baseline, /; better than b$/);
  const unknown = { better: null, other: "b" };
  assert.equal(texts(row({ standing: shares({}), compared: unknown }), NOW).baseline, "always “no” 80.0 %");
});
