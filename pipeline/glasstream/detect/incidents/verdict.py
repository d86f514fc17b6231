"""The verdict on an incident: a decision table over what changed in the inputs, the labels, the loss and the reasoning.

`ops/docs/incidents.md` shows the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri  # type: ignore[import-untyped]

from glasstream.detect.incidents import exchange
from glasstream.detect.incidents.betting import BINS
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.pairs import Pair, differences
from glasstream.detect.incidents.series import Name
from glasstream_topics.incidents import Affected, Alternative, Evidence

MISSING = 0.1
"""Rise of the share of missing values from which on a feature counts as missing."""
CONSTANT, VARIED = 0.99, 0.95
"""Share of the most frequent value of a constant feature at least, and of one that is not constant at most."""
ALIVE = 0.5
"""Share that the former value of a constant feature has at most when the feature came alive."""
SCALED = 3.0
"""Smallest factor of a feature that counts as scaled."""
LOST, REDISTRIBUTED = 0.1, 0.6
"""Smallest shares of all importance that features lose, and that features lose or gain, if the reasoning moved."""
BROKEN: Final = ("swapped", "scaled", "constant", "missing")
"""Faults that no change of the world explains."""

_FINE = 8  # fewest edges of a feature whose factor can be determined
_LARGEST = 1e100  # factor
_KNOWN = 30  # fewest values before the incident
_SAME, _MOVED = 1.63, 2.2  # Kolmogorov-Smirnov statistic: 1 % and 1 in 10,000 of unchanged samples exceed it
_LIKE = 0.2  # share of a distance that a factor or a swap may leave unexplained
_BETTER = 0.5  # of the distance to another feature, from which on values are not those of that feature
_CLEARLY = 50.0  # odds of a swap, for each pair that could be one: the shares of two values alone never reach them
_RISE, _RISE_OF_STRONG, _RISE_OF_LOSS = 3.5, 2.0, 1.0  # standard errors of a mean; less if its bets agree
_STRONG = 4.0  # log10 of the wealth of a series that takes part in an incident
_CHANCE = 1e-3  # that labels which follow the same rule look as if they did not
_IN_A_BIN = 5  # fewest rows of a bin that is compared
_CLEAR = 0.45  # smallest weight of a verdict that is not "unclear"
_UNEXPLAINED = 0.2  # weight of what no verdict explains
_MOST_FEATURES, _MOST_EVIDENCE = 10, 20

Floats = NDArray[np.float64]


class Level(NamedTuple):
    """Loss or importance before and after an alarm."""

    before: float
    spread: float
    """Standard deviation of single rows."""
    after: float
    rows: float
    """Number of rows after the alarm, as if they were independent."""

    @property
    def rise(self) -> float:
        """Rise in standard errors."""
        return float((self.after - self.before) / (self.spread / np.sqrt(self.rows))) if self.spread > 0 else 0.0


@dataclass(frozen=True)
class Sample:
    """What an incident is judged by: the rows since the alarm, and what is known of the rows before."""

    names: Sequence[str]
    """d names of features."""
    kinds: Sequence[int]
    """d kinds: 0 number, 1 boolean, 2 text."""
    inputs: Sequence[Histogram]
    """Values of the d features before."""
    values: Floats
    """(w, d) their values since."""
    pairs: Sequence[Pair]
    differences: Sequence[Histogram]
    """Differences of the pairs before."""
    label: Histogram
    targets: Floats
    """(w,) labels since."""
    loss: Level
    importance: Sequence[Level]
    strengths: Mapping[Name, float]
    """log10 of the mean wealth of each series."""
    starts: Mapping[Name, int]
    """First row of the change in each series."""
    classes: bool
    """Whether the labels are classes."""

    def strong(self, side: str, slot: int = 0) -> bool:
        """Return whether the bets of a series are strong evidence of a change."""
        return self.strengths[Name(side, slot)] > _STRONG


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on. The fields are those of `glasstream_topics.incidents.Incident`."""

    verdict: str
    weight: float
    alternatives: list[Alternative]
    features: list[Affected]
    evidence: list[Evidence]
    changed: list[Name]
    """All series that changed, also those that are not among the evidence."""

    @property
    def worse(self) -> bool:
        """Whether the loss rose."""
        return Name("loss", 0) in self.changed


