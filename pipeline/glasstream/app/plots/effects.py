"""Plot effect curves, the curves of single rows behind them, and their change over time."""

from collections.abc import Iterable, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

from glasstream.app.plots.canvas import PALE, Record, drawing, named, of_one_stream, plain, short_numbers
from glasstream.base.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glasstream.app.plots.drawing import Drawing

_WIDE = 3
"""Number of panels in a row."""
_NOW = "#D55E00"
_LONGEST_CATEGORY = 25
"""Largest number of characters of a category below its column."""
_MOST_NAMED = 7
"""Number of moments in the legend. With more curves, it shows the first and the last moment only."""


def plot_effects(
    records: Iterable[Record],
    *,
    stream: str | None = None,
    features: Sequence[str] | None = None,
    output: str | None = None,
    top: int = 6,
    moments: int = 5,
) -> "Drawing":
    """Plot a panel for each feature: the newest curve, earlier ones, and the newest rows' own curves (ICE).

    All panels share one scale, so that effects can be compared.

    Parameters
    ----------
    records
        Records as on the topic `effects`, or as `IncrementalPDP.effects` returns them.
    stream
        Name of the stream; None selects the only one.
    features
        Features to plot, in this order; None selects the `top` most important ones.
    output
        Name of the class; None selects the first by name.
    moments
        Largest number of curves for each feature, from its first to its newest.

    Raises
    ------
    InputError
        There is nothing to plot, or there are several streams, or matplotlib is not installed.
    """
    chosen = of_one_stream(records, stream, "effects")
    outputs = sorted({record["output"] for record in chosen if record["output"] is not None})
    if output is None and outputs:
        output = outputs[0]
    chosen = [record for record in chosen if record["output"] == output]
    of: dict[str, list[Record]] = {}
    for record in chosen:
        of.setdefault(record["feature"], []).append(record)
    names = list(features or sorted(of, key=lambda name: (-of[name][-1]["importance"], name))[:top])
    missing = [name for name in names if name not in of]
    if missing or not names:
        raise InputError(
            f"plots: expected effects of {', '.join(missing) or 'some feature'} on {output or 'the value'}, "
            f"got those of {', '.join(sorted(of)) or 'none'}"
        )
    wide = min(_WIDE, len(names))
    deep = -(-len(names) // wide)
    figure = drawing(0.6 + 3.5 * wide, 1.2 + 2.8 * deep)
    panels = figure.subplots(deep, wide, sharey=True, squeeze=False)
    shown = {name: _moments(of[name], moments) for name in names}
    rows = sorted({record["row"] for kept in shown.values() for record in kept})
    for axes, name in zip(panels.flat, names, strict=False):
        _draw(axes, name, shown[name], rows[0], rows[-1])
    for axes in panels.flat[len(names) :]:
        axes.set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel(f"probability of {named(output)}" if output is not None else "prediction")
    several = output is not None and len(outputs) > 1
    one_of = f", class {named(output or '')} of {named(', '.join(outputs))}" if several else ""
    about = f", stream {named(chosen[0]['stream'])}" if "stream" in chosen[0] else ""
    figure.suptitle(f"Effects{about}{one_of}", x=0.01, ha="left")
    _explain_colours(figure, rows, ice=any(record["ice"] for record in chosen))
    return figure


def _moments(records: list[Record], most: int) -> list[Record]:
    """Return at most this many records, evenly spaced, the newest last."""
    if len(records) <= most:
        return records
    if most == 1:
        return records[-1:]
    return [records[round(k * (len(records) - 1) / (most - 1))] for k in range(most)]


def _shade(row: int, first: int, last: int) -> Any:
    """Return the colour of an earlier curve: later curves are darker."""
    from matplotlib import colormaps

    return colormaps["Blues"](0.3 + 0.6 * (row - first) / max(1, last - first))


def _draw(axes: "Axes", name: str, records: list[Record], first: int, last: int) -> None:
    plain(axes)
    newest = records[-1]
    axes.set_title(f"{named(name)}   (importance {newest['importance']:.3g})", loc="left", fontsize=10)
    if newest["kind"] == "categorical":
        _draw_categories(axes, records, first, last)
        return
    for one in newest["ice"] or ():
        axes.plot(one["grid"], one["curve"], color=PALE, linewidth=0.7)
    for record in records[:-1]:
        axes.plot(record["grid"], record["curve"], color=_shade(record["row"], first, last), linewidth=1.3)
    low, high = _ends(newest)
    axes.fill_between(newest["grid"], low, high, color=_NOW, alpha=0.13, linewidth=0)
    axes.plot(newest["grid"], newest["curve"], color=_NOW, linewidth=2.4, marker="o", markersize=3)
    short_numbers(axes)


def _ends(record: Record) -> tuple[list[float], list[float]]:
    """Return the ends of the intervals at the points; NaN where there is none."""
    margins = [nan if margin is None else margin for margin in record["margin"]]
    low = [value - margin for value, margin in zip(record["curve"], margins, strict=True)]
    return low, [value + margin for value, margin in zip(record["curve"], margins, strict=True)]


def _draw_categories(axes: "Axes", records: list[Record], first: int, last: int) -> None:
    """Draw a column for each category; time runs from left to right within it."""
    names = sorted({str(point) for record in records for point in record["grid"]})
    place = {name: k for k, name in enumerate(names)}
    for one in records[-1]["ice"] or ():
        known = [place[str(point)] for point in one["grid"] if str(point) in place]
        values = [value for point, value in zip(one["grid"], one["curve"], strict=True) if str(point) in place]
        axes.plot([k + 0.28 for k in known], values, "_", color=PALE, markersize=9)
    for k, record in enumerate(records):
        newest = k == len(records) - 1
        shift = 0.28 - 0.5 * (len(records) - 1 - k) / max(1, len(records) - 1)
        at = [place[str(point)] + shift for point in record["grid"]]
        if newest:
            axes.vlines(at, *_ends(record), color=_NOW, alpha=0.4, linewidth=2)
        axes.plot(
            at,
            record["curve"],
            "o",
            color=_NOW if newest else _shade(record["row"], first, last),
            markersize=7 if newest else 5,
        )
    shown = [named(name, _LONGEST_CATEGORY) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=0 if sum(map(len, shown)) < 30 else 60)
    axes.set_xlim(-0.6, len(names) - 0.4)
    if len(records) > 1:
        axes.set_xlabel("in each: earlier to newest", fontsize=8, color="#707070")


def _explain_colours(figure: "Drawing", rows: list[int], *, ice: bool) -> None:
    from matplotlib.lines import Line2D

    earlier = rows[:-1] if len(rows) <= _MOST_NAMED else [rows[0], rows[-2]]
    lines = [Line2D([], [], color=_shade(row, rows[0], rows[-1]), label=f"row {row:,}") for row in earlier]
    lines.append(Line2D([], [], color=_NOW, linewidth=2.4, label=f"row {rows[-1]:,}, the newest"))
    if ice:
        lines.append(Line2D([], [], color=PALE, linewidth=0.9, label="single rows then (ICE)"))
    figure.legend(handles=lines, loc="outside lower left", ncols=4, frameon=False, fontsize=9)
