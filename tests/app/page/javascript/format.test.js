import assert from "node:assert/strict";
import test from "node:test";
import { ago, count, fixed, number, percent } from "../../../../pipeline/glasstream/app/page/static/format.js";

const MAGNITUDES = Array.from({ length: 540 }, (_, at) => 10 ** (-9 + at / 20) * (1 + (at % 7) / 100));
/** @type {Record<string, number>} */
const UNITS = { M: 1e6, B: 1e9, T: 1e12 };
const parsed = (/** @type {string} */ text) =>
  Number(text.replaceAll(",", "").replace("−", "-").replace(/[MBT]/, "")) * (UNITS[text.at(-1) ?? ""] ?? 1);

test("a number keeps three significant digits, or two if it needs an exponent", () => {
  const edges = [999.4, 999.6, 999.96, 0.0001, 999_499, 999_999, 999_999.7, 999_600_000, 999_600_000_000, 9.994e14];
  for (const value of [...MAGNITUDES, ...edges]) {
    const text = number(value);
    const plain = value >= 1e-4 && value < 999.5e12;
    assert.equal(text.includes("e"), !plain, text);
    assert.ok(!/^\d{4}|,.*[MBT]/.test(text), text);
    assert.equal(/[MBT]$/.test(text), plain && value >= 999_999.5, text);
    assert.ok(Math.abs(parsed(text) - value) <= value * (plain ? 0.005 : 0.05) + 1e-15, `${value} as ${text}`);
    assert.equal(number(-value), `-${text}`);
  }
});

test("a missing number is a dash, and one that is negligible beside the scale is 0", () => {
  assert.deepEqual(
    [null, undefined, Number.NaN].map((value) => number(value)),
    ["–", "–", "–"],
  );
  assert.deepEqual([number(0), number(1e-9, 1), number(1e-9, 1e-9)], ["0", "0", "1.0e-9"]);
});

test("fixed numbers have as many decimals as asked for, and no negative zero", () => {
  for (const value of MAGNITUDES.filter((one) => one < 1e6)) {
    for (const digits of [1, 3, 4]) {
      assert.match(fixed(value, digits), new RegExp(`^\\d+\\.\\d{${digits}}$`));
      const negative = parsed(fixed(value, digits)) ? `−${fixed(value, digits)}` : fixed(value, digits);
      assert.equal(fixed(-value, digits), negative);
    }
  }
  assert.equal(fixed(null), "–");
});

test("a percentage rises with the share, and only all is 100 %", () => {
  const shares = Array.from({ length: 20001 }, (_, at) => at / 20000);
  const values = shares.map((share) => Number(percent(share).replace(" %", "")));
  assert.deepEqual(
    values,
    [...values].sort((a, b) => a - b),
  );
  values.forEach((value, at) => {
    assert.ok(Math.abs(value - 100 * shares[at]) <= 0.5, String(shares[at]));
    assert.equal(value === 100, shares[at] === 1);
  });
  assert.equal(percent(undefined), "–");
});

test("counts are grouped by thousands", () => {
  assert.deepEqual([0, 999, 1000, 1234567, null].map(count), ["0", "999", "1,000", "1,234,567", "–"]);
});

test("elapsed time is given in the largest unit that fits at least twice", () => {
  const said = [-5, 0, 1, 2, 119, 120, 7199, 7200, 172799, 172800].map((seconds) => ago(1000 * seconds));
  const now = ["just now", "just now", "just now"];
  const later = ["2 s ago", "119 s ago", "2 min ago", "120 min ago", "2 h ago", "48 h ago", "2 days ago"];
  assert.deepEqual(said, [...now, ...later]);
});
