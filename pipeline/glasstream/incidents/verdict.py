"""The verdict on an incident: a decision table over what changed in the inputs, the labels, the loss and the reasoning.

`ops/docs/incidents.md` shows the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.incidents.betting import BINS
from glasstream.incidents.histogram import Histogram
from glasstream.incidents.series import Name
from glasstream_topics.incidents import Affected, Alternative, Evidence

MISSING = 0.1
"""Rise of the share of missing values from which on a feature counts as missing."""
CONSTANT, VARIED = 0.99, 0.95
"""Share of the most frequent value of a constant feature at least, and of one that is not constant at most."""
HALF = 0.5
"""Share of the former value of a constant feature that came alive, at most."""
SCALED, _FINE = 3.0, 8
"""Smallest factor of a feature that counts as scaled, and the fewest edges that show it."""
_SAME, _MOVED = 1.63, 2.2
"""Kolmogorov-Smirnov statistics, times the square root of the sample size: up to the first, two samples are equal in
99 of 100 cases; the second is exceeded in one of 10,000."""
_RISE, _RISE_OF_STRONG = 3.5, 2.0
"""Standard errors of a mean that has changed: if nothing else says so, and if its bets say so, too."""
_LIKE = 0.2
"""Share of the distance that a factor or another feature may leave unexplained, where a large sample shows any difference."""
_SURE = 5.0
_IN_A_BIN = 5
_LOST, _REDISTRIBUTED = 0.1, 0.25
"""Share of all importance that some features lose, and that is lost or gained, if the reasoning moved."""
_STRONG = 4.0
"""Logarithm to base 10 of the wealth of a series that takes part in an incident."""

BROKEN: Final = ("swapped", "scaled", "constant", "missing")


class Level(NamedTuple):
    """A level before and after."""

    before: float
    spread: float
    after: float
    rows: int

    @property
    def rise(self) -> float:
        """Rise in standard errors."""
        return (self.after - self.before) / (self.spread / np.sqrt(self.rows)) if self.spread > 0 else 0.0


@dataclass(frozen=True)
class Sample:
    """What an incident is judged by."""

    names: Sequence[str]
    kinds: Sequence[int]
    inputs: Sequence[Histogram]
    values: NDArray[np.float64]
    """(w, d) inputs since the alarm."""
    label: Histogram
    targets: NDArray[np.float64]
    loss: Level
    strengths: Mapping[Name, float]
    """log10 of the wealth of each series, by side and slot."""
    starts: Mapping[Name, int]
    importance: Sequence[Level]


@dataclass(frozen=True)
class Judgement:
    verdict: str
    weight: float
    alternatives: list[Alternative]
    features: list[Affected]
    evidence: list[Evidence]

    @property
    def worse(self) -> bool:
        """Whether the loss rose."""
        return any(one.side == "loss" for one in self.evidence)


def judge(sample: Sample, *, worse: bool = False) -> Judgement | None:
    """Return the verdict, or None if the rows since the alarm show no change.

    Parameters
    ----------
    worse
        Whether an earlier verdict on this incident saw that the loss rose. The model may have recovered since.
    """
    d = len(sample.names)
    known = [one.total > 30 and len(one.edges) > 0 for one in sample.inputs]
    distance = np.array([one.distance(sample.values[:, j]) if known[j] else 0.0 for j, one in enumerate(sample.inputs)])
    moved = [
        j for j in range(d)
        if distance[j] > _MOVED or (sample.strengths[Name("input", j)] > _STRONG and distance[j] > _SAME)
    ]  # fmt: skip
    affected = _faults(sample, moved, distance)
    labels = sample.label.distance(sample.targets) if len(sample.label.edges) else 0.0
    labels_moved = labels > _MOVED or (sample.strengths[Name("label", 0)] > _STRONG and labels > _SAME)
    worse = (
        worse or sample.loss.rise > _RISE or (sample.strengths[Name("loss", 0)] > _STRONG and sample.loss.rise > 1.0)
    )
    reasoning = _redistributed(sample)
    broken = [one for one in affected if one.fault in BROKEN]
    alive = [one for one in affected if one.fault == "alive"]
    scores = {
        "feature_broken": 1.0 * bool(broken),
        "feature_alive": 1.0 * bool(alive) * (0.3 if broken else 1.0),
    }
    if not broken and not alive:
        largest = max((distance[j] for j in moved), default=0.0)
        if labels_moved and moved:
            scores["labels_shifted"] = float(labels / (labels + largest))
            scores["data_moved"] = float(largest / (labels + largest))
        elif moved:
            expected = _expected(sample, moved, distance)
            beyond = (sample.loss.after - expected) / max(1e-300, sample.loss.spread / np.sqrt(sample.loss.rows))
            scores["data_moved"] = 1.0 if not worse or beyond < _RISE else 0.5
            scores["concept_moved"] = 0.0 if not worse or beyond < _RISE_OF_STRONG else 0.49
        elif worse:
            answers = _answers(sample)
            scores["concept_moved"] = 1.0 if answers > 1.0 else 0.3
            scores["model_replaced"] = 0.2 if answers > 1.0 else 1.0
            scores["labels_shifted"] = 0.2 * labels_moved
        elif labels_moved:
            scores["labels_shifted"] = 1.0
        elif reasoning:
            scores["reasoning_moved"] = 1.0
    if not moved and not labels_moved and not worse and not reasoning:
        return None
    ranked = sorted(((score, verdict) for verdict, score in scores.items() if score > 0), reverse=True)
    total = sum(score for score, _ in ranked) + (0.2 if ranked else 1.0)
    if not ranked or ranked[0][0] / total < 0.4:
        ranked.insert(0, (0.2 if ranked else 1.0, "unclear"))
    evidence = _evidence(sample, moved, labels_moved, worse, reasoning)
    return Judgement(
        verdict=ranked[0][1],
        weight=ranked[0][0] / total,
        alternatives=[Alternative(verdict, score / total) for score, verdict in ranked[1:]],
        features=affected[:10] or [Affected(sample.names[j], None) for j in reasoning][:10],
        evidence=evidence[:20],
    )


def _faults(sample: Sample, moved: list[int], distance: NDArray[np.float64]) -> list[Affected]:
    """Return what happened to the features whose values changed, most changed first."""
    order = sorted(moved, key=lambda j: -distance[j])
    partners = _swaps(sample, order, distance)
    result = []
    for j in order:
        name, before = sample.names[j], sample.inputs[j]
        values = sample.values[:, j]
        present = values[~np.isnan(values)]
        gone = len(values) - len(present)
        most_before = float(before.shares.max())
        _, counts = np.unique(present, return_counts=True)
        most_after = max(float(counts.max(initial=0)), float(gone)) / len(values)
        factor = (
            _factor(before, present)
            if sample.kinds[j] == 0 and len(present) > 20 and len(before.edges) >= _FINE
            else None
        )
        if gone / len(values) - before.shares[0] >= MISSING and most_before < CONSTANT:
            result.append(Affected(name, "missing"))
        elif most_before >= CONSTANT and before.shares_of(values)[int(before.shares.argmax())] < HALF:
            result.append(Affected(name, "alive"))
        elif most_after >= CONSTANT and most_before < VARIED:
            result.append(Affected(name, "constant"))
        elif j in partners:
            result.append(Affected(name, "swapped", other=sample.names[partners[j]]))
        elif factor is not None:
            result.append(Affected(name, "scaled", factor=factor))
        else:
            result.append(Affected(name, "shifted"))
    return result


def _swaps(sample: Sample, moved: list[int], distance: NDArray[np.float64]) -> dict[int, int]:
    """Return the features that changed places, each with its partner."""
    fits = []
    for place, j in enumerate(moved):
        for k in moved[place + 1 :]:
            if (sample.kinds[j] == 2) != (sample.kinds[k] == 2):
                continue
            there = sample.inputs[k].distance(sample.values[:, j])
            back = sample.inputs[j].distance(sample.values[:, k])
            worst = max(there, back)
            if worst < max(_SAME, _LIKE * min(distance[j], distance[k])) and worst < 0.5 * min(
                distance[j], distance[k]
            ):
                fits.append((worst, j, k))
    partners: dict[int, int] = {}
    for _, j, k in sorted(fits):
        if j not in partners and k not in partners:
            partners[j], partners[k] = k, j
    return partners


def _factor(before: Histogram, values: NDArray[np.float64]) -> float | None:
    """Return by what the values are multiplied, or None if no factor explains them."""
    best: tuple[float, float] | None = None
    for share in (0.5, 0.75, 0.25, 0.9):
        old, new = before.quantile(share), float(np.quantile(values, share))
        if old == 0.0 or new == 0.0:
            continue
        power = float(10.0 ** round(np.log10(abs(new / old))))
        for factor in (power if new * old > 0 else -power, float(f"{new / old:.2g}")):
            if not 1.0 / SCALED < factor < SCALED:
                fit = before.distance(values / factor)
                if best is None or fit < best[0]:
                    best = (fit, factor)
    return None if best is None or best[0] > max(_SAME, _LIKE * before.distance(values)) else best[1]


def _expected(sample: Sample, moved: list[int], distance: NDArray[np.float64]) -> float:
    """Return the mean loss to expect since the alarm if only the feature that moved most had moved."""
    j = max(moved, key=lambda j: distance[j])
    before = sample.inputs[j]
    return float(before.risk[before.bins(sample.values[:, j])].mean())


def _answers(sample: Sample) -> float:
    """Return how far the labels at equal values of single features differ from before, in units of what is certain.

    The chi-square statistic over the bins of a feature, or over quarters of its values, in standard deviations above
    its mean and divided by `_SURE`; the largest of all features.
    """
    targets, most = sample.targets, 0.0
    variance = max(float(targets.var()), 1e-300)
    for j, before in enumerate(sample.inputs):
        fine = before.bins(sample.values[:, j])
        quarters = np.minimum(3, (4.0 * (np.cumsum(before.shares) - 0.5 * before.shares)).astype(np.int64))
        for group in (np.arange(BINS), quarters):
            then = np.bincount(group, before.counts, minlength=BINS)
            answers = np.bincount(group, before.counts * before.answer, minlength=BINS)
            now = np.bincount(group[fine], minlength=BINS)
            sums = np.bincount(group[fine], targets, minlength=BINS)
            use = (now >= _IN_A_BIN) & (then >= _IN_A_BIN)
            if use.any():
                gap = sums[use] / now[use] - answers[use] / then[use]
                chi = float((gap**2 / (variance * (1.0 / now[use] + 1.0 / then[use]))).sum())
                most = max(most, (chi - use.sum()) / float(np.sqrt(2.0 * use.sum())))
    return most / _SURE


def _redistributed(sample: Sample) -> list[int]:
    """Return the features whose importance changed, if others lost much of it and the loss did not fall.

    While a model learns, importance only rises, and the loss falls.
    """
    levels = sample.importance
    changed = [
        j
        for j, level in enumerate(levels)
        if abs(level.rise) > (_RISE_OF_STRONG if sample.strengths[Name("reasoning", j)] > _STRONG else _RISE)
    ]
    whole = max(sum(abs(level.before) for level in levels), sum(abs(level.after) for level in levels))
    steps = [levels[j].after - levels[j].before for j in changed]
    lost, moved = -sum(min(0.0, step) for step in steps), sum(map(abs, steps))
    strong = any(sample.strengths[Name("reasoning", j)] > _STRONG for j in changed)
    held = sample.loss.rise > -_RISE_OF_STRONG
    return changed if strong and held and lost > _LOST * whole and moved > _REDISTRIBUTED * whole else []


def _evidence(
    sample: Sample, moved: list[int], labels_moved: bool, worse: bool, reasoning: list[int]
) -> list[Evidence]:
    result = []
    for j in moved:
        before, values = sample.inputs[j], sample.values[:, j]
        if sample.kinds[j] == 0:
            then: float | None = before.quantile(0.5)
            now = float(np.nanmedian(values)) if not np.isnan(values).all() else None
        else:
            mode = int(before.counts.argmax())
            then, now = float(before.shares[mode]), float(before.shares_of(values)[mode])
        result.append(_one(sample, "input", j, sample.names[j], then, now))
    if labels_moved:
        mode = int(sample.label.counts.argmax())
        shares = sample.label.shares_of(sample.targets)
        result.append(_one(sample, "label", 0, None, float(sample.label.shares[mode]), float(shares[mode])))
    if worse:
        result.append(_one(sample, "loss", 0, None, sample.loss.before, sample.loss.after))
    for j in reasoning:
        level = sample.importance[j]
        result.append(_one(sample, "reasoning", j, sample.names[j], level.before, level.after))
    return sorted(result, key=lambda one: -one.strength)


def _one(
    sample: Sample, side: str, slot: int, feature: str | None, before: float | None, after: float | None
) -> Evidence:
    series = Name(side, slot)
    return Evidence(side, feature, sample.starts[series], round(sample.strengths[series], 2), before, after)
