// A few numbers with their names.

/** Fill a list of tiles: [name, value, remark, class]. */
export function tiles(id, entries) {
  document.getElementById(id).replaceChildren(...entries.map(([name, value, remark, kind]) => {
    const tile = document.createElement("div");
    const term = document.createElement("dt");
    const definition = document.createElement("dd");
    term.textContent = name;
    definition.textContent = value;
    if (kind) definition.className = kind;
    if (remark) {
      const small = document.createElement("small");
      small.textContent = ` ${remark}`;
      definition.append(small);
    }
    tile.append(term, definition);
    return tile;
  }));
}
