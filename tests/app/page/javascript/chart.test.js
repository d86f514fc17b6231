import assert from "node:assert/strict";
import test from "node:test";
import { read } from "../../../../pipeline/glasstream/app/page/static/address.js";
import {
  around,
  bands,
  clockOf,
  eventRange,
  fitted,
  ink,
  ticks,
  times,
  tint,
} from "../../../../pipeline/glasstream/app/page/static/chart.js";
import { aligned, newestUpTo, tight } from "../../../../pipeline/glasstream/app/page/static/effects.js";
import { merged } from "../../../../pipeline/glasstream/app/page/static/feed.js";
import { axis, band, listed, sums } from "../../../../pipeline/glasstream/app/page/static/reliance.js";
import { quality, ranking, state } from "./messages.js";

test("a band goes from the first event of an incident to its end, within the chart, and can be seen", () => {
  /** @param {number} start @param {number | null} end */
  const drawn = (start, end) => bands([{ start, end }], (seq) => seq / 10, [50, 150], 2);
  assert.deepEqual(drawn(600, 900), [{ from: 60, width: 30, open: false }]);
  assert.deepEqual(drawn(100, 900), [{ from: 50, width: 40, open: false }]);
  assert.deepEqual(drawn(600, null), [{ from: 60, width: 90, open: true }]);
  assert.deepEqual(drawn(600, 605), [{ from: 60, width: 2, open: false }]);
  assert.deepEqual([drawn(100, 400), drawn(1600, null), drawn(1600, 1700)], [[], [], []]);
});

test("neighbouring ticks have different texts, all with the same number of decimals", () => {
  for (const step of [1e-6, 0.0025, 0.01, 0.25, 0.5, 1, 2.5, 500, 100000]) {
    const texts = ticks(Array.from({ length: 6 }, (_, at) => (at - 2) * step));
    assert.equal(new Set(texts).size, 6, String(step));
    assert.equal(new Set(texts.map((text) => text.split(".")[1]?.length)).size, 1, texts.join(" "));
  }
  assert.deepEqual(ticks([0.5]), ["0.5"]);
});

test("ticks of large numbers are short, differ, and name their unit", () => {
  for (let exponent = 6; exponent < 13; exponent += 1) {
    for (const first of [-2, 0, 40]) {
      const values = Array.from({ length: 6 }, (_, at) => (first + at) * 2.5 * 10 ** exponent);
      const texts = ticks(values);
      assert.equal(new Set(texts).size, 6, texts.join(" "));
      for (const [at, text] of texts.entries()) {
        assert.ok(text.length <= 8, text);
        assert.match(text, values[at] ? /^[-−]?[\d,.]+[MBT]$/ : /^0$/);
      }
    }
  }
  assert.deepEqual(ticks([0, 10e6, 20e6]), ["0", "10M", "20M"]);
  assert.deepEqual(ticks([1_235_000, 1_236_000, 1_237_000]), ["1.235M", "1.236M", "1.237M"]);
});

/** Pixels of a text whose letters differ in width. @param {string} text */
const width = (text) => [...text].reduce((sum, one) => sum + (one === "W" ? 11 : one === "i" ? 3 : 7), 0);

test("category names do not cover each other or leave the chart, whatever their number, length and letters", () => {
  for (const letter of ["x", "W", "i"]) {
    for (const length of [1, 8, 20, 60]) {
      for (const total of [1, 2, 5, 10, 40, 200]) {
        for (const right of [240, 330, 900]) {
          const left = 46;
          const names = Array.from({ length: total }, (_, at) => `${at}${letter.repeat(length)}`.slice(0, length));
          const { texts, angle, height } = fitted(names, right, left, width);
          const shown = texts.flatMap((text, at) => (text === null ? [] : [{ text, at }]));
          const each = (right - left) / total;
          assert.equal(texts.length, total);
          assert.equal(shown[0].at, 0);
          for (const { text, at } of shown) {
            assert.ok(names[at].startsWith(text.replace("…", "")));
            const reach = angle ? width(text) * Math.SQRT1_2 : width(text) / 2;
            assert.ok(reach <= left + each * (at + 0.5) + 1e-9, `${text} leaves the chart`);
            assert.ok(angle || text === names[at]);
          }
          const room = (shown.length > 1 ? shown[1].at : total) * each;
          // Slanted by 45°, lines of 11 pixels are 11 √2 apart.
          assert.ok(room >= (angle ? 16 : Math.max(...names.map(width))) || shown.length === 1);
          assert.ok(height < 80);
        }
      }
    }
  }
});

