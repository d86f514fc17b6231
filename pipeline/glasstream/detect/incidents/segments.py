"""Weak segments of a stream: where the loss is higher than elsewhere, again and again.

After each block of rows, the `CANDIDATES` clearest candidates of all rows so far, as
`glasstream.detect.incidents.lattice` ranks them, form a cohort. The next `COHORTS` blocks test it. They had no part in
the choice, so that the test needs a correction for the candidates of one cohort only, and its numbers are not biased by
the choice. Each record is about the oldest cohort.

A candidate is a weak segment if the loss is higher in it than in all other rows, and for a box of two features also
higher than in the rest of both intervals. The test is Welch's, of the excess over the mean loss of the compared rows in
the same block, with Bonferroni's correction. If rows resemble their neighbours, so many rows count as one as for the
watch for incidents, which also provides the bins of the features and the limits beyond which losses are outliers.

Weak segments are named from the clearest one on. Another one is named only if the loss is also higher in its rows
outside each segment named before, compared with the rows outside both. Otherwise all features that depend on the weak
one would be named.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from glasstream.base import form
from glasstream.base.form import FINITE, LARGEST, LARGEST_SQUARE, MOST, Count, Field
from glasstream.detect.incidents import lattice
from glasstream.detect.incidents.betting import EDGES
from glasstream.detect.incidents.lattice import BINS, BLOCK, BOX, CANDIDATES, COMMON, COMPARED, CUTS, HALF_LIFE, SUMS
from glasstream.detect.incidents.recent import Texts
from glasstream.detect.incidents.series import Series
from glasstream.detect.incidents.where import Path, Split, conditions_of, in_words, roundest
from glasstream.events.features import Kind
from glasstream_topics.segments import Segments, WeakSegment

PAIRED: Final = 8
"""Most features that are combined in pairs: those of the highest importance."""

COHORTS: Final = 5
"""Number of blocks that test a cohort."""

NAMED: Final = 5
"""Most segments that are named."""

Floats = NDArray[np.float64]

_HALF: Final = CANDIDATES // 2
_KEPT: Final = 0.5 ** (1 / HALF_LIFE)
"""Weight of a block when candidates are chosen, compared with that of the next one."""
_STAYS = 1.25  # times the importance of the least important feature in pairs, from which on another one replaces it
_FEWEST = 30.0  # rows of a candidate, and of the rows that it is compared with, for a test
_ROUNDED = 1e30  # largest value whose cuts are rounded
_OF: Final = "segments"
_SQUARE: Final = LARGEST_SQUARE
_CELLS: Final = {
    "singles": Field("f8", ("features", BINS, 3), -_SQUARE, _SQUARE),
    "pairs": Field("f8", ("pairs", BINS, BINS, 3), -_SQUARE, _SQUARE),
    "past_singles": Field("f8", ("features", BINS, 3), -_SQUARE, _SQUARE),
    "past_pairs": Field("f8", ("pairs", BINS, BINS, 3), -_SQUARE, _SQUARE),
    "whole": Field("f8", (3,), -_SQUARE, _SQUARE),
}
"""Arrays of numbers of rows, sums and squares of their loss."""
_FEATURES: Final = {
    "edges": Field("f8", ("features", EDGES), -FINITE, FINITE),
    "edged": Field("i8", ("features",), -1, EDGES, start=-1),
    "cuts": Field("f8", ("features", CUTS), -FINITE, FINITE),
    "used": Field("i8", ("features",), -1, CUTS, start=-1),
    "importance": Field("f8", ("features",), -_SQUARE, _SQUARE),
    "past_importance": Field("f8", ("features",), -_SQUARE, _SQUARE),
}
_COHORTS: Final = {
    "candidates": Field("i8", ("cohorts", CANDIDATES, BOX), -1, MOST),
    "tested": Field("f8", ("cohorts", CANDIDATES, COMPARED, SUMS), -_SQUARE, _SQUARE),
    "common": Field("f8", ("cohorts", COMMON, 3), -_SQUARE, _SQUARE),
    "apart": Field("f8", ("cohorts", CANDIDATES, CANDIDATES, SUMS), -_SQUARE, _SQUARE),
    "totals": Field("f8", ("cohorts", 2), -LARGEST * MOST, LARGEST * MOST),
}
_OTHERS: Final = {
    "limits": Field("f8", (2,), -LARGEST, LARGEST),
    "named": Field("i8", ("named", BOX), -1, MOST),
}
_BY_FEATURE: Final = ("singles", "past_singles", *_FEATURES)


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of `WeakSegments`."""

    chosen: Annotated[list[Count], msgspec.Meta(max_length=PAIRED)]
    cohorts: Annotated[list[tuple[Count, Count]], msgspec.Meta(max_length=COHORTS)]
    since: Annotated[list[Count], msgspec.Meta(max_length=NAMED)]


