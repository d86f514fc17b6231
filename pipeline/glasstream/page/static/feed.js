// Server-sent events, put together to what is known of the stream that is looked at.

const RETRY_MS = 1000;

/** Put a message into what is known; the new whole. */
export function merged(known, message) {
  if (message.type === "state") return { alarms: [], ...message, effect: message.effect ?? null };
  const next = { ...known, ...message, type: "state" };
  next.quality.bins = bins(known.quality?.bins, message.quality.bins);
  if (message.novelty) next.novelty.bins = bins(known.novelty?.bins, message.novelty.bins);
  if (message.importance) next.importance = importance(known.importance, message.importance);
  next.alarms = [...known.alarms, ...(message.alarms ?? [])].slice(-200);
  if (message.effect && known.effect) {
    next.effect = { ...message.effect, curves: [...known.effect.curves, ...message.effect.curves] };
  }
  return next;
}

/** Bins from `from` on are new; those before stay if they are as wide. */
function bins(known, added) {
  if (!known || known.width !== added.width) return added;
  const kept = known.index.filter((index) => index < added.from).length;
  const joined = { width: added.width };
  for (const column of ["index", "first", "last", "count", "mean", "note"]) {
    joined[column] = [...known[column].slice(0, kept), ...added[column]];
  }
  return joined;
}

function importance(known, added) {
  const joined = { ...added };
  for (const column of ["row", "seq", "lag", "coverage", "others"]) joined[column] = [...known[column], ...added[column]];
  joined.features = {};
  for (const [name, columns] of Object.entries(added.features)) {
    joined.features[name] = {};
    for (const [column, values] of Object.entries(columns)) {
      joined.features[name][column] = [...known.features[name][column], ...values];
    }
  }
  return joined;
}

/** One view, followed: calls `onData` with all that is known, and `onLink` when the connection comes or goes. */
export class Feed {
  #source = null;
  #query = null;
  #known = null;
  #timer = null;

  constructor(onData, onLink) {
    this.onData = onData;
    this.onLink = onLink;
  }

  /** Follow a view; what was known stays on the page until the first answer. */
  follow(query) {
    if (query === this.#query) return;
    this.#query = query;
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = (this.#source = new EventSource(`events?${this.#query}`));
    source.onmessage = (event) => {
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
