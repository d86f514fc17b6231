"""The verdict on an incident: a decision table over what changed in the inputs, the labels, the loss and the reasoning.

`ops/docs/incidents.md` shows the table.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri  # type: ignore[import-untyped]

from glasstream.detect.incidents import exchange
from glasstream.detect.incidents.betting import BINS, VARIED
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.pairs import Pair, differences
from glasstream.detect.incidents.scaling import factor_of
from glasstream.detect.incidents.series import Name
from glasstream_topics.incidents import Affected, Alternative, Evidence

MISSING = 0.1
"""Rise of the share of missing values from which on a feature counts as missing."""
LONGER = 2
"""Times the longest run of equal values before, from which on a feature counts as constant."""
CONSTANT = 0.99
"""Share that the most frequent value of a feature has at least if it was constant."""
ALIVE = 0.5
"""Share that the former value of a constant feature has at most when the feature came alive."""
LOST, REDISTRIBUTED = 0.1, 0.6
"""Smallest shares of all importance that features lose, and that features lose or gain, if the reasoning moved."""
BROKEN: Final = ("swapped", "scaled", "constant", "missing")
"""Faults that no change of the world explains."""

MATTERS: Final = 0.3
"""Standard deviations by which labels at equal values differ if it matters."""
KNOWN = 30
"""Number of values before an incident above which later ones are compared with them."""
SAME = 1.63
"""Kolmogorov-Smirnov statistic above which the values of a series with strong evidence differ: 1 % of unchanged samples
exceed it."""
_LOOKS = 8  # about how often the rows after an alarm are compared
_LIKE = 0.2  # share of a distance that a swap may leave unexplained
_BEYOND = 0.3  # largest share of the values of a feature beyond the edges of the one that it may have become
_BETTER = 0.5  # of the distance to another feature, from which on values are not those of that feature
_MORE = 2.0  # times the distance of its features, from which on the difference of a pair is what changed
_ROWS_OF_A_SWAP = 10  # fewest independent rows whose differences show a swap: fewer may also be a drift
_ROWS_OF_INPUTS = (
    60  # independent rows find a difference of three quarters of a standard deviation in nine of ten cases
)
_CLEARLY = 50.0  # odds of a swap, for each pair that could be one: the shares of two values alone never reach them
_RISE, _RISE_OF_STRONG, _RISE_OF_LOSS = 3.5, 2.0, 1.0  # standard errors of a mean; less if its bets agree

_CHANCE = 1e-3  # that values or labels which are as before look as if they were not
_IN_A_BIN = 5  # fewest rows of a bin that is compared
_NINE_OF_TEN = 1.28  # standard errors: a difference that matters is found in nine of ten cases
_KNOWN_SHARE = 0.98  # of the values lies in bins that are compared, if the labels follow the same rule
_NEAR = 0.25  # standard deviations of single rows, by which the loss may differ from the expected one
_CLEAR = 0.45  # smallest weight of a verdict that is not "unclear"
_UNEXPLAINED = 0.2  # weight of what no verdict explains
_MOST_FEATURES, _MOST_EVIDENCE = 10, 20

Floats = NDArray[np.float64]
Rule = Literal["same", "other", "unknown", "unlabelled"]


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
    """(w, d) their newest values since."""
    pairs: Sequence[Pair]
    differences: Sequence[Histogram]
    """Differences of the pairs before."""
    label: Histogram
    targets: Floats
    """(w,) labels of the rows of `values`."""
    counts: Floats
    """(1 + d + p, BINS) number of all values since, by series and bin: labels, inputs, differences."""
    answers: Floats
    """(1 + d + p, BINS) sums of their labels."""
    past: Floats
    """(k, d) a sample of the inputs of all rows before, also before former changes."""
    runs: Sequence[tuple[int, int]]
    """Rows of the present run of equal values of each feature, and of the longest one before."""
    frozen: Collection[int]
    """Features that have had one value for so much longer than ever before that they have frozen."""
    loss: Level
    importance: Sequence[Level]
    strengths: Mapping[Name, float]
    """log10 of the mean wealth of each series."""
    strong: Collection[Name]
    """The series whose bets are strong evidence of a change."""
    starts: Mapping[Name, int]
    """First row of the change in each series."""
    classes: bool
    """Whether the labels are classes."""
    labelled: bool = True
    """Whether the rows have labels and losses."""

    def gap(self, name: Name) -> float:
        """Return the difference of the cumulative shares of a series before and since; 0 for levels."""
        if name.side in ("loss", "reasoning"):
            return 0.0
        place = {"label": 0, "input": 1, "pair": 1 + len(self.inputs)}[name.side] + name.slot
        return [self.label, *self.inputs, *self.differences][place].gap(self.counts[place])


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
    gaps: list[float]
    """How far each of them is from what it was before: a difference of cumulative shares; 0 for levels."""
    rule: Rule
    """The relation of the labels to the inputs: the same as before, another one, not known, or without labels."""
    powerful: bool = True
    """Whether there are enough rows to find a change of an input by three quarters of a standard deviation."""

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


def judge(sample: Sample, first: Judgement | None = None) -> Judgement | None:
    """Return the verdict, or None if the rows since the alarm show no change.

    Parameters
    ----------
    first
        An earlier verdict on this incident. If the loss had risen, the model may have recovered since. If features had
        changed places, they may have moved, too.
    """
    changes = _changes(sample, worse=first is not None and first.worse)
    if not changes.names:
        return None
    affected = _faults(sample, changes, [] if first is None else first.features)
    answers = _answers(sample, changes)
    rule = _rule(sample, changes, answers)
    scores = _scores(sample, changes, {one.fault for one in affected}, rule)
    total = sum(scores.values()) + _UNEXPLAINED
    ranked = sorted(((score / total, verdict) for verdict, score in scores.items() if score > 0.0), reverse=True)
    if not ranked or ranked[0][0] < _CLEAR:
        ranked.insert(0, (_UNEXPLAINED / total, "unclear"))
    verdict = ranked[0][1]
    if not affected:
        touched = answers.other if verdict == "concept_moved" else changes.reasoning
        affected = [Affected(sample.names[j], None) for j in touched[:_MOST_FEATURES]]
    return Judgement(
        verdict=verdict,
        weight=ranked[0][0],
        alternatives=[Alternative(verdict, weight) for weight, verdict in ranked[1:]],
        features=affected,
        evidence=_evidence(sample, changes),
        changed=changes.names,
        gaps=[sample.gap(name) for name in changes.names],
        rule=rule,
        powerful=all(
            now.sum() >= _ROWS_OF_INPUTS * one.block for one, now in zip(sample.inputs, sample.counts[1:], strict=False)
        ),
    )


def _varied(values: Floats) -> bool:
    """Return whether values that are not missing are not those of a constant feature."""
    _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return len(counts) > 0 and bool(counts.max() < CONSTANT * counts.sum())


def series_changed(sample: Sample) -> list[Name]:
    """Return the series that the rows show to have changed."""
    return _changes(sample, worse=False).names


def _changes(sample: Sample, worse: bool) -> _Changes:
    distance = _distances_of(sample.inputs, sample.counts[1 : 1 + len(sample.inputs)])
    gap = _distances_of(sample.differences, sample.counts[1 + len(sample.inputs) :])
    labels = sample.label.distance_of(sample.counts[0]) if len(sample.label.edges) else 0.0
    # of all series without strong evidence, at all looks after an alarm, one in `1 / _CHANCE` exceeds this by chance
    most = float(np.sqrt(0.5 * np.log(2.0 * _LOOKS * len(sample.counts) / _CHANCE)))

    def differs(name: Name, distance: float) -> bool:
        return distance > (SAME if name in sample.strong else most)

    moved = [j for j, one in enumerate(distance) if differs(Name("input", j), one) or j in sample.frozen]
    apart = [p for p, one in enumerate(gap) if differs(Name("pair", p), one)]
    return _Changes(
        moved=moved,
        distance=distance,
        apart=apart,
        gap=gap,
        labels=labels if differs(Name("label", 0), labels) else 0.0,
        worse=worse or sample.loss.rise > (_RISE_OF_LOSS if Name("loss", 0) in sample.strong else _RISE),
        reasoning=_redistributed(sample, moved=bool(moved or apart)),
    )


def _distances(befores: Sequence[Histogram], values: Floats) -> Floats:
    """Return (m,) the distance of (w, m) values from those before; 0 where too few are known."""
    return np.array(
        [one.distance(now) if one.total > KNOWN else 0.0 for one, now in zip(befores, values.T, strict=True)]
    )


def _distances_of(befores: Sequence[Histogram], counts: Floats) -> Floats:
    """Return the same of values with these numbers in the bins."""
    pairs = zip(befores, counts, strict=True)
    return np.array([one.distance_of(now) if one.total > KNOWN else 0.0 for one, now in pairs])


def _scores(sample: Sample, changes: _Changes, faults: set[str | None], rule: Rule) -> dict[str, float]:
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
        others = rule == "other"
        expected = not others and bool(changes.labels) and (not changes.worse or _beyond(sample, changes) < _RISE)
        return {
            "concept_moved": 1.0 if others else 0.3,
            "model_replaced": 0.0
            if expected or not changes.worse
            else 0.2
            if others
            else 1.0
            if rule == "same"
            else 0.3,
            "labels_shifted": 1.0 if expected else 0.2 * bool(changes.labels),
        }
    return {"reasoning_moved": 1.0}


def _faults(sample: Sample, changes: _Changes, known: Sequence[Affected]) -> list[Affected]:
    """Return what happened to the features whose values changed most."""
    parted = [
        p for p in changes.apart if changes.gap[p] > _MORE * max(changes.distance[j] for j in sample.pairs[p][:2])
    ]
    of_pairs = {j for p in parted for j in sample.pairs[p][:2]}
    moved = [j for j in changes.moved if j not in of_pairs]
    order = sorted(moved, key=lambda j: -changes.distance[j])[:_MOST_FEATURES]
    named = {(one.feature, one.other) for one in known if one.fault == "swapped"}
    partners = _swaps(sample, changes, named)
    partners |= _swaps_of_pairs(sample, changes, set(partners))
    order = [*partners, *(j for j in order if j not in partners)][:_MOST_FEATURES]
    result = []
    for j in order:
        name, before, values = sample.names[j], sample.inputs[j], sample.values[:, j]
        present = values[~np.isnan(values)]
        shares = sample.counts[1 + j] / max(1.0, float(sample.counts[1 + j].sum()))
        missing = float(shares[0])
        mode = int(before.shares.argmax())
        most_before = float(before.shares[mode])
        present_run, longest_run = sample.runs[j]
        frozen = present_run >= len(values) and present_run > LONGER * longest_run
        if missing - before.shares[0] >= MISSING and most_before < CONSTANT:
            result.append(Affected(name, "missing"))
        elif most_before >= CONSTANT and shares[mode] < ALIVE and not _varied(sample.past[:, j]):
            result.append(Affected(name, "alive"))
        elif frozen and most_before < VARIED:
            result.append(Affected(name, "constant"))
        elif j in partners:
            result.append(Affected(name, "swapped", other=sample.names[partners[j]]))
        elif sample.kinds[j] == 0 and (factor := factor_of(before, present)) is not None:
            result.append(Affected(name, "scaled", factor=factor.value, factor_low=factor.low, factor_high=factor.high))
        else:
            result.append(Affected(name, "shifted"))
    for p in sorted(changes.apart, key=lambda p: -changes.gap[p]):
        pair = sample.pairs[p][:2]
        if not any(j in moved or j in partners for j in pair):
            first, second = (sample.names[j] for j in pair)
            result += [Affected(first, "apart", other=second), Affected(second, "apart", other=first)]
    return result[:_MOST_FEATURES]


def _swaps(sample: Sample, changes: _Changes, named: Collection[tuple[str, str | None]]) -> dict[int, int]:
    """Return the features that changed places, each with its partner.

    At least one of them has moved. The other need not have moved significantly, because its neighbouring rows may be so
    much alike that few of them count.

    Parameters
    ----------
    named
        Pairs of features of which this was said before. It is not taken back because they have also moved.
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
        like = np.inf if (sample.names[j], sample.names[k]) in named else max(SAME, _LIKE * least)
        if worst >= min(like, _BETTER * max(distance[j], distance[k])):
            continue
        befores, values = [sample.inputs[one] for one in (j, k)], [sample.values[:, one] for one in (j, k)]
        if max(befores[0].beyond(values[1]), befores[1].beyond(values[0])) > _BEYOND:
            continue
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
        if len(sample.values) < _ROWS_OF_A_SWAP * max(before.block for before in befores):
            continue
        back = sample.values.copy()
        back[:, [j, k]] = back[:, [k, j]]
        between = differences(back, [sample.pairs[p] for p in touched])
        least = min(changes.gap[p] for p in touched if p in apart)
        limit = min(max(SAME, _LIKE * least), _BETTER * least)
        own = _distances([sample.inputs[j], sample.inputs[k]], back[:, [j, k]])
        if own.max() >= SAME or _distances(befores, between).max() >= limit:
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


