// Elements by tag and selector.

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