class _Changes(NamedTuple):
    """What changed."""

    moved: list[int]
    """Features with other values."""
    distance: Floats
    """(d,) distance of their values from those before."""
    apart: list[int]
    """Pairs with other differences."""
    gap: Floats
    """(p,) distance of these differences from those before."""
    labels: float
    """Distance of the labels from those before; 0 if it is not significant."""
    worse: bool
    """Whether the loss rose."""
    reasoning: list[int]
    """Features with another importance."""

    @property
    def names(self) -> list[Name]:
        """The series that changed."""
        names = [Name("input", j) for j in self.moved] + [Name("pair", p) for p in self.apart]
        names += [Name("reasoning", j) for j in self.reasoning]
        return names + [Name("label", 0)] * bool(self.labels) + [Name("loss", 0)] * self.worse


def judge(sample: Sample, *, worse: bool = False) -> Judgement | None:
    """Return the verdict, or None if the rows since the alarm show no change.

    Parameters
    ----------
    worse
        Whether an earlier verdict on this incident saw that the loss rose. The model may have recovered since.
    """
    changes = _changes(sample, worse)
    if not changes.names:
        return None
    affected = _faults(sample, changes)
    scores = _scores(sample, changes, {one.fault for one in affected})
    total = sum(scores.values()) + _UNEXPLAINED
    ranked = sorted(((score / total, verdict) for verdict, score in scores.items() if score > 0.0), reverse=True)
    if not ranked or ranked[0][0] < _CLEAR:
        ranked.insert(0, (_UNEXPLAINED / total, "unclear"))
    return Judgement(
        verdict=ranked[0][1],
        weight=ranked[0][0],
        alternatives=[Alternative(verdict, weight) for weight, verdict in ranked[1:]],
        features=affected or [Affected(sample.names[j], None) for j in changes.reasoning[:_MOST_FEATURES]],
        evidence=_evidence(sample, changes),
        changed=changes.names,
    )


def _changes(sample: Sample, worse: bool) -> _Changes:
    distance = _distances(sample.inputs, sample.values)
    gap = _distances(sample.differences, differences(sample.values, sample.pairs))
    labels = sample.label.distance(sample.targets) if len(sample.label.edges) else 0.0
    return _Changes(
        moved=[j for j, one in enumerate(distance) if one > (_SAME if sample.strong("input", j) else _MOVED)],
        distance=distance,
        apart=[p for p, one in enumerate(gap) if one > (_SAME if sample.strong("pair", p) else _MOVED)],
        gap=gap,
        labels=labels if labels > (_SAME if sample.strong("label") else _MOVED) else 0.0,
        worse=worse or sample.loss.rise > (_RISE_OF_LOSS if sample.strong("loss") else _RISE),
        reasoning=_redistributed(sample),
    )


def _distances(befores: Sequence[Histogram], values: Floats) -> Floats:
    """Return (m,) the distance of (w, m) values from those before; 0 where too few are known."""
    return np.array(
        [one.distance(now) if one.total > _KNOWN else 0.0 for one, now in zip(befores, values.T, strict=True)]
    )


def _scores(sample: Sample, changes: _Changes, faults: set[str | None]) -> dict[str, float]:
    """Return how well each verdict explains the changes: the decision table."""
    broken, alive = not faults.isdisjoint(BROKEN), "alive" in faults
    if broken or alive:
        return {"feature_broken": float(broken), "feature_alive": alive * (0.3 if broken else 1.0)}
    if changes.moved or changes.apart:
        most = max(changes.distance[changes.moved]) if changes.moved else max(changes.gap[changes.apart])
        share = changes.labels / (changes.labels + float(most))
        beyond = _beyond(sample, changes) if changes.worse else 0.0
        held = 1.0 if beyond < _RISE else 0.5
        return {
            "labels_shifted": share * held,
            "data_moved": (1.0 - share) * held,
            "concept_moved": 0.49 * (beyond > _RISE_OF_STRONG),
        }
    if changes.labels or changes.worse:
        others = _other_answers(sample, changes)
        expected = not others and bool(changes.labels) and (not changes.worse or _beyond(sample, changes) < _RISE)
        return {
            "concept_moved": 1.0 if others else 0.3,
            "model_replaced": 0.0 if expected or not changes.worse else 0.2 if others else 1.0,
            "labels_shifted": 1.0 if expected else 0.2 * bool(changes.labels),
        }
    return {"reasoning_moved": 1.0}