def _beyond(sample: Sample, changes: _Changes) -> float:
    """Return by how many standard errors the loss exceeds what the changes of the data explain."""
    return sample.loss._replace(before=_expected(sample, changes)).rise


def _expected(sample: Sample, changes: _Changes) -> float:
    """Return the mean loss that the changes of the data explain.

    It is the mean loss before at the values of the feature that moved most, or at the labels.
    """
    places = [0] if changes.labels else []
    if changes.moved:
        places.append(1 + max(changes.moved, key=lambda j: changes.distance[j]))
    elif changes.apart:
        places.append(1 + len(sample.inputs) + max(changes.apart, key=lambda p: changes.gap[p]))
    befores = [sample.label, *sample.inputs, *sample.differences]
    expected = [(sample.counts[p] * befores[p].risk).sum() / max(1.0, sample.counts[p].sum()) for p in places]
    return float(max(expected, default=sample.loss.before))


class _Answers(NamedTuple):
    """Labels at equal values of each feature, now and before."""

    other: list[int]
    """Features at whose values the labels differ."""
    powerful: bool
    """Whether the test has enough rows at each feature to find a difference that matters."""


def _answers(sample: Sample, changes: _Changes) -> _Answers:
    """Compare the labels at equal values of each feature with those before.

    If the labels have other shares, they are compared with what they would be if nothing else had changed. The test is
    a chi-square statistic of mean labels over the bins of each feature, and over quarters of its values.
    """
    chance = _CHANCE / (2 * max(1, len(sample.inputs)))
    labels = _labels(sample)
    other, powerful = [], True
    for j, before in enumerate(sample.inputs):
        quarters = np.minimum(3, (4.0 * (np.cumsum(before.shares) - 0.5 * before.shares)).astype(np.int64))
        differs, found = False, False
        for group in (np.arange(BINS), quarters):
            then = np.bincount(group, before.counts, minlength=BINS)
            answers = np.bincount(group, before.counts * before.answer, minlength=BINS)
            now = np.bincount(group, sample.counts[1 + j], minlength=BINS)
            sums = np.bincount(group, sample.answers[1 + j], minlength=BINS)
            use = (now >= _IN_A_BIN) & (then >= _IN_A_BIN)
            expected, freedom = answers[use] / then[use], int(use.sum())
            if changes.labels:
                expected, freedom = _with_other_shares(expected, now[use], sample, labels), freedom - 1
            if freedom <= 0:
                continue
            gap, block = sums[use] / now[use] - expected, max(before.block, sample.label.block)
            errors = 1.0 / now[use] + 1.0 / then[use]
            statistic = float((gap**2 / (labels.variance * errors)).sum()) / block
            limit = float(chdtri(freedom, chance))
            differs |= statistic > limit
            known = now[use].sum() >= _KNOWN_SHARE * now.sum()
            found |= bool(known and float((1.0 / errors).sum()) / block * MATTERS**2 >= _noncentrality(limit, freedom))
        if differs:
            other.append(j)
        powerful &= found
    return _Answers(other, powerful)


