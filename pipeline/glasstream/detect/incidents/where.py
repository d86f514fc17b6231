"""Where in the space of the inputs something changed: in a few segments, or everywhere.

The rows before and since an onset are split into two halves. On one, a tree of depth `DEPTH` is grown whose splits
separate rows by how much their loss changed, or by how much their number did. All tests and numbers come from the
other half, so that they are not biased by the choice of the tree (honest trees, Athey, Imbens 2016); which of its
leaves are named is chosen with them. Trees and tests see the square roots of losses, because single large ones would
hide the others. A leaf is a segment if its loss rose more than that of all other rows: Welch's test with Holm's
correction over the leaves. Segments are named only if the change outside of them is small. Numbers come from losses as
they are, of rows that are surely before or since the change: those outside of the interval of the onset.

The change of the mean loss is divided among segments and the rest exactly (Kitagawa 1955): with the shares p, p' of a
part's rows before and since, its mean losses l, l', and the mean c of both overall losses, a part contributes

    (l' - l) (p + p') / 2  +  (p' - p) ((l + l') / 2 - c).

The first term says that it got worse there, the second that more events fall there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, log10
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.detect.incidents.recent import SIDE, Texts
from glasstream_topics.incidents import Condition, Segment, Where

DEPTH: Final = 3
SEGMENTS: Final = 3
"""Most segments that are named."""

_FEWEST = 100  # rows before, and since
_LEAF = 6  # fewest rows of a leaf on either side, in each half
_GAIN = 9.0  # least chi-square statistic of a split
_CHANCE = 0.01  # of a leaf that is as the others
_LOCAL, _CARRIED, _LARGEST_SHARE = 0.25, 0.5, 0.5
_RISEN = 2.33  # standard errors
_CONFIDENCE = 0.95
_ALIKE = 0.5  # of the rise of its sibling, from which on a leaf belongs to the same segment
_CATEGORIES = 3  # most categories of a condition
_TIE = 1e-9  # of a statistic: a set of categories and all others differ by rounding only, and the shorter set is named
_PRIOR = 10.0  # rows by which the means of rare categories are drawn to the others when categories are sorted
_PURPOSE = int(Purpose.WHERE)
_NUMBER, _BOOLEAN, _TEXT = range(3)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Split(NamedTuple):
    """A question about one feature of a row."""

    slot: int
    low: float | None = None
    """Smallest value that is meant; of a category None."""
    codes: tuple[float, ...] = ()
    """Categories that are meant; without these and `low`, a missing value is meant."""

    @property
    def of_values(self) -> bool:
        """Whether it asks for a value, and not whether there is one."""
        return self.low is not None or bool(self.codes)

    def holds(self, inputs: Floats) -> Mask:
        """Return the (n,) mask of the rows for which the answer is yes."""
        column = inputs[:, self.slot]
        if self.low is not None:
            # in the precision of the data: 0.7 as a single-precision number is smaller than 0.7
            return np.asarray(column >= float(np.float32(self.low)))
        return np.asarray(np.isin(column, self.codes) if self.codes else np.isnan(column))


Path = tuple[tuple[Split, bool], ...]
"""Questions and their answers from the root to a node."""


@dataclass(frozen=True)
class Sample:
    """Rows before and since an onset.

    Attributes
    ----------
    inputs
        (n, d) values, NaN where one is absent; texts as codes.
    losses
        (n,)
    since
        (n,) mask of the rows since the onset.
    sure
        (n,) mask of the rows that are surely before or since the change.
    names, kinds
        d names, and kinds: 0 number, 1 boolean, 2 text.
    texts
        Names of the categories by feature and code. A category without a name is in no condition.
    """

    inputs: Floats
    losses: Floats
    since: Mask
    sure: Mask
    names: Sequence[str]
    kinds: Sequence[int]
    texts: Texts

    def part(self, mask: Mask | slice) -> "Sample":
        """Return some of the rows."""
        inputs, losses, since, sure = self.inputs[mask], self.losses[mask], self.since[mask], self.sure[mask]
        return replace(self, inputs=inputs, losses=losses, since=since, sure=sure)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows before, and since."""
        since = int(self.since.sum())
        return len(self.since) - since, since


