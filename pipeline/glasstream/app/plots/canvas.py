"""What all plots share: the figure, the colours, and the choice of one stream's records."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from glasstream.base.errors import InputError
from glasstream.base.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glasstream.app.plots.drawing import Drawing

Record = Mapping[str, Any]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours of Okabe and Ito, which people with any colour vision can tell apart. Yellow is omitted: it is hard to see on
white.
"""
STYLES = ("-", "--", ":")
"""Line styles for further lines, when all colours are used."""
PALE = "#B8B8B8"
_LONGEST = 60
"""Largest number of characters of a name in a plot."""


def drawing(width: float, height: float) -> "Drawing":
    """Return an empty figure; width and height are in inches.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    try:
        from glasstream.app.plots.drawing import Drawing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InputError("plots: matplotlib is not installed; pip install 'glasstream[plot]'") from error
    return Drawing(width, height)


def named(name: str, longest: int = _LONGEST) -> str:
    """Return the name of a stream, a feature, a class or a category as a plot shows it: on one line, and not too long.

    >>> named("two\\nlines"), named("x" * 100)[-3:]
    ('two�lines', 'xx…')
    """
    shown = printable(name.replace("\n", "\r").replace("\t", " "))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def of_one_stream(records: Iterable[Record], stream: str | None, what: str) -> list[Record]:
    """Return the records of one stream in the order of their rows; without a name, those of the only stream.

    Raises
    ------
    InputError
        The stream has no records, or there are several streams and no name.
    """
    found = [record for record in records if stream is None or record.get("stream") == stream]
    streams = sorted({str(record.get("stream", "")) for record in found})
    if not found:
        raise InputError(f"plots: expected {what} records{f' of stream {stream!r}' if stream else ''}, got none")
    if len(streams) > 1:
        raise InputError(f"plots: expected records of one stream, got {', '.join(streams)}; choose one by its name")
    return sorted(found, key=lambda record: record["row"])


def plain(axes: "Axes") -> None:
    """Remove the frame and draw a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)


def short_numbers(axes: "Axes") -> None:
    """Label the axis with at most five short numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(value: float) -> str:
    """Format a number with few characters.

    >>> short(0.25), short(9_500), short(20_000), short(-1.5e6), short(1e12)
    ('0.25', '9500', '20k', '-1.5M', '1e+12')
    """
    for unit, name in ((1e6, "M"), (1e4, "k")):
        if unit <= abs(value) < 1e10:
            return f"{value / (1e3 if name == 'k' else unit):.4g}{name}"
    return f"{value:.4g}"


def apart(wanted: list[float], gap: float) -> list[float]:
    """Return positions as near as possible to the wanted ones, in the same order and at least `gap` apart.

    >>> apart([1.0, 1.0, 5.0], 2.0)
    [0.0, 2.0, 5.0]
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    groups: list[list[float]] = []  # [sum of the wanted positions less the offsets in the group, members]
    for place in order:
        groups.append([wanted[place], 1.0])
        while len(groups) > 1 and _start(groups[-1], gap) < _start(groups[-2], gap) + gap * groups[-2][1]:
            total, members = groups.pop()
            groups[-1] = [groups[-1][0] + total - gap * groups[-1][1] * members, groups[-1][1] + members]
    places = [_start(group, gap) + gap * k for group in groups for k in range(int(group[1]))]
    return [place for _, place in sorted(zip(order, places, strict=True))]


def _start(group: list[float], gap: float) -> float:
    total, members = group
    return total / members
