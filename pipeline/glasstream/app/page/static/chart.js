// uPlot with what all charts of the page share: the theme, the size of their place, a description for who cannot see
// them, the keyboard, and the marks of changes.

import { count, fixed, number, unit } from "./format.js";
import uPlot from "./vendor/uplot/uPlot.esm.js";

/** @import { View } from "./address.js" */
/** @import { Bins, Known } from "./messages.js" */

/** @typedef {[number, number]} Range */

/**
 * A change as the charts over events mark it: where it began and where it was noticed.
 * @typedef {{id: string, start: number, seq: number}} Mark
 */

/**
 * An incident as the charts over events shade it: from its beginning to its end, which an open incident does not have.
 * @typedef {{start: number, end: number | null}} Span
 */

/**
 * What a chart draws.
 * @typedef {object} Drawing
 * @property {string} label says in words what is drawn
 * @property {uPlot.AlignedData} data
 * @property {uPlot.Series[]} series without that of x
 * @property {uPlot.Band[]} [bands]
 * @property {Range} [range] of x
 * @property {Clock | null} [clock] by it event numbers are drawn at their times
 * @property {(min: number, max: number) => Range} [y] range of y, of the smallest and largest value
 * @property {(values: number[]) => string[]} [ticks] texts below the x axis
 * @property {string[]} [names] of the categories; x is then a position among them
 * @property {string} [shape] kind of drawing: another one needs a new plot
 */

/** @typedef {(seq: number) => number} Clock the time of an event in milliseconds since 1970, by its number */

/**
 * @typedef {object} Wiring
 * @property {boolean} [onEvents] x is the number of an event, and the cursor is shared with other charts of that kind
 * @property {boolean} [percent]
 * @property {(index: number | null) => void} [onCursor]
 * @property {(plot: uPlot) => void} [onDraw]
 * @property {(plot: uPlot) => void} [underlay]
 */

/** The first four differ for colour-blind people too (after Okabe and Ito). The others also have a dash. */
const PALETTE = [
  "#2f7fd1",
  "#d55e00",
  "#009e73",
  "#c2669a",
  "#8a63d2",
  "#a8862f",
  "#1ba1b5",
  "#b8432f",
  "#7a8f1f",
  "#64789c",
  "#d45bb8",
  "#4a9a8f",
];
const DASHES = [undefined, [6, 3], [2, 2]];
export const OTHERS = "#8b95a5";

/**
 * Colour and dash of the n-th feature.
 * @param {number} slot
 */
export const ink = (slot) => ({
  stroke: PALETTE[slot % PALETTE.length],
  dash: DASHES[(Math.floor(slot / 4) + Math.floor(slot / PALETTE.length)) % DASHES.length],
});

/**
 * Value of a custom property of page.css.
 * @param {string} name
 */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Points are shown while a line has too few to be seen. */
export const sparse = { show: (/** @type {uPlot} */ plot) => plot.data[0].length < 3 };

/**
 * A hue as translucent as wanted.
 * @param {string} colour as #rrggbb
 * @param {number} share from 0, which cannot be seen, to 1
 */
export function tint(colour, share) {
  const alpha = Math.round(share * 255);
  return colour + alpha.toString(16).padStart(2, "0");
}

const sync = uPlot.sync("events");

/** Least pixels left, and pixels right of the place where a chart draws. */
const LEFT = 46;
const RIGHT = 10;
const FONT = "11px system-ui, sans-serif";

const pen = globalThis.document?.createElement("canvas").getContext("2d");

/**
 * Pixels that a text of an axis takes.
 * @param {string} text
 */
function measured(text) {
  if (!pen) return 6.6 * text.length; // without a browser
  pen.font = FONT;
  return pen.measureText(text).width;
}

/**
 * By key: how far the cursor goes.
 * @type {Record<string, number | undefined>}
 */
const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

export class Chart {
  #place;
  #empty;
  /** @type {uPlot | null} */
  #plot = null;
  /** @type {string | null} */
  #shape = null;
  /** Pixels that the y axis takes. */
  #left = LEFT;
  /** @type {Drawing} */
  #drawing = { label: "", data: [[]], series: [] };