def _faults(sample: Sample, changes: _Changes) -> list[Affected]:
    """Return what happened to the features whose values changed most."""
    order = sorted(changes.moved, key=lambda j: -changes.distance[j])[:_MOST_FEATURES]
    partners = _swaps(sample, changes)
    partners |= _swaps_of_pairs(sample, changes, set(partners))
    order = [*partners, *(j for j in order if j not in partners)][:_MOST_FEATURES]
    result = []
    for j in order:
        name, before, values = sample.names[j], sample.inputs[j], sample.values[:, j]
        present = values[~np.isnan(values)]
        missing = 1.0 - len(present) / len(values)
        mode = int(before.shares.argmax())
        most_before = float(before.shares[mode])
        _, counts = np.unique(present, return_counts=True)
        most_after = max(float(counts.max(initial=0)) / len(values), missing)
        if missing - before.shares[0] >= MISSING and most_before < CONSTANT:
            result.append(Affected(name, "missing"))
        elif most_before >= CONSTANT and before.shares_of(values)[mode] < ALIVE:
            result.append(Affected(name, "alive"))
        elif most_after >= CONSTANT and most_before < VARIED:
            result.append(Affected(name, "constant"))
        elif j in partners:
            result.append(Affected(name, "swapped", other=sample.names[partners[j]]))
        elif sample.kinds[j] == 0 and (factor := _factor(before, present)) is not None:
            result.append(Affected(name, "scaled", factor=factor))
        else:
            result.append(Affected(name, "shifted"))
    for p in sorted(changes.apart, key=lambda p: -changes.gap[p]):
        pair = sample.pairs[p][:2]
        if not any(j in changes.moved or j in partners for j in pair):
            first, second = (sample.names[j] for j in pair)
            result += [Affected(first, "apart", other=second), Affected(second, "apart", other=first)]
    return result[:_MOST_FEATURES]


def _swaps(sample: Sample, changes: _Changes) -> dict[int, int]:
    """Return the features that changed places, each with its partner.

    At least one of them has moved. The other need not have moved significantly, because its neighbouring rows may be so
    much alike that few of them count.
    """
    fits = []
    distance, moved = changes.distance, set(changes.moved)
    order = sorted(range(len(distance)), key=lambda j: (j not in moved, -distance[j]))[:_MOST_FEATURES]
    pairs = [(j, k) for j, k in combinations(order, 2) if j in moved]
    least_odds = np.log(_CLEARLY * max(1, len(pairs)))
    labels = _labels(sample)
    for j, k in pairs:
        if (sample.kinds[j] == 2) != (sample.kinds[k] == 2):
            continue
        there = sample.inputs[k].distance(sample.values[:, j])
        back = sample.inputs[j].distance(sample.values[:, k])
        worst, least = max(there, back), float(min(distance[one] for one in (j, k) if one in moved))
        if worst >= min(max(_SAME, _LIKE * least), _BETTER * max(distance[j], distance[k])):
            continue
        befores, values = [sample.inputs[one] for one in (j, k)], [sample.values[:, one] for one in (j, k)]
        if exchange.log_odds(befores, values, labels) > least_odds:
            fits.append((worst, j, k))
    return _partners(fits)


def _swaps_of_pairs(sample: Sample, changes: _Changes, done: set[int]) -> dict[int, int]:
    """Return the features without whose exchange the differences of pairs are as before, each with its partner.

    Parameters
    ----------
    done
        Features whose partner is known.
    """
    apart = sorted(changes.apart, key=lambda p: -changes.gap[p])[:_MOST_FEATURES]
    features = sorted({j for p in apart for j in sample.pairs[p][:2]} - done)
    candidates = list(combinations(features, 2))
    fits = []
    for j, k in candidates:
        touched = [p for p, pair in enumerate(sample.pairs) if not {j, k}.isdisjoint(pair[:2])]
        befores = [sample.differences[p] for p in touched]
        back = sample.values.copy()
        back[:, [j, k]] = back[:, [k, j]]
        between = differences(back, [sample.pairs[p] for p in touched])
        least = min(changes.gap[p] for p in touched if p in apart)
        limit = min(max(_SAME, _LIKE * least), _BETTER * least)
        own = _distances([sample.inputs[j], sample.inputs[k]], back[:, [j, k]])
        if own.max() >= _SAME or _distances(befores, between).max() >= limit:
            continue
        odds = min(exchange.log_odds_of_shares(one, now) for one, now in zip(befores, between.T, strict=True))
        if odds > np.log(_CLEARLY * len(candidates)):
            fits.append((-odds, j, k))
    return _partners(fits)


