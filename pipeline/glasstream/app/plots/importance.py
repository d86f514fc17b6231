"""Plot importance over time."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from glasstream.app.plots.canvas import COLOURS, PALE, STYLES, Record, apart, drawing, named, of_one_stream, plain
from glasstream_topics.incidents import UNLABELLED
from glasstream_topics.methods import METHODS, label_of, measured_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glasstream.app.plots.drawing import Drawing


def plot_importance(
    records: Iterable[Record],
    *,
    incidents: Iterable[Record] = (),
    stream: str | None = None,
    method: str | None = None,
    top: int = 7,
) -> "Drawing":
    """Plot each feature's importance over the stream, with a panel for each method.

    The band around a line is the interval in the record. Lines without a band have no interval. An incident is a grey
    area with its number: from its onset to its newest record.

    Parameters
    ----------
    records
        Records as on the topic `importance`.
    incidents
        Records as on the topic `incidents`. Those of other streams are left out, and so are incidents in events without
        labels, whose rows are numbers of events.
    stream
        Name of the stream; None selects the only one.
    method
        Name of the only method to plot; None plots all.
    top
        Number of features with a name, those with the largest importance at any time; the others are pale.

    Raises
    ------
    InputError
        There is nothing to plot, or there are several streams, or matplotlib is not installed.
    """
    chosen = of_one_stream(
        (record for record in records if method in (record["method"], None)), stream, f"{method or ''} importance"
    )
    methods = sorted({record["method"] for record in chosen}, key=lambda name: (name not in METHODS, name))
    figure = drawing(9.5, 0.6 + 3.4 * len(methods))
    panels = figure.subplots(len(methods), 1, sharex=True, squeeze=False)[:, 0]
    names = _largest(chosen, top)
    looks = {name: (COLOURS[k % len(COLOURS)], STYLES[k // len(COLOURS) % len(STYLES)]) for k, name in enumerate(names)}
    for axes, name in zip(panels, methods, strict=True):
        _draw(axes, [record for record in chosen if record["method"] == name], looks)
        axes.set_title(label_of(name), loc="left", fontsize=11, fontweight="bold")
    newest = {(one["epoch"], one["incident"]): one for one in incidents if one["stream"] == chosen[0]["stream"]}
    for one in newest.values():
        if one.get("rule") != UNLABELLED:
            _mark(panels, one)
    panels[-1].set_xlabel("row")
    figure.suptitle(f"Importance, stream {named(chosen[0]['stream'])}", x=0.01, ha="left")
    return figure


def _mark(panels: "Iterable[Axes]", incident: Record) -> None:
    """Mark the rows of an incident. Its number stands beside the onset, at one of three heights."""
    onset, number = incident["onset"]["row"], incident["incident"]
    place = onset, 1.0 - 0.05 * ((number - 1) % 3)
    for axes in panels:
        axes.axvspan(onset, incident["row"], color=PALE, alpha=0.3, linewidth=0)
        axes.axvline(onset, color="#505050", linewidth=1.0, linestyle="--")
        axes.annotate(f" {number}", place, xycoords=("data", "axes fraction"), va="top", color="#505050")


def _largest(records: list[Record], top: int) -> list[str]:
    """Return features by their largest value at any time, relative to the largest value of the method."""
    most: dict[str, dict[str, float]] = {}
    for record in records:
        of = most.setdefault(record["method"], {})
        for name, feature in record["features"].items():
            of[name] = max(of.get(name, 0.0), feature["value"])
    shares: dict[str, float] = {}
    for of in most.values():
        scale = max(of.values(), default=0.0) or 1.0
        for name, value in of.items():
            shares[name] = max(shares.get(name, 0.0), value / scale)
    return sorted(shares, key=lambda name: (-shares[name], name))[:top]


def _draw(axes: "Axes", records: list[Record], looks: dict[str, tuple[str, str]]) -> None:
    plain(axes)
    axes.axhline(0.0, color="black", linewidth=0.8)
    names = sorted({name for record in records for name in record["features"]}, key=lambda name: name in looks)
    ends: dict[str, float] = {}
    for name in names:
        rows = [record["row"] for record in records if name in record["features"]]
        features = [record["features"][name] for record in records if name in record["features"]]
        values = [feature["value"] for feature in features]
        colour, style = looks.get(name, (PALE, "-"))
        marker = "o" if len(rows) == 1 else None
        axes.plot(rows, values, style, color=colour, marker=marker, linewidth=1.6 if name in looks else 0.9)
        if name in looks:
            ends[name] = values[-1]
            low, high = ([feature[end] for feature in features] for end in ("low", "high"))
            if None not in low and None not in high:
                axes.fill_between(rows, low, high, color=colour, alpha=0.13, linewidth=0)
    measure = measured_in(records[-1]["method"], f"{records[-1]['loss'].replace('_', '-')} loss")
    axes.set_ylabel(f"importance ({measure})")
    axes.margins(x=0.0)
    axes.xaxis.set_major_formatter(lambda row, _: f"{row:,.0f}")
    _name_lines(axes, ends, looks, others=len(names) > len(ends))


def _name_lines(axes: "Axes", ends: dict[str, float], looks: dict[str, tuple[str, str]], *, others: bool) -> None:
    """Write the names next to the ends of their lines, without overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.075
    axes.set_ylim(low, high)
    for (name, end), place in zip(ends.items(), apart(list(ends.values()), gap), strict=True):
        axes.annotate(
            named(name),
            xy=(1.0, end),
            xycoords=("axes fraction", "data"),
            xytext=(1.03, place),
            textcoords=("axes fraction", "data"),
            color=looks[name][0],
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": looks[name][0], "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )
    if others:
        axes.annotate("others: grey", xy=(1.0, 1.02), xycoords="axes fraction", ha="right", color="#707070", fontsize=8)
