// Where is it weak: the segments of a stream in which the loss is higher than elsewhere.
import { cell, element } from "./element.js";
import { count, fixed, percent } from "./format.js";

/** @import { Known, WeakSegment } from "./messages.js" */

const HEADS = ["segment", "rows", "loss", "elsewhere", "difference", "since row"];

export class SegmentsPanel {
  /** @type {Known["segments"]} */
  #drawn;

  constructor() {
    this.section = element("section", "#weak");
    this.note = element("p", "#weak-note");
    this.scroll = element("div", "#weak-segments");
  }

  /** @param {Known} data */
  update({ segments }) {
    this.section.hidden = !segments;
    if (!segments || segments === this.#drawn) return;
    this.#drawn = segments;
    this.note.textContent = noteOf(segments.sentence);
    this.scroll.hidden = !segments.segments.length;
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const [at, text] of HEADS.entries()) {
      const column = Object.assign(document.createElement("th"), { textContent: text, scope: "col" });
      if (at) column.className = "number";
      head.append(column);
    }
    const body = table.createTBody();
    for (const one of segments.segments)
      body.insertRow().append(...cellsOf(one).map((text, at) => cell(text, at ? "number" : "name")));
    this.scroll.replaceChildren(table);
  }
}

/**
 * A sentence, with a capital and a full stop.
 * @param {string} sentence
 */
export const noteOf = (sentence) => `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`;

/**
 * The cells of a segment.
 * @param {WeakSegment} segment
 */
export const cellsOf = ({ text, share, loss, outside, low, high, since }) => [
  text,
  percent(share),
  fixed(loss),
  fixed(outside),
  `+${fixed(loss - outside)} (+${fixed(low)} – +${fixed(high)})`,
  count(since),
];