class _Side(NamedTuple):
    """Rows of a part on one side of the onset."""

    rows: int
    mean: float
    error: float
    """Squared standard error of the mean."""
    freedom: float

    @classmethod
    def of(cls, losses: Floats, block: int) -> "_Side":
        rows = len(losses)
        if rows < 2:
            return cls(rows, float(losses.sum()), inf, 1.0)
        own = max(2.0, rows / block)
        return cls(rows, float(losses.mean()), float(losses.var(ddof=1)) / own, own - 1.0)


class Change(NamedTuple):
    """Change of the mean loss of some rows."""

    before: _Side
    since: _Side

    @classmethod
    def of(cls, sample: Sample, mask: Mask, block: int) -> "Change":
        losses = sample.losses
        return cls(_Side.of(losses[mask & ~sample.since], block), _Side.of(losses[mask & sample.since], block))

    @property
    def rise(self) -> float:
        return self.since.mean - self.before.mean

    @property
    def error(self) -> float:
        """Squared standard error of the rise."""
        return self.before.error + self.since.error

    def interval(self) -> tuple[float, float]:
        """Return the interval of the rise."""
        reach = float(stdtrit(_freedom(self), 0.5 + 0.5 * _CONFIDENCE)) * self.error**0.5
        return self.rise - reach, self.rise + reach


def _freedom(*changes: Change) -> float:
    """Return the degrees of freedom of a sum or difference of rises (Welch, Satterthwaite)."""
    sides = [side for change in changes for side in change]
    whole = sum(side.error for side in sides)
    if not 0.0 < whole < inf:
        return 1.0
    return 1.0 / sum((side.error / whole) ** 2 / side.freedom for side in sides)


Of = Literal["loss", "events"]