  /**
   * @param {HTMLElement} place where it is drawn
   * @param {Wiring} wiring
   */
  constructor(place, wiring = {}) {
    this.#place = place;
    this.wiring = wiring;
    this.#empty = document.createElement("p");
    this.#empty.className = "empty";
    place.append(this.#empty);
    place.setAttribute("role", "img");
    place.tabIndex = 0;
    place.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#fit()).observe(place);
  }

  /** What is drawn, as uPlot holds it. */
  get drawn() {
    if (!this.#plot) return null;
    const [x, ...columns] = this.#plot.data;
    return {
      x: [...x],
      series: this.#plot.series.slice(1).map((one, at) => ({ label: one.label, values: [...columns[at]] })),
      range: [this.#plot.scales.x.min, this.#plot.scales.x.max],
    };
  }

  /**
   * Say why there is nothing to draw.
   * @param {string} reason with `code` between backticks
   * @param {string} label
   */
  clear(reason, label) {
    this.#plot?.destroy();
    this.#plot = null;
    this.#shape = null;
    const text = document.createElement("span");
    text.append(
      ...reason.split("`").map((part, at) => {
        if (at % 2 === 0) return part;
        const code = document.createElement("code");
        code.textContent = part;
        return code;
      }),
    );
    this.#empty.replaceChildren(text);
    this.#empty.hidden = false;
    this.#place.setAttribute("aria-label", `${label}: ${reason.replaceAll("`", "")}`);
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    const { clock } = drawing;
    if (clock) {
      const [x, ...columns] = drawing.data;
      const range = /** @type {Range | undefined} */ (drawing.range?.map(clock));
      drawing = { ...drawing, data: [Array.from(x, clock), ...columns], range };
    }
    this.#empty.hidden = true;
    this.#place.setAttribute("aria-label", `${drawing.label}. Arrow keys move along.`);
    this.#drawing = drawing;
    this.#place.title = drawing.names?.join(", ") ?? "";
    const lines = drawing.series.map((one) => [one.label, one.stroke, one.dash]);
    const shape = JSON.stringify([lines, drawing.shape ?? "", !clock]);
    if (shape !== this.#shape || !this.#plot) {
      this.#shape = shape;
      this.#make();
    } else {
      this.#plot.setData(drawing.data);
    }
  }

  /** Draw again, with the colours of now. */
  restyle() {
    if (this.#plot) this.#make();
  }

  /**
   * Let some series stand out; null: none.
   * @param {((series: uPlot.Series) => boolean) | null} test
   */
  stress(test) {
    if (!this.#plot) return;
    this.#plot.series.forEach((one, at) => {
      if (at) one.alpha = !test || test(one) ? 1 : 0.2;
    });
    this.#plot.redraw(false, false);
  }

  #make() {
    this.#plot?.destroy();
    const { width, height } = this.#size();
    const grid = { stroke: css("--grid"), width: 1 };
    const axis = {
      stroke: css("--faint"),
      grid,
      ticks: { ...grid, size: 4 },
      font: FONT,
      gap: 3,
    };
    /** @type {uPlot.Options} */
    const options = {
      width,
      height,
      ms: 1,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      focus: { alpha: 0.25 },
      cursor: {
        drag: { x: false, y: false },
        points: { size: 5 },
        ...(this.wiring.onEvents ? { sync: { key: sync.key, setSeries: false, scales: ["x", null] } } : {}),
      },
      scales: {
        x: { time: Boolean(this.#drawing.clock), range: (_plot, min, max) => this.#x(min, max) },
        y: { range: (_plot, min, max) => (min == null ? [0, 1] : (this.#drawing.y ?? around)(min, max)) },
      },
      axes: [
        { ...axis, ...this.#below() },
        {
          ...axis,
          size: (_plot, texts) => {
            this.#left = Math.max(LEFT, 12 + Math.ceil(Math.max(0, ...(texts ?? []).map(measured))));
            return this.#left;
          },
          space: 28,
          values: (_plot, at) => this.#beside(at),
        },
      ],
      series: [{}, ...this.#drawing.series],
      bands: this.#drawing.bands ?? [],
      hooks: {
        drawClear: [(plot) => this.wiring.underlay?.(plot)],
        draw: [(plot) => this.wiring.onDraw?.(plot)],
        setCursor: [(plot) => this.wiring.onCursor?.(plot.cursor.idx ?? null)],
      },
    };
    this.#plot = new uPlot(options, this.#drawing.data, this.#place);
    // Elements that are filled later in this frame may shrink the place to the size that the observer saw last. The
    // observer does not fire then.
    requestAnimationFrame(() => this.#fit());
  }

  /**
   * @param {number} min
   * @param {number} max
   * @returns {Range}
   */
  #x(min, max) {
    const { names, range } = this.#drawing;
    if (names) return [-0.5, names.length - 0.5];
    return range ?? (min === max ? [min - 1, max + 1] : [min, max]);
  }

  /**
   * The x axis: numbers, or the names of categories.
   * @returns {uPlot.Axis}
   */
  #below() {
    if (this.#drawing.names) {
      const names = (/** @type {uPlot} */ plot) =>
        fitted(this.#drawing.names ?? [], plot.width - RIGHT, this.#left, measured);
      return {
        splits: () => (this.#drawing.names ?? []).map((_name, at) => at),
        values: (plot) => names(plot).texts,
        rotate: (plot) => names(plot).angle,
        size: (plot) => names(plot).height,
      };
    }
    if (this.#drawing.clock) return { size: 36, space: 70, values: (_plot, at) => times(at) };
    const whole = (/** @type {number} */ value) => (Number.isInteger(value) ? count(value) : number(value));
    return { size: 24, space: 46, values: (_plot, at) => this.#drawing.ticks?.(at) ?? at.map(whole) };
  }

  /**
   * Texts beside the y axis.
   * @param {number[]} values
   */
  #beside(values) {
    return this.wiring.percent ? ticks(values.map((one) => 100 * one)).map((one) => `${one} %`) : ticks(values);
  }

  #size() {
    return { width: Math.max(60, this.#place.clientWidth), height: Math.max(50, this.#place.clientHeight) };
  }

  #fit() {
    if (!this.#plot) return;
    const { width, height } = this.#size();
    if (width !== this.#plot.width || height !== this.#plot.height) this.#plot.setSize({ width, height });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = STEPS[event.key];
    if (step === undefined || !this.#plot) return;
    event.preventDefault();
    const x = this.#plot.data[0];
    const here = this.#plot.cursor.idx ?? (step > 0 ? -1 : x.length);
    const next = Math.min(x.length - 1, Math.max(0, here + step));
    this.#plot.setCursor({ left: this.#plot.valToPos(x[next], "x"), top: 10 });
  }
}

/**
 * Numbers at equal distances, with as many decimals as their distance asks for; millions and more with their unit.
 * @param {number[]} values
 * @returns {string[]}
 */
export function ticks(values) {
  const step = Math.abs(values[1] - values[0]);
  if (!(step >= 1e-6)) return values.map((value) => number(value));
  const [of, sign] = unit(Math.max(...values.map(Math.abs)));
  if (of > 1) return ticks(values.map((value) => value / of)).map((text, at) => (values[at] ? text + sign : "0"));
  const isWhole = (/** @type {number} */ size) => Math.abs(size - Math.round(size)) <= 1e-6 * size;
  let decimals = 0;
  while (decimals < 8 && !isWhole(step * 10 ** decimals)) decimals += 1;
  return values.map((value) => (decimals ? fixed(value, decimals) : count(value)));
}

/**
 * Times at equal distances, in the time zone of the browser: the time of day, and below it the day where it is another
 * than that before.
 * @param {number[]} values in milliseconds since 1970
 */
export function times(values) {
  const step = values[1] - values[0];
  /** @type {Intl.DateTimeFormatOptions} */
  const parts = {
    hour: "2-digit",
    minute: "2-digit",
    ...(step < 60_000 ? { second: "2-digit" } : {}),
    hourCycle: "h23",
  };
  const clock = new Intl.DateTimeFormat("en-GB", parts);
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const days = values.map((value) => day.format(value));
  return values.map((value, at) => {
    if (step >= 86_400_000) return days[at];
    return clock.format(value) + (days[at] === days[at - 1] ? "" : `\n${days[at]}`);
  });
}

/**
 * How names stand below an axis so that none covers another or leaves the chart: level, or slanted and shortened; where
 * even that is too narrow, only every n-th.
 * @param {string[]} names
 * @param {number} right pixels from the left edge of the chart to the end of the axis
 * @param {number} left pixels from there to its beginning
 * @param {(text: string) => number} width pixels of a text
 * @returns {{texts: (string | null)[], angle: number, height: number}}
 */
export function fitted(names, right, left, width) {
  const room = Math.max(1, right - left) / names.length;
  const longest = (/** @type {string[]} */ texts) => Math.max(0, ...texts.map(width));
  if (longest(names) + 8 <= room) return { texts: names, angle: 0, height: 24 };
  const every = Math.ceil(18 / room);
  // A slanted text ends at its place and begins further left, as far from the edge as it is long.
  const texts = names.map((name, at) => shortened(name, Math.min(80, (left + room * (at + 0.5)) * Math.SQRT2), width));
  const height = 16 + Math.ceil(longest(texts) * Math.SQRT1_2);
  return { texts: texts.map((text, at) => (at % every ? null : text)), angle: 45, height };
}

/**
 * @param {string} text
 * @param {number} most pixels
 * @param {(text: string) => number} width
 */
function shortened(text, most, width) {
  if (width(text) <= most) return text;
  const characters = [...text];
  while (characters.length && width(`${characters.join("")}…`) > most) characters.pop();
  return `${characters.join("")}…`;
}

/**
 * A little room above and below; 0 is in sight.
 * @param {number} min
 * @param {number} max
 * @returns {Range}
 */
export function around(min, max) {
  const low = Math.min(0, min);
  const high = Math.max(0, max);
  const room = (high - low || 1) * 0.06;
  return [low < 0 ? low - room : 0, high + room];
}

/**
 * From nothing up.
 * @param {number} _min
 * @param {number} max
 * @returns {Range}
 */
export const fromZero = (_min, max) => [0, (max || 1) * 1.06];

/**
 * The events that the charts over events show: all, or the last ones.
 * @param {Known} data
 * @param {View} view
 * @returns {Range}
 */
export function eventRange(data, view) {
  const last = Math.max(data.quality?.last_seq ?? 0, data.importance?.seq.at(-1) ?? 0, data.novelty?.last_seq ?? 0);
  const first = Math.min(data.quality?.bins.first[0] ?? last, data.importance?.seq[0] ?? last);
  return [view.window ? Math.max(first, last - Number(view.window)) : first, Math.max(last, first + 1)];
}

/** The last time that a date can hold. */
const LAST_MS = 8.64e15;

/**
 * The clock of a stream: times between those that are known lie on a line. Null if its events have no times, or all the
 * same.
 * @param {Bins | undefined} bins
 * @returns {Clock | null}
 */
export function clockOf(bins) {
  /** @type {[seq: number, ms: number][]} */
  const known = [];
  for (const [at, ts] of (bins?.ts ?? []).entries()) {
    const [, before] = known.at(-1) ?? [0, -Infinity];
    if (bins && ts !== null && Math.abs(ts) <= LAST_MS) known.push([bins.last[at], Math.max(ts, before)]);
  }
  if (known.length < 2 || known[0][1] === known[known.length - 1][1]) return null;
  return (seq) => {
    let [low, high] = [0, known.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (known[middle][0] <= seq) low = middle;
      else high = middle;
    }
    const [[first, from], [last, to]] = [known[low], known[high]];
    return from + ((seq - first) * (to - from)) / (last - first);
  };
}

/**
 * The bands of incidents that meet a chart, from `left` to `right` in pixels, each at least one pixel wide.
 * @param {Span[]} spans
 * @param {(seq: number) => number} place of an event in pixels
 * @param {Range} chart its left and right edge
 * @param {number} pixel
 */
export function bands(spans, place, [left, right], pixel) {
  return spans.flatMap(({ start, end }) => {
    const from = Math.max(left, place(start));
    const to = end === null ? right : Math.min(right, place(end));
    return from > right || to < left ? [] : { from, width: Math.max(pixel, to - from), open: end === null };
  });
}

/**
 * The incidents as bands under a chart over events; those that go on are darker.
 * @param {uPlot} plot
 * @param {Span[]} spans
 * @param {Clock | null} clock
 */
export function drawIncidents(plot, spans, clock) {
  const { ctx, bbox } = plot;
  const colour = css("--warn");
  const place = (/** @type {number} */ seq) => plot.valToPos(clock ? clock(seq) : seq, "x", true);
  ctx.save();
  for (const { from, width, open } of bands(spans, place, [bbox.left, bbox.left + bbox.width], devicePixelRatio)) {
    ctx.fillStyle = tint(colour, open ? 0.2 : 0.1);
    ctx.fillRect(from, bbox.top, width, bbox.height);
  }
  ctx.restore();
}

/**
 * The changes as lines under a chart over events, where each was noticed; the chosen one shaded from where it began.
 * @param {uPlot} plot
 * @param {Mark[]} marks
 * @param {string | null} chosen
 * @param {Clock | null} clock
 */
export function drawChanges(plot, marks, chosen, clock) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const colour = css("--mark");
  for (const mark of marks) {
    const strong = mark.id === chosen;
    const left = plot.valToPos(clock ? clock(mark.start) : mark.start, "x", true);
    const at = plot.valToPos(clock ? clock(mark.seq) : mark.seq, "x", true);
    if (strong) {
      ctx.fillStyle = tint(colour, 0.15);
      ctx.fillRect(left, bbox.top, Math.max(1, at - left), bbox.height);
    }
    ctx.strokeStyle = tint(colour, strong ? 1 : 0.6);
    ctx.lineWidth = (strong ? 2 : 1) * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