def _partners(fits: list[tuple[float, int, int]]) -> dict[int, int]:
    """Return the features that changed places, each with its partner: the best fits, and no feature twice."""
    partners: dict[int, int] = {}
    for _, j, k in sorted(fits):
        if j not in partners and k not in partners:
            partners[j], partners[k] = k, j
    return partners


def _factor(before: Histogram, values: Floats) -> float | None:
    """Return by what the values are multiplied, or None if no factor explains them. Powers of ten come first."""
    if len(values) <= _KNOWN or len(before.edges) < _FINE:
        return None
    powers, factors = [], []
    for share in (0.5, 0.75, 0.25, 0.9):
        old, new = before.quantile(share), float(np.quantile(values, share))
        ratio = new / old if old != 0.0 else 0.0
        if 1.0 / _LARGEST < abs(ratio) < _LARGEST:
            powers.append(float(np.copysign(10.0 ** round(np.log10(abs(ratio))), ratio)))
            factors.append(float(f"{ratio:.2g}"))
    for candidates in (powers, factors):
        large = [factor for factor in candidates if not 1.0 / SCALED < factor < SCALED]
        fits = [(before.distance(values / factor), factor) for factor in large]
        if fits and min(fits)[0] <= max(_SAME, _LIKE * before.distance(values)):
            return min(fits)[1]
    return None


def _beyond(sample: Sample, changes: _Changes) -> float:
    """Return by how many standard errors the loss exceeds what the changes of the data explain.

    The mean loss before at the values of the feature that moved most, or at the labels, is what they explain.
    """
    data = [(sample.label, sample.targets)] if changes.labels else []
    if changes.moved:
        j = max(changes.moved, key=lambda j: changes.distance[j])
        data.append((sample.inputs[j], sample.values[:, j]))
    elif changes.apart:
        p = max(changes.apart, key=lambda p: changes.gap[p])
        data.append((sample.differences[p], _difference(sample, p)))
    expected = max(float(before.risk[before.bins(values)].mean()) for before, values in data)
    return sample.loss._replace(before=expected).rise


def _other_answers(sample: Sample, changes: _Changes) -> bool:
    """Return whether labels at equal values of a feature differ from those before.

    If the labels have other shares, they are compared with what they would be if nothing else had changed. The test is
    a chi-square statistic of mean labels over the bins of each feature, and over quarters of its values.
    """
    chance = _CHANCE / (2 * max(1, len(sample.inputs)))
    labels = _labels(sample)
    for j, before in enumerate(sample.inputs):
        bins = before.bins(sample.values[:, j])
        quarters = np.minimum(3, (4.0 * (np.cumsum(before.shares) - 0.5 * before.shares)).astype(np.int64))
        for group in (np.arange(BINS), quarters):
            then = np.bincount(group, before.counts, minlength=BINS)
            answers = np.bincount(group, before.counts * before.answer, minlength=BINS)
            now = np.bincount(group[bins], minlength=BINS)
            sums = np.bincount(group[bins], labels.values, minlength=BINS)
            use = (now >= _IN_A_BIN) & (then >= _IN_A_BIN)
            expected, freedom = answers[use] / then[use], int(use.sum())
            if changes.labels:
                expected, freedom = _with_other_shares(expected, now[use], sample, labels), freedom - 1
            gap = sums[use] / now[use] - expected
            statistic = float((gap**2 / (labels.variance * (1.0 / now[use] + 1.0 / then[use]))).sum())
            if freedom > 0 and statistic / max(before.block, sample.label.block) > chdtri(freedom, chance):
                return True
    return False


