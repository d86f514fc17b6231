"""Tables at the end of a run: importance of each feature with its largest change, and effects on the prediction."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from glasstream_topics.effects import Effect
from glasstream_topics.groups import Groups
from glasstream_topics.importance import Importance
from glasstream_topics.methods import measured_in

History = list[tuple[int, dict[str, float]]]
"""Pairs (row, value of each feature) of records, in order."""

_CHANGE_WINDOWS = 5
"""Number of parts of the run between which the largest change is determined."""
_COLUMNS = ("rank", "feature", "importance", "±", "largest change", "between rows")
_FOLDED = ("feature", "between rows")
"""Columns that may wrap on a narrow terminal; numbers stay whole."""
_NARROWEST = 12
"""Smallest width of a feature's name in characters, on any terminal."""
_LONGEST = 30
"""Largest number of rows of a table. The topics have all features."""
_EFFECT_COLUMNS = ("feature", "output", "importance", "lowest", "at", "highest", "at")


def importance_table(stream: str, newest: Importance, history: History) -> Table:
    """Build a table of the most important features by rank. Names and headings wrap where there is no room."""
    rows = []
    for feature, values in sorted(newest.features.items(), key=lambda item: item[1].rank):
        change = largest_change(feature, history)
        moved = change is not None and change[0] != 0.0
        rows.append(
            (
                str(values.rank),
                feature,
                number(values.value),
                "–" if values.low is None or values.high is None else number((values.high - values.low) / 2),
                number(change[0]) if change and moved else "–",
                f"{change[1]:,} → {change[2]:,}" if change and moved else "–",
            )
        )
    measure = measured_in(newest.method, newest.loss)
    title = f"{stream}: importance after row {newest.row:,} ({newest.method}, {measure}, α = {newest.alpha:g}, "
    table = Table(title=Text(f"{title}{newest.sampling})"), title_justify="left")
    for place, name in enumerate(_COLUMNS):
        narrowest = max((len(row[place]) for row in rows[:_LONGEST]), default=0)
        if name in _FOLDED:
            narrowest = min(narrowest, _NARROWEST)
        table.add_column(name, overflow="fold", min_width=narrowest, justify="left" if name == "feature" else "right")
    _fill(table, rows, "features")
    return table


def effects_table(stream: str, effects: Iterable[Effect]) -> Table:
    """Build a table of curves, most important first, with the lowest and highest values and their positions."""
    ordered = sorted(effects, key=lambda effect: (-effect.importance, effect.feature, effect.output or ""))
    newest = max((effect.row for effect in ordered), default=0)
    table = Table(title=Text(f"{stream}: effects after row {newest:,} (ipdp)"), title_justify="left")
    for place, name in enumerate(_EFFECT_COLUMNS):
        table.add_column(name, overflow="fold", justify="left" if place < 2 else "right")
    rows = []
    for effect in ordered:
        ends = (min, max)
        places = [end(range(len(effect.curve)), key=effect.curve.__getitem__) for end in ends]
        cells = [effect.feature, effect.output or "–", number(effect.importance)]
        for place in places:
            at = effect.grid[place]
            cells += [number(effect.curve[place]), f"{at:.6g}" if isinstance(at, float) else str(at)]
        rows.append(cells)
    _fill(table, rows, "curves")
    return table


def groups_table(stream: str, newest: Groups) -> Table:
    """Build a table of all rows of each group of an attribute."""
    title = f"{stream}: groups by {newest.attribute}, {newest.total.rows:,} rows ({newest.level:.0%} intervals)"
    table = Table(title=Text(title), title_justify="left")
    measure = "accuracy" if newest.classes else "mean absolute error"
    for place, name in enumerate((newest.attribute, "rows", measure, "interval", f"{newest.loss} loss")):
        table.add_column(Text(name), overflow="fold", justify="left" if place == 0 else "right")
    rows = []
    for group in newest.total.groups:
        mean = group.accuracy or group.error or group.loss
        value, low, high, loss = (
            "–" if one is None else number(one) for one in (mean.value, mean.low, mean.high, group.loss.value)
        )
        label = f"({group.kind})" if group.value is None else group.value
        interval = "–" if mean.low is None else f"{low} to {high}"
        rows.append((label, f"{group.loss.of:,}", value, interval, loss))
    _fill(table, rows, "groups")
    return table


def _fill(table: Table, rows: Sequence[Sequence[str]], things: str) -> None:
    """Add the first rows, and a line below the table that counts the others."""
    for row in rows[:_LONGEST]:
        table.add_row(*(Text(cell) for cell in row))
    if len(rows) > _LONGEST:
        table.caption = f"and {len(rows) - _LONGEST:,} less important {things} (the topic has them, too)"
        table.caption_justify = "left"


def number(value: float, decimals: int = 4) -> str:
    """Format a number with so many decimals, or with an exponent if that would give many digits.

    >>> number(-0.00001), number(0.25), number(-1234567.0)
    ('0.0000', '0.2500', '-1.235e+06')
    """
    return f"{value:z.{decimals}f}" if abs(value) < 100_000 else f"{value:.3e}"


def largest_change(feature: str, history: History) -> tuple[float, int, int] | None:
    """Return the largest change of a feature's importance over a fifth of the run, as (change, from row, to row)."""
    span = max(1, len(history) // _CHANGE_WINDOWS)
    best: tuple[float, int, int] | None = None
    for (row, before), (later, after) in zip(history, history[span:], strict=False):
        change = after.get(feature, 0.0) - before.get(feature, 0.0)
        if best is None or abs(change) > abs(best[0]):
            best = (change, row, later)
    return best
