"""Table of the effect of each feature on the prediction."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from glasstream.runner.tables import number
from glasstream_topics.effects import Effect

_COLUMNS = ("feature", "output", "importance", "lowest", "at", "highest", "at")


def effects_table(stream: str, effects: Iterable[Effect]) -> Table:
    """Build a table of curves, most important first, with the lowest and highest values and their positions."""
    ordered = sorted(effects, key=lambda effect: (-effect.importance, effect.feature, effect.output or ""))
    newest = max((effect.row for effect in ordered), default=0)
    table = Table(title=Text(f"{stream}: effects after row {newest:,} (ipdp)"), title_justify="left")
    for place, name in enumerate(_COLUMNS):
        table.add_column(name, overflow="fold", justify="left" if place < 2 else "right")
    for effect in ordered:
        ends = (min, max)
        places = [end(range(len(effect.curve)), key=effect.curve.__getitem__) for end in ends]
        cells = [effect.feature, effect.output or "–", number(effect.importance)]
        for place in places:
            at = effect.grid[place]
            cells += [number(effect.curve[place]), f"{at:.6g}" if isinstance(at, float) else str(at)]
        table.add_row(*(Text(cell) for cell in cells))
    return table
