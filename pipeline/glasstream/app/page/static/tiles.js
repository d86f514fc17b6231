// A few numbers with their names.
import { element } from "./element.js";

/**
 * Fill a list of tiles.
 * @param {string} id
 * @param {[name: string, value: string, remark?: string][]} entries
 */
export function tiles(id, entries) {
  element("dl", `#${id}`).replaceChildren(
    ...entries.map(([name, value, remark]) => {
      const tile = document.createElement("div");
      const term = document.createElement("dt");
      const definition = document.createElement("dd");
      term.textContent = name;
      definition.textContent = value;
      if (remark) {
        const small = document.createElement("small");
        small.textContent = ` ${remark}`;
        definition.append(small);
      }
      tile.append(term, definition);
      return tile;
    }),
  );
}
