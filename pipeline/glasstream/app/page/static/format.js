// Numbers and times as people read them.

/** @typedef {number | null | undefined} Maybe a number that may be missing */

const whole = new Intl.NumberFormat("en");

/**
 * An event's number, or a count: 12,345.
 * @param {Maybe} value
 */
export const count = (value) => (value == null ? "–" : whole.format(value));

/** Large numbers are counted in these. @type {[size: number, sign: string][]} */
const UNITS = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
];

/**
 * The unit in which a number from a million to less than 10^15 is shown; 1 for others.
 * @param {number} value
 * @returns {[size: number, sign: string]}
 */
export function unit(value) {
  const size = Math.abs(value);
  return (size < 1e15 ? UNITS.find(([one]) => size >= one) : undefined) ?? [1, ""];
}

/**
 * Three significant digits, millions and more with their unit (2.5M, 2.5B, 2.5T); 0 for what is nothing beside `scale`.
 * @param {Maybe} value
 */
export function number(value, scale = 0) {
  if (value == null || Number.isNaN(value)) return "–";
  if (value === 0 || Math.abs(value) < scale * 1e-6) return "0";
  const size = Math.abs(value);
  if (size >= 999.5e12 || size < 1e-4) return value.toExponential(1);
  if (size >= 999.5 && size < 999_999.5) return whole.format(Math.round(value));
  const [of, sign] = unit(Number(value.toPrecision(3)));
  const digits = (value / of).toPrecision(3);
  return digits.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") + sign;
}

/**
 * A fixed number of decimals, so that columns line up.
 * @param {Maybe} value
 */
export function fixed(value, digits = 3) {
  if (value == null) return "–";
  return value
    .toFixed(digits)
    .replace(/^-(?=[0.]*$)/, "")
    .replace("-", "−");
}

/**
 * A share of 1 as percent, with as many digits as it deserves.
 * @param {Maybe} share
 */
export function percent(share) {
  if (share == null) return "–";
  const value = 100 * share;
  if (value === 0 || value === 100) return `${value} %`;
  return `${value < 10 ? value.toFixed(1) : Math.min(value, 99.9).toFixed(value > 99 ? 1 : 0)} %`;
}

/**
 * How long ago.
 * @param {number} milliseconds
 */
export function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 2) return "just now";
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/**
 * A loss, metric or signal as it is named in records.
 * @param {string | null | undefined} name
 */
export const named = (name) => (name ?? "").replaceAll("_", "-");
