// uPlot with what all charts of the page share: the theme, the size of their place, a description for who cannot see
// them, the keyboard, and the marks of changes.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { count, fixed, number } from "./format.js";

const PALETTE = [
  "#3b7dd8", "#e07b28", "#2f9e62", "#c9456b", "#8a63d2", "#a8862f", "#1ba1b5", "#d45bb8", "#7a8f1f", "#64789c", "#b8432f",
  "#4a9a8f",
];
export const OTHERS = "#8b95a5";

/** Colour and dash of the n-th feature. */
export const ink = (slot) => ({ stroke: PALETTE[slot % PALETTE.length], dash: slot < PALETTE.length ? undefined : [6, 3] });

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Points are shown while a line has too few to be seen. */
export const sparse = { show: (plot) => plot.data[0].length < 3 };

/** A hue as translucent as wanted. */
export const tint = (colour, share) => colour + Math.round(share * 255).toString(16).padStart(2, "0");

const sync = uPlot.sync("events");

export class Chart {
  #place;
  #empty;
  #plot = null;
  #shape = null;
  #options = null;
  #data = null;
  #range = null;

  /**
   * @param {HTMLElement} place where it is drawn
   * @param {{onEvents?: boolean, onCursor?: (index: number | null) => void, onDraw?: (plot: uPlot) => void,
   *   underlay?: (plot: uPlot) => void, percent?: boolean}} wiring `onEvents`: x is the number of an
   *   event, and the cursor is shared with the other charts of that kind
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

  /** Say why there is nothing to draw. Text with `code` between backticks. */
  clear(reason, label) {
    this.#plot?.destroy();
    this.#plot = this.#shape = null;
    const text = document.createElement("span");
    text.append(...reason.split("`").map((part, at) => {
      if (at % 2 === 0) return part;
      const code = document.createElement("code");
      code.textContent = part;
      return code;
    }));
    this.#empty.replaceChildren(text);
    this.#empty.hidden = false;
    this.#place.setAttribute("aria-label", `${label}: ${reason.replaceAll("`", "")}`);
  }

  /**
   * @param {{label: string, data: number[][], series: object[], bands?: object[], range?: [number, number],
   *   y?: (min: number, max: number) => [number, number], ticks?: (values: number[]) => string[], unit?: string}} what
   *   `label` says in words what is drawn
   */
  draw(what) {
    this.#empty.hidden = true;
    this.#place.setAttribute("aria-label", `${what.label}. Arrow keys move along.`);
    this.#options = what;
    this.#data = what.data;
    this.#range = what.range ?? null;
    const shape = JSON.stringify([what.series.map((one) => [one.label, one.stroke, one.dash]), what.shape ?? ""]);
    if (shape !== this.#shape || !this.#plot) {
      this.#shape = shape;
      this.#make();
    } else {
      this.#plot.setData(what.data);
    }
  }

  /** Draw again, with the colours of now. */
  restyle() {
    if (this.#plot) this.#make();
  }

  redraw() {
    this.#plot?.redraw(false, false);
  }

  /** Let one series stand out; null: none. */
  stress(test) {
    if (!this.#plot) return;
    this.#plot.series.forEach((one, at) => {
      if (at) one.alpha = !test || test(one) ? 1 : 0.2;
    });
    this.#plot.redraw(false, false);
  }

  #make() {
    this.#plot?.destroy();
    const what = this.#options;
    const { width, height } = this.#size();
    const grid = { stroke: css("--grid"), width: 1 };
    const axis = { stroke: css("--faint"), grid, ticks: { ...grid, size: 4 }, font: "11px system-ui, sans-serif", gap: 3 };
    const options = {
      width,
      height,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      focus: { alpha: 0.25 },
      cursor: {
        drag: { x: false, y: false },
        points: { size: 5 },
        ...(this.wiring.onEvents ? { sync: { key: sync.key, setSeries: false, scales: ["x", null] } } : {}),
      },
      scales: {
        x: { time: false, range: (plot, min, max) => this.#range ?? (min === max ? [min - 1, max + 1] : [min, max]) },
        y: { range: (plot, min, max) => (min == null ? [0, 1] : (this.#options.y ?? around)(min, max)) },
      },
      axes: [
        {
          ...axis,
          size: 24,
          space: 46,
          values: (plot, values) => (this.#options.ticks ? this.#options.ticks(values) : values.map((value) => (Number.isInteger(value) ? count(value) : number(value)))),
          ...(what.splits ? { splits: () => this.#options.splits } : {}),
        },
        { ...axis, size: 46, space: 28, values: (plot, values) => (this.wiring.percent ? ticks(values.map((one) => 100 * one)).map((one) => `${one} %`) : ticks(values)) },
      ],
      series: [{}, ...what.series],
      bands: what.bands ?? [],
      hooks: {
        drawClear: [(plot) => this.wiring.underlay?.(plot)],
        draw: [(plot) => this.wiring.onDraw?.(plot)],
        setCursor: [(plot) => this.wiring.onCursor?.(plot.cursor.idx ?? null)],
      },
    };
    this.#plot = new uPlot(options, this.#data, this.#place);
  }

  #size() {
    return { width: Math.max(60, this.#place.clientWidth), height: Math.max(50, this.#place.clientHeight) };
  }

  #fit() {
    if (!this.#plot) return;
    const { width, height } = this.#size();
    if (width !== this.#plot.width || height !== this.#plot.height) this.#plot.setSize({ width, height });
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.#plot) return;
    event.preventDefault();
    const x = this.#plot.data[0];
    const here = this.#plot.cursor.idx ?? (step > 0 ? -1 : x.length);
    const next = Math.min(x.length - 1, Math.max(0, here + step));
    this.#plot.setCursor({ left: this.#plot.valToPos(x[next], "x"), top: 10 });
  }
}

/** Numbers at equal distances, with as many decimals as their distance asks for. */
function ticks(values) {
  const step = Math.abs(values[1] - values[0]);
  if (!(step >= 1e-6)) return values.map((value) => number(value));
  let decimals = 0;
  while (decimals < 8 && Math.abs(step * 10 ** decimals - Math.round(step * 10 ** decimals)) > 1e-6) decimals += 1;
  return values.map((value) => (decimals ? fixed(value, decimals) : count(value)));
}

/** A little room above and below; 0 is in sight. */
function around(min, max) {
  const low = Math.min(0, min);
  const high = Math.max(0, max);
  const room = (high - low || 1) * 0.06;
  return [low < 0 ? low - room : 0, high + room];
}

/** From nothing up. */
export const fromZero = (min, max) => [0, (max || 1) * 1.06];

/** The changes as lines under a chart over events, where each was noticed; the chosen one shaded from where it began. */
export function drawChanges(plot, groups, chosen) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const colour = css("--mark");
  for (const group of groups) {
    const strong = group.id === chosen;
    const left = plot.valToPos(group.start, "x", true);
    const at = plot.valToPos(group.seq, "x", true);
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