def locate(rows: NDArray[np.int64], sample: Sample, of: Of, key: NDArray[np.uint64], block: int = 1) -> Where | None:
    """Return where the loss rose, or where more events fall; None if there are too few rows on either side.

    Parameters
    ----------
    rows
        (n,) numbers of the rows, ascending. At most `SIDE` rows on each side of the onset count: the nearest.
    of
        ``loss`` or ``events``.
    key
        Key of the stream's draws.
    block
        Number of neighbouring rows that tell as much as one independent row. They belong to the same half.
    """
    onset, _ = sample.sizes
    near = slice(max(0, onset - SIDE), onset + SIDE)
    rows, sample = rows[near], sample.part(near)
    if min(sample.sizes) < _FEWEST:
        return None
    roots = replace(sample, losses=np.sign(sample.losses) * np.sqrt(np.abs(sample.losses)))
    grows = np.array([below(2, key, row // block, _PURPOSE, 0) for row in rows.tolist()]) == 0
    grown, held = roots.part(grows), roots.part(~grows)
    if min(*grown.sizes, *held.sizes) < _FEWEST // 4:
        return None
    missing = np.asarray(np.isnan(sample.inputs).any(axis=0))
    return _judged(held, sample.part(~grows & sample.sure), of, _grown(grown, of, DEPTH, ()), block, missing)


def warm_up() -> None:
    """Compile the kernel that `locate` calls."""
    below(2, stream_key(0, ""), 0, _PURPOSE, 0)


@dataclass(frozen=True)
class _Node:
    """A node of the tree, which a path names; a leaf has no children."""

    path: Path
    children: tuple["_Node", ...] = ()

    @property
    def leaves(self) -> list[Path]:
        """Leaves below the node."""
        return [leaf for child in self.children for leaf in child.leaves] if self.children else [self.path]


def _grown(sample: Sample, of: Of, depth: int, path: Path) -> _Node:
    """Return the tree below a node."""
    split = _best(sample, of) if depth else None
    if split is None:
        return _Node(path)
    yes = split.holds(sample.inputs)
    answers = ((yes, True), (~yes, False))
    return _Node(
        path, tuple(_grown(sample.part(mask), of, depth - 1, (*path, (split, answer))) for mask, answer in answers)
    )


def _best(sample: Sample, of: Of) -> Split | None:
    """Return the split of the rows whose parts differ most; None if no two differ."""
    since = sample.since.astype(np.float64)
    columns = np.column_stack([1.0 - since, since, (1.0 - since) * sample.losses, since * sample.losses])
    node = _Sums(columns, columns.sum(axis=0), of, _variance(sample, of))
    if not node.variance > 0.0:
        return None
    found = [
        _best_number(sample, node),
        *(_best_category(sample, j, node) for j, kind in enumerate(sample.kinds) if kind),
    ]
    best = max(
        (one for one in [*found, _best_missing(sample, node)] if one is not None), key=itemgetter(0), default=None
    )
    return best[1] if best is not None and best[0] >= _GAIN else None


def _variance(sample: Sample, of: Of) -> float:
    """Return the variance of single rows if nothing differs."""
    before, since = sample.sizes
    if not before or not since:
        return 0.0
    if of == "events":
        return before * since / (before + since) ** 2
    sides = [sample.losses[side] for side in (sample.since, ~sample.since)]
    return float(sum(((side - side.mean()) ** 2).sum() for side in sides)) / (before + since)


class _Sums(NamedTuple):
    """Sums over the rows of a node, by which its splits are compared."""

    columns: Floats
    """(n, 4) summands of each row: 1 before, 1 since, its loss before, its loss since; 0 otherwise."""
    whole: Floats
    """(4,) their sums."""
    of: Of
    variance: float

    def changes(self, sums: Floats) -> tuple[Floats, Floats]:
        """Return weights and changes of parts with (4, ...) sums: of the mean loss, or of the share of rows since."""
        before, since, loss_before, loss_since = sums
        with np.errstate(all="ignore"):
            if self.of == "events":
                return before + since, since / (before + since)
            return before * since / (before + since), loss_since / since - loss_before / before

    def gains(self, yes: Floats) -> Floats:
        """Return the chi-square statistics of splits with (4, ...) sums of one part; -1 where a part is too small."""
        no = self.whole.reshape(4, *[1] * (yes.ndim - 1)) - yes
        weight, change = self.changes(yes)
        other_weight, other_change = self.changes(no)
        sizes = np.stack([part[:2] for part in (yes, no)])
        fits = (sizes.sum(axis=1) >= 2 * _LEAF if self.of == "events" else sizes.min(axis=1) >= _LEAF).all(axis=0)
        with np.errstate(all="ignore"):
            gains = weight * other_weight / (weight + other_weight) * (change - other_change) ** 2 / self.variance
        return np.where(fits & np.isfinite(gains), gains, -1.0)


_Found = tuple[float, Split] | None


def _best_number(sample: Sample, node: _Sums) -> _Found:
    slots = [j for j, kind in enumerate(sample.kinds) if kind == _NUMBER]
    if not slots or len(sample.losses) < 2:
        return None
    values = sample.inputs[:, slots]
    order = np.argsort(values, axis=0, kind="stable")  # missing values come last
    ordered = np.take_along_axis(values, order, axis=0)
    present = (~np.isnan(values)).sum(axis=0)[np.newaxis]
    begun = [np.pad(np.cumsum(column[order], axis=0), ((1, 0), (0, 0))) for column in node.columns.T]
    above = np.array([(np.take_along_axis(sums, present, axis=0) - sums)[1:-1] for sums in begun])
    gains = np.where(ordered[:-1] < ordered[1:], node.gains(above), -1.0)
    place, j = np.unravel_index(int(gains.argmax()), gains.shape)
    if gains[place, j] < _GAIN:
        return None
    # the shortest texts of values in single precision: those values that were rounded to it, if they have few digits
    last, first = (float(str(np.float32(one))) for one in (ordered[place, j], ordered[place + 1, j]))
    return float(gains[place, j]), Split(slots[j], roundest(last, first))


def _best_category(sample: Sample, slot: int, node: _Sums) -> _Found:
    """Return the best set of up to `_CATEGORIES` categories: a single one, or those that changed most or least."""
    column = sample.inputs[:, slot]
    named = sample.texts.get(slot, {}) if sample.kinds[slot] == _TEXT else (0.0, 1.0)
    codes = [code for code in np.unique(column[~np.isnan(column)]).tolist() if code in named]
    if not codes:
        return None
    each = np.array([node.columns[column == code].sum(axis=0) for code in codes])
    weights, changes = node.changes(each.T)
    steps = np.nan_to_num(weights / (weights + _PRIOR) * (changes - node.changes(node.whole)[1]))
    order = np.argsort(-steps, kind="stable").tolist()
    sets = [[place] for place in range(len(codes))]
    sets += [ranked[:size] for ranked in (order, order[::-1]) for size in range(2, 1 + min(_CATEGORIES, len(codes)))]
    gains = node.gains(np.array([each[one].sum(axis=0) for one in sets]).T)
    best = int((gains >= gains.max() - _TIE * abs(gains.max())).argmax())
    return float(gains[best]), Split(slot, codes=tuple(sorted(codes[place] for place in sets[best])))


def _best_missing(sample: Sample, node: _Sums) -> _Found:
    missing = np.isnan(sample.inputs)
    if not missing.any():
        return None
    gains = node.gains(np.array([(missing * column[:, np.newaxis]).sum(axis=0) for column in node.columns.T]))
    slot = int(gains.argmax())
    return float(gains[slot]), Split(slot)


def roundest(a: float, b: float) -> float:
    """Return a number above `a` and at most `b` with as few digits as possible, near the middle if there are several.

    >>> roundest(13.7, 16.2), roundest(0.1234, 0.1239), roundest(19.0, 20.0), roundest(-0.5, 0.5)
    (15.0, 0.1236, 20.0, 0.0)
    """
    if a < 0.0 <= b:
        return 0.0
    if a == b:
        return b
    first = -floor(log10(max(abs(a), abs(b))))
    for digits in range(first, first + 17):
        for candidate in (round(0.5 * a + 0.5 * b, digits), round(b, digits)):
            if a < candidate <= b:
                return candidate
    return b


def _mask(path: Path, inputs: Floats) -> Mask:
    """Return (n,) which rows are in a node."""
    mask = np.ones(len(inputs), np.bool_)
    for split, answer in path:
        mask &= split.holds(inputs) == answer
    return mask


def _judged(held: Sample, sure: Sample, of: Of, tree: _Node, block: int, missing: Mask) -> Where:
    """Test the leaves on rows that the tree has not seen, and return the segments among them.

    Parameters
    ----------
    held
        These rows, with square roots of losses.
    sure
        Those of them from which the numbers are computed.
    """
    masks = {path: _mask(path, held.inputs) for path in tree.leaves}
    chosen = _holm({path: _chance(held, of, mask, block) for path, mask in masks.items() if not mask.all()})
    segments = _merged(held, of, tree, set(chosen), block)
    parts = {path: _part(held, _mask(path, held.inputs), of, block) for path in segments}
    ranked = sorted((path for path in parts if parts[path].worth > 0.0), key=lambda path: -parts[path].worth)[:SEGMENTS]
    inside = np.zeros(len(held.losses), np.bool_)
    for path in ranked:
        inside |= _mask(path, held.inputs)
    extent = _extent(held, of, masks, inside, block) if min(sure.sizes) >= _FEWEST // 4 else "unknown"
    before, since = sure.sizes
    change = 0.0 if extent == "unknown" else _change(sure, of, tree.leaves, block)
    if not change > 0.0:  # single large losses before the change, whose square roots hide them
        extent, change = "unknown", 0.0
    named = [_segment(sure, of, path, change, block, missing) for path in ranked] if extent == "segments" else []
    return Where(of, extent, before, since, change, named)


def _change(sample: Sample, of: Of, leaves: Sequence[Path], block: int) -> float:
    """Return the rise of the mean loss, or the sum of the rises of the leaves' shares."""
    if of == "loss":
        return float(sample.losses[sample.since].mean() - sample.losses[~sample.since].mean())
    return sum(max(0.0, _part(sample, _mask(path, sample.inputs), of, block).worth) for path in leaves)


def _extent(
    sample: Sample, of: Of, masks: Mapping[Path, Mask], inside: Mask, block: int
) -> Literal["segments", "everywhere", "unknown"]:
    """Return whether the change is in the segments, or else whether the loss surely rose in the other rows, too.

    Without segments, these are the rows outside of the leaf where it rose most.
    """
    there = _part(sample, inside, of, block)
    if of == "events":
        growth = _change(sample, of, [*masks], block)
        return "segments" if there.worth >= _CARRIED * growth > 0.0 else "unknown"
    here = _part(sample, ~inside, of, block)
    if inside.any():
        small = here.change.rise < _LOCAL * there.change.rise and there.share_since <= _LARGEST_SHARE
        if small and there.worth >= _CARRIED * (there.worth + here.worth):
            return "segments"
    elif len(masks) > 1:
        most = max(masks, key=lambda path: _part(sample, masks[path], of, block).worth)
        here = _part(sample, ~masks[most], of, block)
    error = here.change.error
    return "everywhere" if error < inf and here.change.rise > _RISEN * error**0.5 else "unknown"


class _Part(NamedTuple):
    """A part of the rows."""

    share_before: float
    share_since: float
    change: Change
    got_worse: float
    more_events: float
    low: float
    high: float
    of_events: bool = False

    @property
    def worth(self) -> float:
        """Contribution of the part to the change."""
        return self.got_worse + self.more_events

    @property
    def rise(self) -> float:
        """How much the part changed by itself."""
        share = self.share_before + self.share_since
        return self.more_events / max(share, 1e-9) if self.of_events else self.change.rise


def _part(sample: Sample, mask: Mask, of: Of, block: int) -> _Part:
    change = Change.of(sample, mask, block)
    before, since = sample.sizes
    p, q = change.before.rows / before, change.since.rows / since
    if of == "events":
        error = (block * (p * (1.0 - p) / before + q * (1.0 - q) / since)) ** 0.5
        reach = float(stdtrit(max(1.0, (before + since) / block - 2.0), 0.5 + 0.5 * _CONFIDENCE)) * error
        return _Part(p, q, change, 0.0, q - p, q - p - reach, q - p + reach, True)
    center = 0.5 * (float(sample.losses[~sample.since].mean()) + float(sample.losses[sample.since].mean()))
    then, now = change.before.mean if change.before.rows else center, change.since.mean if change.since.rows else center
    got_worse = (now - then) * (p + q) / 2.0
    return _Part(p, q, change, got_worse, (q - p) * ((then + now) / 2.0 - center), *change.interval())


def _chance(sample: Sample, of: Of, mask: Mask, block: int) -> float:
    """Return the p-value of "the loss rose no more here than elsewhere", or "no more events fall here than before"."""
    if of == "events":
        part = _part(sample, mask, of, block)
        before, since = sample.sizes
        p = (part.share_before * before + part.share_since * since) / (before + since)
        error = block * p * (1.0 - p) * (1.0 / before + 1.0 / since)
        gap, freedom = part.more_events, max(1.0, (before + since) / block - 2.0)
    else:
        here, there = Change.of(sample, mask, block), Change.of(sample, ~mask, block)
        gap, error, freedom = here.rise - there.rise, here.error + there.error, _freedom(here, there)
    if not 0.0 < error < inf:
        return 0.0 if error == 0.0 and gap > 0.0 else 1.0
    return float(stdtr(freedom, -gap / error**0.5))


def _holm(chances: Mapping[Path, float]) -> list[Path]:
    """Return the leaves that differ, at the family-wise level `_CHANCE` (Holm 1979)."""
    chosen: list[Path] = []
    for done, path in enumerate(sorted(chances, key=lambda path: chances[path])):
        if chances[path] > _CHANCE / (len(chances) - done):
            break
        chosen.append(path)
    return chosen


def _merged(sample: Sample, of: Of, node: _Node, chosen: Collection[Path], block: int) -> list[Path]:
    """Return the chosen leaves, and in place of one whose sibling changed about as much, their parent."""
    if not node.children:
        return [node.path] if node.path in chosen else []
    found = [_merged(sample, of, child, chosen, block) for child in node.children]
    whole = [of_child == [child.path] for of_child, child in zip(found, node.children, strict=True)]
    if any(whole) and node.path:
        rises = [_part(sample, _mask(child.path, sample.inputs), of, block).rise for child in node.children]
        if all(whole) or min(rises) >= _ALIKE * max(rises):
            return [node.path]
    return [path for of_child in found for path in of_child]


def _segment(sample: Sample, of: Of, path: Path, change: float, block: int, missing: Mask) -> Segment:
    part = _part(sample, _mask(path, sample.inputs), of, block)
    conditions = conditions_of(path, sample.names, sample.kinds, sample.texts, missing)
    known, carried = part.high - part.low < inf, part.worth / change if change > 0.0 else inf
    return Segment(
        conditions=conditions,
        text=" and ".join(map(in_words, conditions)),
        share_before=part.share_before,
        share_since=part.share_since,
        loss_before=part.change.before.mean if of == "loss" and part.change.before.rows else None,
        loss_since=part.change.since.mean if of == "loss" and part.change.since.rows else None,
        low=part.low if known else None,
        high=part.high if known else None,
        carried=carried if abs(carried) < inf else None,
    )


def conditions_of(
    path: Path, names: Sequence[str], kinds: Sequence[int], texts: Texts, missing: Mask
) -> list[Condition]:
    """Return the questions and answers on the way to a node as conditions, at most two on a feature.

    Parameters
    ----------
    missing
        (d,) whether values of each feature were missing in some rows.
    """
    conditions: list[Condition] = []
    for slot in dict.fromkeys(split.slot for split, _ in path):
        own = [(split, answer) for split, answer in path if split.slot == slot]
        of_values = [(split, answer) for split, answer in own if split.of_values]
        of_missing = [answer for split, answer in own if not split.of_values]
        if any(of_missing):
            conditions.append(Condition(names[slot], "missing", [], True))
            continue
        with_missing = bool(missing[slot]) and not of_missing and not any(answer for _, answer in of_values)
        lows = [split.low for split, answer in of_values if answer and split.low is not None]
        highs = [split.low for split, answer in of_values if not answer and split.low is not None]
        among = [set(split.codes) for split, answer in of_values if answer and split.codes]
        others = [set(split.codes) for split, answer in of_values if not answer and split.codes]
        if lows:
            conditions.append(Condition(names[slot], ">=", [max(lows)], False))
        if highs:
            conditions.append(Condition(names[slot], "<", [min(highs)], with_missing))
        if among:
            codes = set.intersection(*among).difference(*others)
            conditions.append(Condition(names[slot], "in", _values(slot, codes, kinds, texts), False))
        elif others and kinds[slot] == _BOOLEAN and not with_missing:
            conditions.append(Condition(names[slot], "in", [0.0 in set.union(*others)], False))
        elif others:
            codes = set.union(*others)
            conditions.append(Condition(names[slot], "not in", _values(slot, codes, kinds, texts), with_missing))
        if not of_values:
            conditions.append(Condition(names[slot], "present", [], False))
    return conditions


def _values(slot: int, codes: Iterable[float], kinds: Sequence[int], texts: Texts) -> list[float | bool | str]:
    return [texts[slot][int(code)] if kinds[slot] == _TEXT else bool(code) for code in sorted(codes)]


def in_words(condition: Condition) -> str:
    """Return a condition for people.

    >>> in_words(Condition("hour", "<", [15.0], True)), in_words(Condition("region", "in", ["north"], False))
    ('hour < 15 or missing', 'region = north')
    """
    values = [
        value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value:.12g}"
        for value in condition.values
    ]
    match condition.op:
        case "in" | "not in" if len(values) == 1:
            text = f"{condition.feature} {'=' if condition.op == 'in' else '!='} {values[0]}"
        case "in" | "not in":
            text = f"{condition.feature} {condition.op} ({', '.join(values)})"
        case ">=" | "<":
            text = f"{condition.feature} {condition.op} {values[0]}"
        case _:
            return f"{condition.feature} is {condition.op}"
    return f"{text} or missing" if condition.missing else text