class _Tested(NamedTuple):
    """What the test of one comparison shows."""

    excess: float
    reach: float
    """Half the length of the interval of the excess."""

    @property
    def is_sure(self) -> bool:
        return self.excess > self.reach

    @property
    def clearness(self) -> float:
        return self.excess / self.reach if self.reach > 0.0 else np.inf


@dataclass(slots=True)
class WeakSegments:
    """Weak segments of one stream. They are a function of its rows in order, however they are cut into pieces.

    Parameters
    ----------
    stream, epoch
        Name and epoch of the stream.
    level
        Probability of naming any segment in a record if the loss does not depend on the features.
    """

    stream: str
    epoch: int
    level: float
    names: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    """Kinds of the features: 0 number, 1 boolean, 2 text."""
    chosen: list[int] = field(default_factory=list)
    """Slots of the features in pairs, ascending."""
    cohorts: list[tuple[int, int]] = field(default_factory=list)
    """First row after the choice of each cohort, oldest first, and the number of candidates that it was chosen from."""
    since: list[int] = field(default_factory=list)
    """For each segment that was named last: the row since which it has been."""
    arrays: dict[str, NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        sizes = {"features": 0, "pairs": 0, "cohorts": 0, "named": 0}
        self.arrays = form.empty({**_CELLS, **_FEATURES, **_COHORTS, **_OTHERS}, **sizes)
        self.arrays["limits"][:] = -LARGEST, LARGEST

    @property
    def until_due(self) -> int:
        """Number of rows until the block is full."""
        return BLOCK - int(self.arrays["whole"][0])

    def widen(self, names: Sequence[str], kinds: Sequence[int]) -> None:
        """Add features, given the names and kinds of all."""
        more = len(names) - len(self.names)
        if more > 0:
            fresh = form.empty({name: {**_CELLS, **_FEATURES}[name] for name in _BY_FEATURE}, features=more)
            for name, array in fresh.items():
                self.arrays[name] = np.concatenate([self.arrays[name], array])
            # whole blocks have a cell of each row for each feature
            self.arrays["singles"][-more:, 0] = self.arrays["whole"]
            self.names, self.kinds = list(names), [int(kind) for kind in kinds]

    def add(self, inputs: Floats, losses: Floats, importance: Floats | None) -> None:
        """Add rows, at most as many as are missing in the block.

        Parameters
        ----------
        inputs
            (n, d) values of the features, NaN where one is absent; texts as codes.
        losses
            (n,)
        importance
            (n, d) contributions to the importance of each feature; None if there are none.
        """
        arrays = self.arrays
        lattice.add_rows(
            np.ascontiguousarray(inputs, np.float64),
            np.clip(losses, *arrays["limits"]),
            np.zeros((len(losses), 0)) if importance is None else np.ascontiguousarray(importance, np.float64),
            arrays["cuts"],
            arrays["used"],
            np.array(self.kinds, np.int64) != Kind.NUMBER,
            np.array(self.chosen, np.int64),
            arrays["candidates"],
            np.empty(len(self.kinds), np.int64),
            np.empty((len(self.kinds), BINS), np.uint64),
            arrays["singles"],
            arrays["pairs"],
            arrays["common"],
            arrays["whole"],
            arrays["importance"],
        )

    def look(self, row: int, seq: int, loss_name: str, series: Series, texts: Texts) -> Segments | None:
        """Close a full block: test the cohorts, and choose the next one. Return a record if a cohort has been tested.

        Parameters
        ----------
        row, seq
            The newest row, and its event.
        series
            The series of the watch for incidents, as of this row.
        texts
            Names of categories, by feature and code.
        """
        arrays, chosen = self.arrays, np.array(self.chosen, np.int64)
        whole = arrays["whole"]
        block = arrays["singles"], arrays["pairs"], whole
        of_cohorts = (arrays[name] for name in ("candidates", "tested", "common", "apart"))
        for cohort in zip(*of_cohorts, strict=True):
            lattice.tally(*cohort, chosen, *block)
        arrays["totals"] += whole[:2]
        record = self._record(row, seq, loss_name, int(series.arrays["level_block"][0]), texts)
        self._fold()
        if len(self.cohorts) == COHORTS:
            self._keep_cohorts(slice(1, None))
        low, high = (limits[0] for limits in series.bounds())
        arrays["limits"][:] = max(-LARGEST, low), min(LARGEST, high)
        self._adopt(series, texts)
        self._choose_features()
        self._choose_candidates(row + 1)
        return record

    def _fold(self) -> None:
        """Add the block to the sums over blocks, and empty it."""
        count, loss, _ = self.arrays["whole"]
        mean = loss / count
        for name in ("singles", "pairs"):
            now, past = self.arrays[name], self.arrays[f"past_{name}"]
            past *= _KEPT
            past[..., 0] += now[..., 0]
            past[..., 1] += now[..., 1] - now[..., 0] * mean
            past[..., 2] += np.maximum(0.0, now[..., 2] - 2.0 * mean * now[..., 1] + now[..., 0] * mean * mean)
            now[...] = 0.0
        self.arrays["common"][:] = 0.0
        self.arrays["past_importance"] *= _KEPT
        self.arrays["past_importance"] += self.arrays["importance"]
        self.arrays["importance"][:] = 0.0
        self.arrays["whole"][:] = 0.0

    def _adopt(self, series: Series, texts: Texts) -> None:
        """Take over the bins that the watch for incidents has made, and start the cells of these features over."""
        arrays = self.arrays
        for slot, own in edges_made(series, arrays):
            if self.kinds[slot] == Kind.NUMBER:
                cuts = cuts_between(own, CUTS)
            else:
                counts = series.arrays["counts"][1 + slot, 2 : 2 + 2 * len(own) : 2]
                named = texts.get(slot, {}) if self.kinds[slot] == Kind.TEXT else (0.0, 1.0)
                cuts = _categories(own, counts, named)
            arrays["cuts"][slot], arrays["used"][slot] = 0.0, len(cuts)
            arrays["cuts"][slot, : len(cuts)] = cuts
            self._forget(slot)

    def _forget(self, slot: int) -> None:
        """Forget all that the bins of a feature took part in."""
        arrays = self.arrays
        arrays["past_singles"][slot] = 0.0
        for place, pair in enumerate(pairs_of(self.chosen)):
            if slot in pair:
                arrays["past_pairs"][place] = 0.0
        self._drop([slot])

    def _drop(self, slots: Sequence[int], *, boxes_only: bool = False) -> None:
        """Drop the candidates of some features, or boxes only, and what was named of them."""
        arrays = self.arrays
        for name in ("candidates", "named"):
            boxes = arrays[name]
            gone = np.isin(boxes[..., [0, 3]], slots).any(axis=-1)
            boxes[gone & ((boxes[..., 3] >= 0) | (not boxes_only)), 0] = -1
        keeps = arrays["named"][:, 0] >= 0
        arrays["named"] = arrays["named"][keeps]
        self.since = [since for since, stays in zip(self.since, keeps.tolist(), strict=True) if stays]

    def _choose_features(self) -> None:
        """Combine the features of the highest importance in pairs."""
        importance, binned = self.arrays["past_importance"], self.arrays["used"] > 0
        order = np.lexsort((np.arange(len(importance)), -importance))
        ranked = [int(slot) for slot in order if binned[slot] and importance[slot] > 0.0]
        chosen = [slot for slot in self.chosen if binned[slot]]
        for slot in ranked[:PAIRED]:
            if slot in chosen:
                continue
            if len(chosen) == PAIRED:
                least = min(chosen, key=lambda one: (importance[one], -one))
                if importance[slot] <= _STAYS * importance[least]:
                    continue
                chosen.remove(least)
            chosen.append(slot)
        chosen.sort()
        if chosen != self.chosen:
            self._combine(chosen)

    def _combine(self, chosen: list[int]) -> None:
        """Change the features in pairs. Pairs of features that stay keep their sums; new ones begin with the block."""
        places = {pair: place for place, pair in enumerate(pairs_of(self.chosen))}
        pairs = pairs_of(chosen)
        fresh = form.empty({name: _CELLS[name] for name in ("pairs", "past_pairs")}, pairs=len(pairs))
        for place, pair in enumerate(pairs):
            if pair in places:
                fresh["past_pairs"][place] = self.arrays["past_pairs"][places[pair]]
        self.arrays |= fresh
        self._drop([slot for slot in self.chosen if slot not in chosen], boxes_only=True)
        self.chosen = chosen

    def _choose_candidates(self, first_row: int) -> None:
        """Form a cohort of the clearest candidates, which rows from `first_row` on test."""
        arrays = self.arrays
        categories = np.array(self.kinds, np.int64) != Kind.NUMBER
        used, chosen = arrays["used"], np.array(self.chosen, np.int64)
        scores, bins, looked = lattice.best_intervals(arrays["past_singles"], used, categories)
        box_scores, boxes, more = lattice.best_boxes(arrays["past_pairs"], chosen, used, categories)
        cohort = np.full((CANDIDATES, BOX), -1)
        for place, slot in enumerate(_clearest(scores)):
            cohort[place] = slot, *bins[slot], -1, 0, 0
        for place, pair in enumerate(_clearest(box_scores), _HALF):
            cohort[place] = boxes[pair]
        fresh = form.empty(_COHORTS, cohorts=1) | {"candidates": cohort[np.newaxis]}
        for name, array in fresh.items():
            arrays[name] = np.concatenate([arrays[name], array])
        self.cohorts = [*self.cohorts, (first_row, int(looked + more))]
        while self.cohorts and not self.cohorts[0][1]:  # no rows have been counted in bins yet
            self._keep_cohorts(slice(1, None))

    def _keep_cohorts(self, kept: slice) -> None:
        self.cohorts = self.cohorts[kept]
        for name in _COHORTS:
            self.arrays[name] = self.arrays[name][kept]

    def _record(self, row: int, seq: int, loss_name: str, neighbours: int, texts: Texts) -> Segments | None:
        """Return what the test of the oldest cohort shows; None if there is no cohort.

        Parameters
        ----------
        neighbours
            Number of neighbouring rows that tell as much as one independent row.
        """
        if not self.cohorts:
            return None
        arrays, (first_row, looked) = self.arrays, self.cohorts[0]
        rows, loss = arrays["totals"][0].tolist()
        candidates, sums, apart = (arrays[name][0] for name in ("candidates", "tested", "apart"))
        found: dict[int, _Tested] = {}
        for place in np.flatnonzero(candidates[:, 0] >= 0).tolist():
            compared = COMPARED if candidates[place, 3] >= 0 else 1
            tests = [self._test(one, neighbours) for one in sums[place, :compared]]
            if tests[0] is not None and all(one is not None and one.is_sure for one in tests):
                found[place] = tests[0]
        segments: list[WeakSegment] = []
        named: list[int] = []
        since: list[int] = []
        taken: set[int] = set()
        for place in sorted(found, key=lambda one: -found[one].clearness):
            slots = {slot for slot in candidates[place, [0, 3]].tolist() if slot >= 0}
            outside = [self._test(apart[place, before], neighbours) for before in named]
            remains = all(one is not None and one.is_sure for one in outside)
            if remains and taken.isdisjoint(slots) and len(named) < NAMED:
                taken |= slots
                named.append(place)
                since.append(self._since(candidates[place], first_row))
                segment = self._segment(found[place], candidates[place], sums[place, 0], rows, since[-1], texts)
                segments.append(segment)
        arrays["named"], self.since = candidates[named], since
        return Segments(
            schema_version=1,
            epoch=self.epoch,
            stream=self.stream,
            row=row,
            seq=seq,
            loss_name=loss_name,
            rows=int(rows),
            loss=loss / rows,
            level=self.level,
            looked=looked,
            tested=int((candidates[:, 0] >= 0).sum()),
            segments=segments,
        )

    def _test(self, sums: Floats, neighbours: int) -> _Tested | None:
        """Return the mean excess of a candidate and its interval; None if too few rows tell."""
        rows, others, _, excess, squares, errors = sums.tolist()
        if min(rows, others) < _FEWEST:
            return None
        mean = excess / rows
        variance = max(0.0, squares - excess * mean) / (rows - 1.0) / rows + errors / rows / rows
        freedom = max(1.0, min(rows, others) / neighbours - 1.0)
        reach = float(stdtrit(freedom, 1.0 - 0.5 * self.level / CANDIDATES)) * float(neighbours * variance) ** 0.5
        return _Tested(mean, reach)

    def _since(self, box: NDArray[np.int64], first_row: int) -> int:
        """Return the row since which a segment has been named, or the first row of its test."""
        for former, since in zip(self.arrays["named"], self.since, strict=True):
            same = (former[[0, 3]] == box[[0, 3]]).all()
            if same and (former[[1, 4]] <= box[[2, 5]]).all() and (box[[1, 4]] <= former[[2, 5]]).all():
                return since
        return first_row

    def _segment(
        self, test: _Tested, box: NDArray[np.int64], sums: Floats, rows: float, since: int, texts: Texts
    ) -> WeakSegment:
        path = [*self._questions(*box[:3].tolist()), *(self._questions(*box[3:].tolist()) if box[3] >= 0 else ())]
        missing = np.zeros(len(self.names), np.bool_)
        conditions = conditions_of(tuple(path), self.names, self.kinds, texts, missing)
        mean = float(sums[2] / sums[0])
        return WeakSegment(
            conditions=conditions,
            text=" and ".join(map(in_words, conditions)),
            share=float(sums[0] / rows),
            loss=mean,
            outside=mean - test.excess,
            low=test.excess - test.reach,
            high=test.excess + test.reach,
            since=since,
        )

    def _questions(self, slot: int, first: int, last: int) -> Path:
        cuts = self.arrays["cuts"][slot, : self.arrays["used"][slot]].tolist()
        return questions(slot, first, last, cuts, self.kinds[slot])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        return {"chosen": self.chosen, "cohorts": self.cohorts, "since": self.since}, dict(self.arrays)

    def restore(
        self,
        meta: object,
        arrays: Mapping[str, NDArray[Any]],
        row: int,
        features: Sequence[tuple[str, int]],
        texts: Texts,
    ) -> None:
        """Restore a saved state.

        Parameters
        ----------
        row
            The newest row.
        features
            Names and kinds of the stream's features.
        texts
            Names of categories that are known, by feature and code.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, _Meta, _OF)
        width, pairs = len(features), len(pairs_of(saved.chosen))
        sizes = {"cohorts": len(saved.cohorts), "named": len(saved.since), "pairs": pairs}
        known = arrays["used"].size if "used" in arrays else 0
        form.expect(known <= width, f"up to {width} features", known, _OF)
        self.widen([name for name, _ in features[:known]], [kind for _, kind in features[:known]])
        self.arrays = form.read({**_CELLS, **_FEATURES, **_COHORTS, **_OTHERS}, arrays, _OF, features=known, **sizes)
        self.chosen, self.cohorts, self.since = saved.chosen, saved.cohorts, saved.since
        self._check_cells(row)
        self._check_features(texts)
        self._check_boxes()

    def _check_cells(self, row: int) -> None:
        """Raise FrameError unless sums are of rows, up to the newest one."""
        arrays = self.arrays
        for name in (*_CELLS, "common"):
            counts, sums, squares = (arrays[name][..., k] for k in range(3))
            form.expect((counts >= 0.0).all() and (counts <= MOST).all(), "numbers of rows", counts, _OF)
            form.expect((np.abs(sums) <= LARGEST * MOST).all(), "sums of losses", sums, _OF)
            form.expect((squares >= 0.0).all(), "squares from 0 on", squares, _OF)
        rows = float(arrays["whole"][0])
        form.expect(rows < BLOCK and rows == int(rows), f"fewer than {BLOCK} rows of a block", rows, _OF)
        now = [arrays["singles"][..., 0].sum(axis=1), arrays["pairs"][..., 0].sum(axis=(1, 2))]
        form.expect(all((counts == rows).all() for counts in now), f"{rows} rows of each feature", now, _OF)
        form.expect((arrays["common"][..., 0] <= rows).all(), "rows of two candidates", arrays["common"][..., 0], _OF)
        totals = arrays["totals"]
        ages = np.arange(len(totals) - 1.0, -1.0, -1.0)
        form.expect(np.array_equal(totals[:, 0], BLOCK * ages), "whole blocks of each cohort", totals, _OF)
        for tested in (arrays["tested"], arrays["apart"]):
            form.expect((tested[..., [0, 1, 4, 5]] >= 0.0).all(), "rows and squares from 0 on", tested, _OF)
            form.expect((np.abs(tested[..., 2:4]) <= LARGEST * MOST).all(), "sums of losses", tested, _OF)
            form.expect((tested[..., 0] <= totals[:, :1, np.newaxis]).all(), "rows of candidates", tested, _OF)
        newest = max([0, *self.since, *(first for first, _ in self.cohorts)])
        form.expect(newest <= row + 1, f"rows up to {row}", newest, _OF)
        low, high = arrays["limits"]
        form.expect(low <= high, "a lower limit up to the upper one", arrays["limits"], _OF)

    def _check_features(self, texts: Texts) -> None:
        """Raise FrameError unless bins are those of edges, and the features in pairs have some."""
        arrays, chosen = self.arrays, self.chosen
        used, cuts, edges, edged = (arrays[name] for name in ("used", "cuts", "edges", "edged"))
        form.expect(((used < 0) == (edged < 0)).all(), "bins with edges", used, _OF)
        for values, count in ((cuts, used), (edges, edged)):
            inside = np.arange(1, values.shape[1]) < count[:, np.newaxis]
            form.expect((np.diff(values) > 0.0)[inside].all(), "ascending numbers", values, _OF)
        for slot in np.flatnonzero(np.array(self.kinds, np.int64) != Kind.NUMBER).tolist():
            named = texts.get(slot, {}) if self.kinds[slot] == Kind.TEXT else (0.0, 1.0)
            own = cuts[slot, : max(0, used[slot])].tolist()
            form.expect(all(code in named for code in own), "categories with a name", own, _OF)
        fits = chosen == sorted(set(chosen)) and all(slot < len(used) and used[slot] > 0 for slot in chosen)
        form.expect(fits, "features in pairs that have bins", chosen, _OF)

    def _check_boxes(self) -> None:
        """Raise FrameError unless candidates are intervals or boxes of bins."""
        categories = np.array(self.kinds, np.int64) != Kind.NUMBER
        boxes = [box for box in self.arrays["candidates"].reshape(-1, BOX).tolist() if box[0] >= 0]
        pairs = set(pairs_of(self.chosen))
        for box in [*boxes, *self.arrays["named"].tolist()]:
            sides = [box[:3], box[3:]] if box[3] >= 0 else [box[:3]]
            fits = len(sides) == 1 or (box[0], box[3]) in pairs
            for slot, first, last in sides:
                fits = fits and 0 <= slot < len(categories) and self.arrays["used"][slot] >= 0
                fits = fits and lattice.is_interval(first, last, int(self.arrays["used"][slot]), bool(categories[slot]))
            form.expect(fits, "intervals of bins", box, _OF)


def warm_up() -> None:
    """Compile what runs when a block is full."""
    weak, series = WeakSegments("small", 0, 0.05), Series(1.0)
    series.widen([0, 0])
    weak.widen(["a", "b"], [0, 0])
    weak._combine([0, 1])
    weak.add(np.zeros((1, 2)), np.zeros(1), None)
    cohort = form.empty(_COHORTS, cohorts=1)
    of_cohort = (cohort[name][0] for name in ("candidates", "tested", "common", "apart"))
    block = (weak.arrays[name] for name in ("singles", "pairs", "whole"))
    lattice.tally(*of_cohort, np.array(weak.chosen), *block)
    weak.look(0, 0, "squared", series, {})


def _clearest(scores: Floats) -> list[int]:
    """Return the places of the largest positive scores, at most half a cohort."""
    order = np.argsort(-scores, kind="stable")[:_HALF].tolist()
    return [place for place in order if scores[place] > 0.0]


def edges_made(series: Series, arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[int, Floats]]:
    """Take over the edges of the features whose bins the watch has made anew, and yield their slots and edges.

    Parameters
    ----------
    arrays
        `edges` and `edged`, their numbers, that were taken over last.
    """
    width = len(arrays["edged"])
    edges, edged = series.arrays["edges"][1 : 1 + width], series.arrays["used"][1 : 1 + width]
    moved = (edged != arrays["edged"]) | (edges != arrays["edges"]).any(axis=1)
    for slot in np.flatnonzero(moved & (edged >= 0)).tolist():
        arrays["edges"][slot], arrays["edged"][slot] = edges[slot], edged[slot]
        yield slot, edges[slot, : edged[slot]]


def pairs_of(chosen: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of features in the order of the arrays of pairs.

    >>> pairs_of([2, 5, 7])
    [(2, 5), (2, 7), (5, 7)]
    """
    return [(chosen[first], chosen[second]) for second in range(len(chosen)) for first in range(second)]


def cuts_between(edges: Floats, most: int) -> list[float]:
    """Return cuts between neighbouring ones of ascending values, about as many values between any two.

    >>> cuts_between(np.arange(4.0), 7), cuts_between(np.arange(16.0), 7)
    ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0])
    """
    gaps = len(edges) - 1
    places = range(gaps) if gaps <= most else [gaps * step // (most + 1) for step in range(1, most + 1)]
    between = [(float(edges[place]), float(edges[place + 1])) for place in places]
    return [roundest(low, high) if max(-low, high) < _ROUNDED else high for low, high in between]


def _categories(codes: Floats, counts: Floats, named: Collection[int | float]) -> list[float]:
    """Return the most frequent categories that have a name, in ascending order."""
    known = [place for place, code in enumerate(codes.tolist()) if code in named]
    return sorted(float(codes[place]) for place in sorted(known, key=lambda place: -counts[place])[:CUTS])


def questions(slot: int, first: int, last: int, cuts: Sequence[float], kind: int) -> Path:
    """Return the conditions on the values of some bins of a feature, given its cuts."""
    if first == 0:
        return ((Split(slot), True),)
    if kind != Kind.NUMBER:
        return ((Split(slot, codes=(cuts[first - 1],)), True),)
    low = ((Split(slot, low=cuts[first - 2]), True),) if first > 1 else ()
    high = ((Split(slot, low=cuts[last - 1]), False),) if last <= len(cuts) else ()
    return (*low, *high)