def _noncentrality(limit: float, freedom: int) -> float:
    """Return about how large a noncentrality makes nine of ten chi-square statistics exceed a limit."""
    excess = max(0.0, limit - freedom)
    return excess + _NINE_OF_TEN * float(np.sqrt(2.0 * freedom + 4.0 * excess))


def _rule(sample: Sample, changes: _Changes, answers: _Answers) -> Rule:
    """Return whether the labels follow the same rule as before.

    If inputs have moved, labels at equal values of one feature may differ because of the others. The rule is then the
    same only if the loss is what it was before at these values, too, and if the bins still tell these values apart.
    """
    moved = bool(changes.moved or changes.apart)
    if answers.other:
        return "unknown" if moved else "other"
    told_apart = all(sample.inputs[j].fits(sample.counts[1 + j]) for j in changes.moved)
    if not answers.powerful or not told_apart or (moved and not _as_expected(sample, changes)):
        return "unknown"
    return "same"


def _as_expected(sample: Sample, changes: _Changes) -> bool:
    """Return whether the loss is surely near what the changes of the data explain, and not surely above it."""
    level = sample.loss._replace(before=_expected(sample, changes))
    error = level.spread / np.sqrt(level.rows)
    near = abs(level.after - level.before) + 2.0 * error <= _NEAR * level.spread
    return bool(near and level.rise <= _RISE)


