"""Show records and estimates in a notebook: small tables and plots in HTML, without scripts or other files."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any, Final

import msgspec

_ROWS: Final = 50
"""Largest number of rows of a table."""
_ENTRIES: Final = 8
"""Largest number of entries of a list that are shown."""
_CHARACTERS: Final = 200
_WIDTH, _HEIGHT = 120, 24


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Shown:
    """Struct that a notebook shows as tables: one of its fields, and one for each list or mapping of structs."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        fields = {name: value for name, value in _fields(self).items() if name != "schema_version"}
        inner = {name: entries for name, value in fields.items() if (entries := _entries(value))}
        plain = _flat({name: value for name, value in fields.items() if name not in inner})
        return table(type(self).__name__, (), plain.items()) + "".join(
            table(name, list(entries[0]), [list(one.values()) for one in entries]) for name, entries in inner.items()
        )


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in HTML. Further rows than the first 50 are counted only.

    Parameters
    ----------
    title
        Title above the table.
    head
        Heads of the columns; none for a table without them.
    rows
        Values: `Html` stays as it is, everything else is shown as text.

    >>> table("a & b", ["name", "value"], [["<x>", 0.25]]).count("&")
    3
    """
    every = list(rows)
    lines = [
        "".join(f"<td style='text-align:{_side(cell)}'>{_cell(cell)}</td>" for cell in row) for row in every[:_ROWS]
    ]
    if len(every) > _ROWS:
        lines.append(f"<td>… {len(every) - _ROWS:,} more</td>")
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    caption = f"<caption style='text-align:left;font-weight:bold'>{escape(title)}</caption>"
    return f"<table>{caption}{f'<thead><tr>{heads}</tr></thead>' if heads else ''}<tbody>{body}</tbody></table>"


def bar(value: float, largest: float) -> Html:
    """Return a bar as long as the size of a value relative to the largest size, paler for negative values."""
    share = min(1.0, abs(value) / largest) if largest > 0.0 and isfinite(value) else 0.0
    return Html(
        f"<svg width='{_WIDTH}' height='10'><rect width='{_WIDTH * share:.1f}' height='10' fill='#2f7fd1' "
        f"fill-opacity='{0.9 if value >= 0.0 else 0.35}'/></svg>"
    )


def curve(places: Sequence[Any], values: Sequence[float]) -> Html:
    """Return a small plot of values over places: a line over numbers, bars over categories."""
    if not values or not all(map(isfinite, values)):
        return Html("")
    low, high = min(values), max(values)
    heights = [(_HEIGHT - 4) * ((value - low) / (high - low) if high > low else 0.5) + 2 for value in values]
    if len(places) > 1 and all(isinstance(place, float | int) and not isinstance(place, bool) for place in places):
        first, last = float(min(places)), float(max(places))
        across = [_WIDTH * ((place - first) / (last - first) if last > first else 0.5) for place in places]
        points = " ".join(f"{x:.1f},{_HEIGHT - y:.1f}" for x, y in zip(across, heights, strict=True))
        drawn = f"<polyline points='{points}' fill='none' stroke='#2f7fd1' stroke-width='1.5'/>"
    else:
        step = _WIDTH / len(values)
        drawn = "".join(
            f"<rect x='{step * at + 1:.1f}' y='{_HEIGHT - y:.1f}' width='{max(1.0, step - 2):.1f}' height='{y:.1f}' "
            "fill='#2f7fd1'/>"
            for at, y in enumerate(heights)
        )
    return Html(f"<svg width='{_WIDTH}' height='{_HEIGHT}'>{drawn}</svg>")


def _entries(value: Any) -> list[dict[str, Any]]:
    """Return the fields of each struct of a list, or of a mapping with its key first; nothing for other values."""
    if isinstance(value, Mapping):
        entries = [({"": name}, entry) for name, entry in value.items()]
    else:
        entries = [({}, entry) for entry in value] if isinstance(value, list) else []
    if not all(isinstance(entry, msgspec.Struct) for _, entry in entries):
        return []
    return [key | _flat(_fields(entry)) for key, entry in entries]


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields, with those of inner structs under both names."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        inner = _flat(_fields(value)) if isinstance(value, msgspec.Struct) else None
        flat |= {name: value} if inner is None else {f"{name}.{part}": one for part, one in inner.items()}
    return flat


def _side(value: Any) -> str:
    return "right" if isinstance(value, float | int) and not isinstance(value, bool) else "left"


def _cell(value: Any) -> str:
    return str(value) if isinstance(value, Html) else escape(_text(value))


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, Mapping):
        return _joined([f"{name}: {_text(one)}" for name, one in value.items()])
    if isinstance(value, list | tuple):
        return _joined(list(map(_text, value)))
    text = str(value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"


def _joined(texts: list[str]) -> str:
    more = f", … {len(texts) - _ENTRIES} more" if len(texts) > _ENTRIES else ""
    return ", ".join(texts[:_ENTRIES]) + more
