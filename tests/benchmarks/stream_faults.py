"""A library of faults: what goes wrong with the columns, labels and rows of real streams, slightly or grossly.

A fault changes the rows of a stream from one row on, in a way that a seed decides, and states what may be said about
it. `graded` compares that with the record of an incident:

right
    The verdict is one of the fault, and where the fault has features, one of them is named, with what happened to it.
    A number that the record states is true.
partly
    Nothing is false, but the verdict or the feature is vague.
wrong
    The record states something false: another cause, a feature that is as before, a wrong factor, or that labels at
    equal values are as before, within 0.3 standard deviations, although they are not.
missed
    No incident began after the change.

Rules and settings of incidents are chosen by looking at `DESIGN_SETS` and at the kinds in `DESIGN_KINDS`, a third of
each. The others are for figures only.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from glasstream_topics.incidents import Affected, Incident

DESIGN_SETS: Final = ("adult", "elec2", "bike_hourly", "weather_noaa")
HELD_OUT_SETS: Final = (
    "bank_marketing", "higgs_10k", "qm9_10k", "poker_hand_25k", "cpu_small", "california_housing", "powersupply",
    "air_quality",
)  # fmt: skip
CODES: Final = {"bike_hourly": "weathersit", "elec2": "day", "poker_hand_25k": "S1"}
"""Columns that are read as texts, because their numbers are codes."""
DESIGN_KINDS: Final = (
    "unit x60", "unit affine", "offset", "frozen", "missing share", "sentinel share", "new category", "copied",
    "lagged", "garbage share", "label noise", "labels flipped", "drawn anew",
)  # fmt: skip

_MATTERS: Final = 0.3  # spreads, or standard deviations of labels
_SENTINEL: Final = -999.0
_OF_THE_DATA: Final = ("feature_broken", "feature_alive", "data_moved")
_FALSE_OF_LABELS: Final = ("feature_broken", "feature_alive", "model_replaced", "reasoning_moved")

X = dict[str, Any]
Row = tuple[X, str]
Rule = Callable[[int, X, str], Row]


class Scene(NamedTuple):
    """A stream that is to break, and the columns that break."""

    before: list[Row]
    after: list[Row]
    pool: list[Row]
    """Further rows of the stream; none in its own order."""
    regression: bool
    number: str
    """The number that says most about the label."""
    other: str
    """The number after that."""
    category: str | None
    """A text with three or more values, if there is one."""
    draws: np.random.Generator

    def of(self, name: str, rows: Sequence[Row] | None = None) -> np.ndarray:
        """Return the values of a number, NaN where one is missing."""
        return np.array([x.get(name, np.nan) for x, _ in (self.before if rows is None else rows)], float)

    @property
    def spread(self) -> float:
        """Standard deviation of the number."""
        return float(np.nanstd(self.of(self.number))) or 1.0

    def quantile(self, share: float) -> float:
        return float(np.nanquantile(self.of(self.number), share))

    @property
    def classes(self) -> list[str]:
        return sorted({y for _, y in self.before})

    @property
    def categories(self) -> list[str]:
        """Values of the category, most frequent first."""
        counts = Counter(x.get(self.category) for x, _ in self.before)
        return [str(value) for value, _ in sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))]

    def each(self, rule: Rule) -> list[Row]:
        return [rule(i, dict(x), y) for i, (x, y) in enumerate(self.after)]

    def to_number(self, rule: Callable[[int, float], float | None]) -> list[Row]:
        """Change each value of the number that is not missing. None drops it."""

        def change(i: int, x: X, y: str) -> Row:
            if self.number not in x:
                return x, y
            value = rule(i, x[self.number])
            return {key: one for key, one in {**x, self.number: value}.items() if one is not None}, y

        return self.each(change)

    def to_share(self, share: float, rule: Callable[[int, float], float | None]) -> list[Row]:
        """Change the number in a share of the rows."""
        hit = self.draws.random(len(self.after)) < share
        return self.to_number(lambda i, value: rule(i, value) if hit[i] else value)

    def to_category(self, rule: Callable[[int, str], str | None]) -> list[Row]:
        name = self.category
        assert name is not None

        def change(i: int, x: X, y: str) -> Row:
            value = rule(i, x[name]) if name in x else None
            return {key: one for key, one in {**x, name: value}.items() if one is not None}, y

        return self.each(change)

    def to_label(self, rule: Callable[[int, X, str], str]) -> list[Row]:
        return self.each(lambda i, x, y: (x, rule(i, x, y)))


class Fault(NamedTuple):
    """One kind of fault with one severity."""

    kind: str
    severity: str
    breaks: Callable[[Scene], list[Row]]
    verdicts: tuple[str, ...]
    """Right verdicts."""
    of: str = "number"
    """What breaks: "number", "both" (two numbers), "category", "label" or "rows"."""
    faults: tuple[str, ...] = ("shifted",)
    """Right words for what happened to the feature."""
    factor: float | None = None
    holds: bool = False
    """Whether the labels follow the same rule of the inputs as before."""


def _lagged(rows: int) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        values = [x.get(scene.number) for x, _ in scene.before + scene.after]
        return scene.to_number(lambda i, _: values[len(scene.before) + i - rows])

    return change


def _copied(scene: Scene) -> list[Row]:
    return scene.each(lambda i, x, y: ({**x, scene.number: x.get(scene.other, 0.0)}, y))


def _swapped(scene: Scene) -> list[Row]:
    a, b = scene.number, scene.other
    return scene.each(lambda i, x, y: ({**x, a: x.get(b, 0.0), b: x.get(a, 0.0)}, y))


def _leaked(scene: Scene) -> list[Row]:
    codes = {y: float(code) for code, y in enumerate(scene.classes)}
    value = float if scene.regression else lambda y: codes.get(y, 0.0)
    return scene.each(lambda i, x, y: ({**x, scene.number: value(y)}, y))


def _permuted(scene: Scene) -> list[Row]:
    values = [x.get(scene.number) for x, _ in scene.after]
    order = scene.draws.permutation(len(values))
    return scene.to_number(lambda i, _: values[order[i]])


def _garbage(share: float) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        noise = scene.draws.uniform(-100.0, 100.0, len(scene.after)) * scene.spread
        return scene.to_share(share, lambda i, _: float(noise[i]))

    return change


def _noisy(size: float) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        noise = scene.draws.normal(size=len(scene.after)) * size * scene.spread
        return scene.to_number(lambda i, value: value + float(noise[i]))

    return change


def _rounded(levels: int) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        low, high = scene.quantile(0.05), scene.quantile(0.95)
        step = (high - low) / levels or 1.0
        return scene.to_number(lambda i, value: low + step * round((value - low) / step))

    return change


def _segment(factor: float) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        middle = float(np.nanmedian(scene.of(scene.other)))

        def one(i: int, x: X, y: str) -> Row:
            if x.get(scene.other, 0.0) > middle and scene.number in x:
                x[scene.number] *= factor
            return x, y

        return scene.each(one)

    return change


def _labels_noisy(share: float) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        hit = scene.draws.random(len(scene.after)) < share
        drawn = [scene.before[place][1] for place in scene.draws.integers(len(scene.before), size=len(scene.after))]
        return scene.to_label(lambda i, x, y: drawn[i] if hit[i] else y)

    return change


def _labels_flipped(share: float) -> Callable[[Scene], list[Row]]:
    """Change the labels of the rows with the largest values of the number."""

    def change(scene: Scene) -> list[Row]:
        least = scene.quantile(1.0 - share)
        mean = float(np.mean([float(y) for _, y in scene.before])) if scene.regression else 0.0
        classes = scene.classes

        def flip(i: int, x: X, y: str) -> str:
            if x.get(scene.number, -np.inf) < least or (not scene.regression and y not in classes):
                return y
            return str(2.0 * mean - float(y)) if scene.regression else classes[(classes.index(y) + 1) % len(classes)]

        return scene.to_label(flip)

    return change


def _labels_lagged(rows: int) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        labels = [y for _, y in scene.before + scene.after]
        return scene.to_label(lambda i, x, y: labels[len(scene.before) + i - rows])

    return change


def _label_moved(size: float) -> Callable[[Scene], list[Row]]:
    """Add a part of their spread to the labels, or give a share of one class to the next."""

    def change(scene: Scene) -> list[Row]:
        if scene.regression:
            step = size * float(np.std([float(y) for _, y in scene.before]))
            return scene.to_label(lambda i, x, y: str(float(y) + step))
        often, next_one = (value for value, _ in Counter(y for _, y in scene.before).most_common(2))
        hit = scene.draws.random(len(scene.after)) < size
        return scene.to_label(lambda i, x, y: next_one if hit[i] and y == often else y)

    return change


def _drawn(of_label: bool, share: float) -> Callable[[Scene], list[Row]]:
    """Take more of the rows with large values of the number, or of the rows with the rarer labels."""

    def change(scene: Scene) -> list[Row]:
        rows = scene.pool or scene.after
        often = Counter(y for _, y in scene.before).most_common(1)[0][0]
        mean = float(np.mean([float(y) for _, y in scene.before])) if scene.regression else 0.0
        middle = scene.quantile(0.5)

        def belongs(row: Row) -> bool:
            if not of_label:
                return bool(row[0].get(scene.number, middle) > middle)
            return float(row[1]) > mean if scene.regression else row[1] != often

        parts = [[row for row in rows if belongs(row) is wanted] or rows for wanted in (True, False)]
        chosen = [parts[0] if scene.draws.random() < share else parts[1] for _ in scene.after]
        return [part[scene.draws.integers(len(part))] for part in chosen]

    return change


def _replayed(rows: int) -> Callable[[Scene], list[Row]]:
    return lambda scene: (scene.before[-rows:] * (1 + len(scene.after) // rows))[: len(scene.after)]


def _merged(scene: Scene) -> list[Row]:
    first, second, *_ = scene.categories
    return scene.to_category(lambda i, value: first if value == second else value)


def _category_share(share: float, new: str | None) -> Callable[[Scene], list[Row]]:
    def change(scene: Scene) -> list[Row]:
        hit = scene.draws.random(len(scene.after)) < share
        return scene.to_category(lambda i, value: new if hit[i] else value)

    return change


def _renamed(scene: Scene) -> list[Row]:
    first = scene.categories[0]
    return scene.to_category(lambda i, value: f"{first}_v2" if value == first else value)


def _gone(scene: Scene) -> list[Row]:
    first = scene.categories[0]
    rest = [row for row in scene.pool or scene.after if row[0].get(scene.category) != first] or scene.after
    return [rest[place % len(rest)] for place in range(len(scene.after))]


_BROKEN, _MOVED, _CONCEPT, _LABELS = "feature_broken", "data_moved", "concept_moved", "labels_shifted"
_OF_INPUT = (_BROKEN, _MOVED)
_ANY = ("shifted", "apart", "noisy", "lagged", "copied", "garbage", "rounded", "clipped")


def _unit(kind: str, severity: str, factor: float) -> Fault:
    change = lambda scene: scene.to_number(lambda i, value: value * factor)  # noqa: E731
    return Fault(kind, severity, change, (_BROKEN,), faults=("scaled",), factor=factor)


def _shares(
    kind: str, value: float | None, faults: tuple[str, ...], shares: Sequence[tuple[str, float]]
) -> list[Fault]:
    def of(share: float) -> Callable[[Scene], list[Row]]:
        return lambda scene: scene.to_share(share, lambda i, _: value)

    return [Fault(kind, severity, of(share), _OF_INPUT, faults=faults) for severity, share in shares]


FAULTS: Final = (
    _unit("unit x1.2", "slight", 1.2),
    _unit("unit x60", "gross", 60.0),
    _unit("unit /60", "gross", 1.0 / 60.0),
    _unit("unit x1000", "gross", 1_000.0),
    _unit("unit x2.54", "plain", 2.54),
    _unit("sign", "plain", -1.0),
    Fault(
        "unit affine", "plain", lambda s: s.to_number(lambda i, v: 1.8 * v + 32.0 * s.spread / 10.0), _OF_INPUT,
        faults=("scaled", "shifted"), factor=1.8,
    ),
    Fault(
        "offset", "slight", lambda s: s.to_number(lambda i, v: v + 0.3 * s.spread), _OF_INPUT,
        faults=("shifted", "offset"),
    ),
    Fault(
        "offset", "gross", lambda s: s.to_number(lambda i, v: v + 2.0 * s.spread), _OF_INPUT,
        faults=("shifted", "offset"),
    ),
    Fault(
        "creeping", "plain", lambda s: s.to_number(lambda i, v: v + 2.0 * s.spread * min(1.0, i / 2_000)), _OF_INPUT,
        faults=("shifted", "offset"),
    ),
    Fault("frozen", "plain", lambda s: s.to_number(lambda i, v: s.after[0][0].get(s.number, v)), (_BROKEN,),
          faults=("constant",)),
    Fault("zero", "gross", lambda s: s.to_number(lambda i, v: 0.0), (_BROKEN,), faults=("constant",)),
    *_shares("missing share", None, ("missing", "shifted"), [("slight", 0.05), ("plain", 0.3), ("gross", 1.0)]),
    *_shares("sentinel share", _SENTINEL, ("sentinel", "shifted"), [("slight", 0.05), ("plain", 0.3)]),
    *_shares("zeros", 0.0, ("sentinel", "shifted"), [("plain", 0.2)]),
    Fault("garbage share", "slight", _garbage(0.05), _OF_INPUT, faults=_ANY),
    Fault("garbage share", "plain", _garbage(0.2), _OF_INPUT, faults=_ANY),
    Fault("copied", "plain", _copied, _OF_INPUT, faults=_ANY),
    Fault("swapped", "plain", _swapped, (_BROKEN,), of="both", faults=("swapped",)),
    Fault("lagged", "slight", _lagged(1), _OF_INPUT, faults=_ANY),
    Fault("lagged", "plain", _lagged(10), _OF_INPUT, faults=_ANY),
    Fault("leaked", "gross", _leaked, _OF_INPUT, faults=_ANY),
    Fault("permuted", "plain", _permuted, _OF_INPUT, faults=_ANY),
    Fault("noisy", "slight", _noisy(0.3), _OF_INPUT, faults=_ANY),
    Fault("noisy", "plain", _noisy(1.0), _OF_INPUT, faults=_ANY),
    Fault("rounded", "plain", _rounded(4), _OF_INPUT, faults=_ANY),
    Fault("clipped", "plain", lambda s: s.to_number(lambda i, v: min(v, s.quantile(0.7))), _OF_INPUT, faults=_ANY),
    Fault("segment", "plain", _segment(10.0), _OF_INPUT, faults=_ANY),
    Fault("new category", "plain", _category_share(0.15, "new"), (_MOVED,), "category", faults=("shifted", "new")),
    Fault("new category", "gross", _category_share(0.6, "new"), (_MOVED,), "category", faults=("shifted", "new")),
    Fault("category missing", "plain", _category_share(0.3, None), _OF_INPUT, "category",
          faults=("shifted", "missing")),
    Fault("category renamed", "plain", _renamed, _OF_INPUT, "category", faults=("shifted", "new")),
    Fault("categories merged", "plain", _merged, _OF_INPUT, "category"),
    Fault("category gone", "plain", _gone, (_MOVED,), "category", holds=True),
    Fault("drawn anew", "plain", _drawn(False, 0.85), (_MOVED,), holds=True),
    Fault("drawn anew", "slight", _drawn(False, 0.65), (_MOVED,), holds=True),
    Fault("replayed", "plain", _replayed(100), (_MOVED,), "rows", faults=_ANY, holds=True),
    Fault("label noise", "slight", _labels_noisy(0.2), (_CONCEPT,), "label"),
    Fault("label noise", "gross", _labels_noisy(0.6), (_CONCEPT,), "label"),
    Fault("labels flipped", "slight", _labels_flipped(0.2), (_CONCEPT,), "label"),
    Fault("labels flipped", "plain", _labels_flipped(0.5), (_CONCEPT,), "label"),
    Fault("labels flipped", "gross", _labels_flipped(1.0), (_CONCEPT,), "label"),
    Fault("label lagged", "plain", _labels_lagged(1), (_CONCEPT,), "label"),
    Fault("label moved", "plain", _label_moved(0.4), (_CONCEPT, _LABELS), "label"),
    Fault("label constant", "gross", lambda s: s.to_label(lambda i, x, y: s.before[-1][1]), (_CONCEPT, _LABELS),
          "label"),
    Fault("labels drawn anew", "plain", _drawn(True, 0.85), (_LABELS,), "label", holds=True),
)  # fmt: skip
"""All faults."""

KINDS: Final = tuple(dict.fromkeys(fault.kind for fault in FAULTS))


def broken(scene: Scene, fault: Fault) -> set[str]:
    """Return the features that the fault touches; nothing for faults of labels and rows."""
    match fault.of:
        case "number":
            return {scene.number}
        case "both":
            return {scene.number, scene.other}
        case "category":
            assert scene.category is not None
            return {scene.category}
        case _:
            return set()


def moved(scene: Scene, after: Sequence[Row], fault: Fault) -> float:
    """Return the share of rows in which a feature of the fault moved by 0.3 of its spread or more."""
    share = 0.0
    for name in broken(scene, fault):
        text = any(isinstance(x.get(name), str) for x, _ in scene.before)
        least = 0.0 if text else _MATTERS * (float(np.nanstd(scene.of(name))) or 1.0)
        hits = 0
        for (x, _), (now, _) in zip(scene.after, after, strict=True):
            old, new = x.get(name), now.get(name)
            same = old == new if text or old is None or new is None else abs(new - old) < least
            hits += not same
        share = max(share, hits / len(after))
    return share


def graded(record: Incident | None, fault: Fault, names: set[str], gap: float) -> str:
    """Return "right", "partly", "wrong" or "missed" for the last verdict on the first incident after a fault.

    Parameters
    ----------
    names
        The features that the fault touches.
    gap
        Largest difference of the labels at equal values of a feature, in standard deviations.
    """
    if record is None:
        return "missed"
    if record.verdict == "data_moved" and record.rule == "same" and gap >= _MATTERS and not fault.holds:
        return "wrong"
    if record.verdict in ("unclear", "segment_worse"):
        return "partly"
    if fault.of in ("label", "rows"):
        if record.verdict in fault.verdicts:
            return "right"
        return "wrong" if record.verdict in _FALSE_OF_LABELS else "partly"
    if record.verdict == "concept_moved" and len(record.features) == 1 and record.features[0].feature in names:
        return "partly"  # the sentence says that the rule of the labels changed or this feature is broken
    if record.verdict not in _OF_THE_DATA:
        partly = fault.holds and record.verdict == "labels_shifted"  # rows drawn anew have other labels, too
        return "partly" if partly else "wrong"
    told = {one.feature: one for one in record.features}
    broken_ones = [one for one in record.features if one.fault in ("scaled", "swapped", "constant", "missing")]
    if any(one.feature not in names for one in broken_ones):
        return "wrong"
    hits = [told[name] for name in names if name in told]
    if any(one.fault == "scaled" and not _factor_fits(one, fault) for one in hits):
        return "wrong"
    if any(one.fault in ("swapped", "constant") and one.fault not in fault.faults for one in hits):
        return "wrong"
    known = [one for one in hits if one.fault in fault.faults]
    return "right" if record.verdict in fault.verdicts and known else "partly"


def _factor_fits(told: Affected, fault: Fault) -> bool:
    """Return whether the interval of a factor holds the true one."""
    if told.factor_low is None or told.factor_high is None or fault.factor is None:
        return False
    return told.factor_low <= fault.factor <= told.factor_high