def _with_other_shares(answers: Floats, rows: NDArray[np.int64], sample: Sample, labels: exchange.Labels) -> Floats:
    """Return the mean labels of bins after a change of the shares of the labels alone.

    With two classes, the odds of all bins are multiplied by the same factor (Saerens, Latinne, Decaestecker 2002). With
    numbers and more classes, all means move by the same step, which is an approximation.
    """
    count = max(1.0, float(sample.counts[0].sum()))
    mean = float(sample.answers[0].sum()) / count
    if sample.classes and np.isin(sample.label.edges, (0.0, 1.0)).all():
        least = 0.5 / count
        then, now = (float(np.clip(share, least, 1.0 - least)) for share in (labels.mean, mean))
        factor = now * (1.0 - then) / (then * (1.0 - now))
        return np.asarray(answers * factor / (1.0 + answers * (factor - 1.0)))
    return np.asarray(answers + mean - (rows * answers).sum() / max(1, rows.sum()))


def _labels(sample: Sample) -> exchange.Labels:
    """Return the labels since the alarm without the weight of outliers, the mean of those before, and a variance."""
    targets = sample.label.clipped(sample.targets)
    shares, before = sample.label.shares, sample.label.answer
    mean = float((shares * before).sum())
    variance = max(float(targets.var()), float((shares * (before - mean) ** 2).sum()), 1e-12 * mean * mean, 1e-300)
    return exchange.Labels(targets, mean, variance)


def _redistributed(sample: Sample, *, moved: bool) -> list[int]:
    """Return the features whose importance changed, if others lost much of it and the loss did not fall.

    While a model learns, importance only rises, and the loss falls. If values of events without labels have `moved`,
    the features are those whose contributions changed much, because there is no loss to tell what that did.
    """
    levels = sample.importance
    strong = [Name("reasoning", j) in sample.strong for j in range(len(levels))]
    changed = [j for j, level in enumerate(levels) if abs(level.rise) > (_RISE_OF_STRONG if strong[j] else _RISE)]
    whole = max(sum(abs(level.before) for level in levels), sum(abs(level.after) for level in levels))
    steps = {j: levels[j].after - levels[j].before for j in changed}
    if moved and not sample.labelled:
        return [j for j in changed if abs(steps[j]) > LOST * whole]
    lost, shifted = -sum(min(0.0, step) for step in steps.values()), sum(map(abs, steps.values()))
    held = sample.loss.rise > -_RISE_OF_STRONG
    found = held and any(strong[j] for j in changed) and lost > LOST * whole and shifted > REDISTRIBUTED * whole
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
