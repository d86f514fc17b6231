// The view is in the address, behind the #: whoever opens the link sees the same.

/**
 * What is looked at; an empty text leaves the choice to the page.
 * @typedef {object} View
 * @property {string[]} pin
 * @property {string} stream empty for all streams, or for the only one
 * @property {string} method
 * @property {string} mode `lines` or `stacked`
 * @property {string} top how many features lead the drawing
 * @property {string} effect feature whose curves are shown
 * @property {string} output
 * @property {string} then event number of the curve that is compared with the newest one
 * @property {string} alarm
 * @property {string} incident number of the one whose evidence is shown
 * @property {string} event number of the event whose prediction is explained
 * @property {string} predicted class of the explained events that are listed
 * @property {string} only `wrong` or `unfamiliar` for only such events among them
 * @property {string} find text in their ids or numbers
 * @property {string} window how many of the last events are shown
 * @property {string} axis `clock` for time axes with clock time in place of event numbers
 * @property {string} sort column of the table of all streams, after a `-` if it is reversed
 * @property {string} search text in the names of the streams that this table shows
 * @property {string} theme `light` or `dark`
 */

/** @type {Readonly<Omit<View, "pin">>} */
const DEFAULTS = {
  stream: "",
  method: "",
  mode: "lines",
  top: "8",
  effect: "",
  output: "",
  then: "",
  alarm: "",
  incident: "",
  event: "",
  predicted: "",
  only: "",
  find: "",
  window: "",
  axis: "",
  sort: "",
  search: "",
  theme: "",
};

const KEYS = /** @type {(keyof typeof DEFAULTS)[]} */ (Object.keys(DEFAULTS));

/**
 * The view that the part of an address behind the # names.
 * @param {string} hash
 */
export function read(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {View} */
  const view = { ...DEFAULTS, pin: query.getAll("pin") };
  for (const key of KEYS) view[key] = query.get(key) ?? DEFAULTS[key];
  if (!["lines", "stacked"].includes(view.mode)) view.mode = DEFAULTS.mode;
  if (!/^\d{1,2}$/.test(view.top) || Number(view.top) > 40) view.top = DEFAULTS.top;
  for (const key of /** @type {const} */ (["window", "incident", "event"])) {
    if (!/^\d{0,15}$/.test(view[key])) view[key] = "";
  }
  if (!["", "clock"].includes(view.axis)) view.axis = "";
  if (!["", "wrong", "unfamiliar"].includes(view.only)) view.only = "";
  if (!/^-?[a-z]*$/.test(view.sort)) view.sort = "";
  if (!["", "light", "dark"].includes(view.theme)) view.theme = "";
  return view;
}

/**
 * What names a view behind the #: no more than differs from the defaults.
 * @param {View} view
 */
export function written(view) {
  const query = new URLSearchParams();
  for (const key of KEYS) if (view[key] !== DEFAULTS[key]) query.set(key, view[key]);
  for (const name of view.pin) query.append("pin", name);
  return query.toString();
}

/**
 * The address of a stream, from a view of all: what is chosen of the table, and the colours, stay.
 * @param {View} view
 * @param {string} stream empty for all streams
 */
export function addressOf(view, stream) {
  const { theme, sort, search } = view;
  return `#${written({ ...DEFAULTS, pin: [], theme, sort, search, stream })}`;
}

/**
 * What the server must know of a view.
 * @param {View} view
 */
export function asked(view) {
  const query = new URLSearchParams({ top: view.top });
  for (const key of /** @type {const} */ (["stream", "method", "effect", "output", "event"])) {
    if (view[key]) query.set(key, view[key]);
  }
  for (const name of view.pin) query.append("pin", name);
  return query.toString();
}