test("short names stand level and whole", () => {
  const level = { texts: ["red", "green", "blue"], angle: 0, height: 24 };
  assert.deepEqual(fitted(["red", "green", "blue"], 330, 46, width), level);
});

test("y ranges contain all values; those of importances contain 0, those of curves are centred", () => {
  for (const [min, max] of [
    [0, 0],
    [0.2, 0.9],
    [-3, -1],
    [-1, 5],
    [7, 7],
  ]) {
    const [low, high] = around(min, max);
    assert.ok(low <= Math.min(0, min) && high >= Math.max(0, max) && low < high);
    const [bottom, top] = tight(min, max);
    assert.ok(bottom < min && max < top);
    assert.ok(Math.abs((bottom + top) / 2 - (min + max) / 2) < 1e-9);
  }
});

test("the events shown are all, or the last ones, and never none", () => {
  const view = (/** @type {string} */ window) => ({ ...read(""), window });
  const known = merged(null, state({ quality: quality(100, 0, new Array(50).fill(0.5)) }));
  assert.deepEqual(eventRange(known, view("")), [0, 4999]);
  assert.deepEqual(eventRange(known, view("1000")), [3999, 4999]);
  assert.deepEqual(eventRange(known, view("100000")), [0, 4999]);
  assert.deepEqual(eventRange(merged(null, state({})), view("")), [0, 1]);
});

test("24 features have 24 different strokes", () => {
  const inks = Array.from({ length: 24 }, (_, slot) => JSON.stringify(ink(slot)));
  assert.equal(new Set(inks).size, 24);
  const dashes = [0, 4, 8].map((slot) => JSON.stringify(ink(slot).dash));
  assert.equal(new Set(dashes).size, 3); // what the first four colours do not tell apart, the dash does
  assert.deepEqual(
    [tint("#102030", 0), tint("#102030", 0.5), tint("#102030", 1)],
    ["#10203000", "#10203080", "#102030ff"],
  );
});

test("two curves on one axis keep their points", () => {
  const before = { grid: [3, 1, 2], curve: [0.3, 0.1, 0.2] };
  const after = { grid: [2, 2.5], curve: [0.5, 0.6] };
  assert.deepEqual(aligned(before, after), {
    x: [1, 2, 2.5, 3],
    before: [0.1, 0.2, null, 0.3],
    after: [null, 0.5, 0.6, null],
    low: [null, null, null, null],
    high: [null, null, null, null],
  });
});

test("the ends of the intervals are those of the second curve, where it has them", () => {
  const before = { grid: ["red"], curve: [0.25], margin: [0.5] };
  const after = { grid: ["blue", "red"], curve: [0.5, 0.75], margin: [null, 0.25] };
  const { low, high } = aligned(before, after);
  assert.deepEqual({ low, high }, { low: [0.5, null], high: [1, null] });
});

test("categories keep their order, and become texts", () => {
  const before = { grid: ["red", true], curve: [0.1, 0.2] };
  const after = { grid: ["blue", 7, "red"], curve: [0.3, 0.4, 0.5] };
  assert.deepEqual(aligned(before, after), {
    x: [0, 1, 2, 3],
    before: [0.1, 0.2, null, null],
    after: [0.5, null, 0.3, 0.4],
    low: [null, null, null, null],
    high: [null, null, null, null],
    names: ["red", "true", "blue", "7"],
  });
});

test("the slider selects the newest curve up to an event, or else the oldest curve", () => {
  assert.deepEqual(
    [0, 99, 100, 250, 9999].map((seq) => newestUpTo([99, 199, 299], seq)),
    [0, 0, 0, 1, 2],
  );
  assert.equal(newestUpTo([], 5), 0);
});