def _with_other_shares(answers: Floats, rows: NDArray[np.int64], sample: Sample, labels: exchange.Labels) -> Floats:
    """Return the mean labels of bins after a change of the shares of the labels alone.

    With two classes, the odds of all bins are multiplied by the same factor (Saerens, Latinne, Decaestecker 2002). With
    numbers and more classes, all means move by the same step, which is an approximation.
    """
    if sample.classes and np.isin(sample.label.edges, (0.0, 1.0)).all():
        least = 0.5 / len(labels.values)
        then, now = (float(np.clip(share, least, 1.0 - least)) for share in (labels.mean, labels.values.mean()))
        factor = now * (1.0 - then) / (then * (1.0 - now))
        return np.asarray(answers * factor / (1.0 + answers * (factor - 1.0)))
    return np.asarray(answers + labels.values.mean() - (rows * answers).sum() / max(1, rows.sum()))


def _labels(sample: Sample) -> exchange.Labels:
    """Return the labels since the alarm without the weight of outliers, the mean of those before, and a variance."""
    targets = sample.label.clipped(sample.targets)
    shares, before = sample.label.shares, sample.label.answer
    mean = float((shares * before).sum())
    variance = max(float(targets.var()), float((shares * (before - mean) ** 2).sum()), 1e-12 * mean * mean, 1e-300)
    return exchange.Labels(targets, mean, variance)


def _redistributed(sample: Sample) -> list[int]:
    """Return the features whose importance changed, if others lost much of it and the loss did not fall.

    While a model learns, importance only rises, and the loss falls.
    """
    levels = sample.importance
    strong = [sample.strong("reasoning", j) for j in range(len(levels))]
    changed = [j for j, level in enumerate(levels) if abs(level.rise) > (_RISE_OF_STRONG if strong[j] else _RISE)]
    whole = max(sum(abs(level.before) for level in levels), sum(abs(level.after) for level in levels))
    steps = [levels[j].after - levels[j].before for j in changed]
    lost, moved = -sum(min(0.0, step) for step in steps), sum(map(abs, steps))
    held = sample.loss.rise > -_RISE_OF_STRONG
    found = held and any(strong[j] for j in changed) and lost > LOST * whole and moved > REDISTRIBUTED * whole
    return changed if found else []


def _evidence(sample: Sample, changes: _Changes) -> list[Evidence]:
    """Return the series that changed, strongest first."""
    strongest = sorted(changes.names, key=lambda name: -sample.strengths[name])[:_MOST_EVIDENCE]
    return [
        Evidence(
            name.side,
            _feature(sample, name),
            sample.starts[name],
            round(sample.strengths[name], 2),
            *_before_and_after(sample, name),
            sample.names[sample.pairs[name.slot].second] if name.side == "pair" else None,
        )
        for name in strongest
    ]


def _feature(sample: Sample, name: Name) -> str | None:
    """Return the feature of a series, or the first one of a pair."""
    if name.side in ("label", "loss"):
        return None
    return sample.names[sample.pairs[name.slot].first if name.side == "pair" else name.slot]


def _difference(sample: Sample, place: int) -> Floats:
    """Return (w,) the difference of a pair since the alarm."""
    return differences(sample.values, [sample.pairs[place]])[:, 0]


def _before_and_after(sample: Sample, name: Name) -> tuple[float | None, float | None]:
    """Return a level, the median of a number, or the share of the value that was most frequent."""
    if name.side in ("loss", "reasoning"):
        level = sample.loss if name.side == "loss" else sample.importance[name.slot]
        return level.before, level.after
    if name.side == "label":
        before, values, number = sample.label, sample.targets, not sample.classes
    elif name.side == "pair":
        before, values, number = sample.differences[name.slot], _difference(sample, name.slot), True
    else:
        before, values, number = sample.inputs[name.slot], sample.values[:, name.slot], sample.kinds[name.slot] == 0
    if number:
        present = np.sort(values[~np.isnan(values)])
        middle = float(present[len(present) // 2]) if len(present) else None
        return before.quantile(0.5) if len(before.edges) else None, middle
    mode = int(before.counts.argmax())
    return float(before.shares[mode]), float(before.shares_of(values)[mode])
