// Elements: by tag and selector, with the focus, and cells of tables.

/**
 * Return the first element that matches; the page is broken without it.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [selector] what follows the tag, such as `#stream`
 * @param {ParentNode} [within]
 */
export function element(tag, selector = "", within = document) {
  const match = /** @type {HTMLElementTagNameMap[Tag] | null} */ (within.querySelector(tag + selector));
  if (!match) throw new Error(`expected an element ${tag}${selector}, found none`);
  return match;
}

/**
 * The `data-id` of what has the focus, if that is in a place.
 * @param {HTMLElement} place
 */
export function focusedIn(place) {
  const active = document.activeElement;
  return active instanceof HTMLElement && place.contains(active) ? active.dataset.id : undefined;
}

/**
 * A cell of a table.
 * @param {string} text
 */
export function cell(text, kind = "") {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = kind;
  return made;
}