test("layers of a stack never fall, and the top is the sum of what is positive", () => {
  const columns = [
    [0.5, -0.25, null],
    [0.25, 0.5, 1],
  ];
  assert.deepEqual(sums(3, columns), [
    [0, 0, 0],
    [0.5, 0, 0],
    [0.75, 0.5, 1],
  ]);
});

test("the ranking keeps its order, and drawn features take precedence when there are too many rows", () => {
  const values = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`Sensor_${at}`, 1 / (at + 1)]));
  const all = ranking(values);
  const drawn = (/** @type {string} */ name) => name === "Sensor_29";
  const { shown, hidden } = listed(all, "", drawn, 10);
  assert.deepEqual(
    shown.map(([rank]) => rank),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 30],
  );
  assert.equal(hidden, 20);
  assert.deepEqual(listed(all, "", drawn, 100), { shown: all, hidden: 0 });
  assert.deepEqual(
    listed(all, "SENSOR_2", drawn, 100).shown.map(([, name]) => name),
    ["Sensor_2", ...Array.from({ length: 10 }, (_, at) => `Sensor_2${at}`)],
  );
  assert.deepEqual(listed(all, "nobody", drawn, 100), { shown: [], hidden: 0 });
});

test("the caption says where there can be no interval", () => {
  assert.equal(band({ kind: "normal", level: 0.95 }), "; shaded: 95 % interval");
  assert.equal(band({ kind: null, level: null }), "");
  assert.match(band({ kind: "biased", level: null }), /no intervals.*bias of unknown size/);
});

test("the axis of the ranking spans 0, all values and all intervals, and keeps their order", () => {
  for (const values of [
    { a: 0.5, b: -0.2 },
    { a: 3, b: 2 },
    { a: -1, b: -2 },
  ]) {
    const entries = ranking(values);
    const place = axis(entries);
    const numbers = [0, ...entries.flatMap(([, , ...of]) => of)].map(Number).sort((a, b) => a - b);
    const places = numbers.map(place);
    assert.ok(places[0] === 0 && Math.abs(places[places.length - 1] - 100) < 1e-6);
    assert.ok(places.every((one, at) => at === 0 || one >= places[at - 1]));
  }
  assert.ok(Number.isFinite(axis([])(0)));
});

test("a clock passes through the known times, never goes back, and is straight between and beyond them", () => {
  const bins = { ...quality(100, 0, [1, 2, 3, 4]).bins, ts: [1_000, null, 3_000, 2_000] };
  const clock = clockOf(bins);
  assert.ok(clock);
  assert.deepEqual([99, 199, 299, 399].map(clock), [1_000, 2_000, 3_000, 3_000]);
  assert.deepEqual([clock(49), clock(249)], [500, 2_500]);
  let before = -Infinity;
  for (let seq = 0; seq < 500; seq += 1) {
    assert.ok(clock(seq) >= before);
    before = clock(seq);
  }
});

test("there is no clock without two different times that a date can hold", () => {
  for (const ts of [
    [null, null, null],
    [5, null, null],
    [5, 5, 5],
    [5, 1e17, null],
  ]) {
    assert.equal(clockOf({ ...quality(100, 0, [1, 2, 3]).bins, ts }), null);
  }
  assert.equal(clockOf(undefined), null);
});

test("times of a day have the day below where it changes, and days stand alone", () => {
  const start = new Date(2026, 0, 1, 12).getTime();
  const hours = (/** @type {number} */ many) => start + many * 3_600_000;
  assert.deepEqual(times([hours(0), hours(8), hours(16)]), ["12:00\n1 Jan 2026", "20:00", "04:00\n2 Jan 2026"]);
  assert.deepEqual(times([hours(-12), hours(12)]), ["1 Jan 2026", "2 Jan 2026"]);
  assert.deepEqual(times([start, start + 5_000]), ["12:00:00\n1 Jan 2026", "12:00:05"]);
  assert.equal(times([start])[0], "12:00\n1 Jan 2026");
  assert.deepEqual(times([]), []);
});
