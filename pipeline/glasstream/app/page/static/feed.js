// Server-sent events, put together to what is known of the stream that is looked at.

/** @import { Bins, Importance, Incident, Known, Message } from "./messages.js" */

const RETRY_MS = 1000;
const MOST_ALARMS = 200;

/**
 * Put a message into what is known; the new whole.
 * @param {Known | null} known
 * @param {Message} message
 * @returns {Known}
 */
export function merged(known, message) {
  if (message.type === "state") return { alarms: [], incidents: [], effect: null, ...message };
  if (!known) throw new Error(`expected a state first, got ${message.type}`);
  if (message.type === "rows") {
    const rows = new Map([...(known.rows ?? []), ...message.rows].map((row) => [row.stream, row]));
    return { ...known, ...message, type: "state", rows: [...rows.values()] };
  }
  const { quality, novelty, importance, effect } = message;
  return {
    ...known,
    ...message,
    type: "state",
    quality: { ...quality, bins: mergedBins(known.quality?.bins, quality.bins) },
    ...(novelty && { novelty: { ...novelty, bins: mergedBins(known.novelty?.bins, novelty.bins) } }),
    ...(importance && { importance: mergedImportance(known.importance, importance) }),
    alarms: [...known.alarms, ...(message.alarms ?? [])].slice(-MOST_ALARMS),
    incidents: mergedIncidents(known.incidents, message.incidents ?? [], message.incidents_kept),
    effect:
      effect && known.effect
        ? { ...effect, curves: [...known.effect.curves, ...effect.curves] }
        : (effect ?? known.effect),
  };
}

/**
 * The newest state of each incident that the server keeps, by number.
 * @param {Incident[]} known
 * @param {Incident[]} changed
 * @param {number[]} kept
 */
function mergedIncidents(known, changed, kept) {
  if (!changed.length) return known;
  const newest = new Map([...known, ...changed].map((one) => [one.incident, one]));
  return kept.flatMap((number) => newest.get(number) ?? []);
}

/**
 * Bins from `from` on are new; those before stay if they are as wide.
 * @param {Bins | undefined} known
 * @param {Bins} added
 * @returns {Bins}
 */
function mergedBins(known, added) {
  if (!known || known.width !== added.width) return added;
  const kept = known.index.filter((index) => index < added.from).length;
  /** @template T @param {T[]} old @param {T[]} fresh */
  const join = (old, fresh) => [...old.slice(0, kept), ...fresh];
  return {
    width: added.width,
    from: known.from,
    index: join(known.index, added.index),
    first: join(known.first, added.first),
    last: join(known.last, added.last),
    count: join(known.count, added.count),
    mean: join(known.mean, added.mean),
    note: join(known.note, added.note),
    ts: join(known.ts, added.ts),
  };
}

/**
 * @param {Importance | undefined} known
 * @param {Importance} added
 * @returns {Importance}
 */
function mergedImportance(known, added) {
  if (!known) return added;
  /** @type {Importance["features"]} */
  const features = {};
  for (const [name, { value, low, high }] of Object.entries(added.features)) {
    const old = known.features[name];
    features[name] = { value: [...old.value, ...value], low: [...old.low, ...low], high: [...old.high, ...high] };
  }
  return {
    ...added,
    row: [...known.row, ...added.row],
    seq: [...known.seq, ...added.seq],
    lag: [...known.lag, ...added.lag],
    coverage: [...known.coverage, ...added.coverage],
    others: [...known.others, ...added.others],
    features,
  };
}

/** One view, followed: calls `onData` with all that is known, and `onLink` when the connection comes or goes. */
export class Feed {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {string | null} */
  #query = null;
  /** @type {Known | null} */
  #known = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {(known: Known) => void} onData
   * @param {(up: boolean) => void} onLink
   */
  constructor(onData, onLink) {
    this.onData = onData;
    this.onLink = onLink;
  }

  /**
   * Follow a view; what was known stays on the page until the first answer.
   * @param {string} query
   */
  follow(query) {
    if (query === this.#query) return;
    this.#query = query;
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = new EventSource(`events?${this.#query}`);
    this.#source = source;
    source.onmessage = (event) => {
      /** @type {Message} */
      const message = JSON.parse(event.data);
      this.#known = merged(this.#known, message);
      this.onLink(true);
      this.onData(this.#known);
    };
    source.onerror = () => {
      source.close();
      this.onLink(false);
      this.#timer = setTimeout(() => this.#again(), RETRY_MS);
    };
  }

  /** A server that is back may ask for the token anew. */
  async #again() {
    try {
      const answer = await fetch("./", { cache: "no-store" });
      if (answer.status === 401) return location.reload();
    } catch {
      this.#timer = setTimeout(() => this.#again(), RETRY_MS);
      return;
    }
    this.#open();
  }
}
