// The view is in the address, behind the #: whoever opens the link sees the same.

const DEFAULTS = { stream: "", method: "", mode: "lines", top: "8", effect: "", output: "", then: "", alarm: "", window: "", theme: "" };

/** The view that the address names. */
export function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  const view = { pin: query.getAll("pin") };
  for (const [key, value] of Object.entries(DEFAULTS)) view[key] = query.get(key) ?? value;
  if (!["lines", "stacked"].includes(view.mode)) view.mode = DEFAULTS.mode;
  if (!/^\d{1,2}$/.test(view.top) || Number(view.top) > 40) view.top = DEFAULTS.top;
  if (!/^\d*$/.test(view.window)) view.window = "";
  if (!["", "light", "dark"].includes(view.theme)) view.theme = "";
  return view;
}

/** Name the view in the address. */
export function write(view) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(DEFAULTS)) if (view[key] !== value) query.set(key, view[key]);
  for (const name of view.pin) query.append("pin", name);
  const hash = query.toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

/** What the server must know of the view. */
export function asked(view) {
  const query = new URLSearchParams({ top: view.top });
  for (const key of ["stream", "method", "effect", "output"]) if (view[key]) query.set(key, view[key]);
  for (const name of view.pin) query.append("pin", name);
  return query.toString();
}
