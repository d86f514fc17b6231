"""Rises of the loss in few rows: bets on the loss where one feature has certain values.

A fault in 8 % of the rows hardly moves the mean loss. The values of each feature are therefore divided into bins, and
in each bin a Shiryaev-Roberts statistic bets that the loss rises above its mean there. Three groups of rows follow each
other, so that no row both chooses a segment and confirms it:

1. An alarm is raised by a bin whose wealth exceeds its limit.
2. The next rows locate the rise: among intervals of values and boxes of two features, the clearest is the segment
   (`glasstream.detect.incidents.lattice`). They are compared by their excess, the loss less the mean in the same bin
   before, so that what was always worse is no rise. In a box, the expected loss is that of two effects that add up.
3. The rows after these confirm it, and give the numbers since; a model that learns first has time to recover. Outside
   of the segment, the loss must be about as before: a rise everywhere concerns the bets on the mean loss.

If rows resemble their neighbours, a row counts as a part of an independent one: its factor is raised to the power of
1 / block. By Hölder's inequality, bets then still have a mean of at most 1 in each block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from glasstream.base import form
from glasstream.base.form import FINITE, LARGEST, LARGEST_SQUARE, LARGEST_SUM, MOST, Count, Field
from glasstream.base.jit import kernel
from glasstream.detect.incidents import lattice
from glasstream.detect.incidents.betting import EDGES, FURTHEST, LONGEST, MOST_WEALTH
from glasstream.detect.incidents.lattice import BOX, CANDIDATES, place_of
from glasstream.detect.incidents.recent import Texts
from glasstream.detect.incidents.segments import cuts_between, edges_made, pairs_of, questions
from glasstream.detect.incidents.series import NO_TIME, STEP, Series
from glasstream.detect.incidents.where import Split, conditions_of, in_words
from glasstream.events.features import Kind
from glasstream_topics.incidents import Onset, Segment, Where

CUTS: Final = EDGES
"""Most cuts between the bins of a feature, or categories that have a bin of their own."""

BINS: Final = CUTS + 2
"""Number of bins. Bin 0 is for missing values; that of other categories comes after those of the categories."""

_MEMORY = 1_000.0  # rows over which the mean loss of a bin is taken
_KNOWN = 100.0  # rows from which on it is known
_STAKE, _LEAST = 0.3, 0.04  # per standard deviation; smallest factor
_FLOOR = 0.25  # standard deviations of all losses, below which the deviation of a bin does not count
_PAIRED = 5  # most features that are combined in pairs when a rise is located
_LOCATE = 150  # rows of the bin that raised the alarm, by which a rise is located
_RECOVERS = 200  # rows of a segment in which a model that learns may recover
_CONFIRM = 100  # rows of a segment that confirm a rise
_SURE = 3.0  # standard errors by which they do
_MATTERS = 0.2  # standard deviations of all losses: smaller rises open no incident
_ELSEWHERE = 0.25  # part of the rise in a segment that it must exceed elsewhere
_BACK = 0.5  # part of a rise: less is no rise any more
_LOOK, _LOOKS = 200, 3  # rows of a segment in each look at an open incident, and looks until it is normal
_PATIENCE = 10_000  # most rows for each of these steps
_CONFIDENCE = 0.95
_LARGEST_SQUARES = 1e300  # of a sum of squares
_NO_BOX: Final = (-1, 0, 0)
_OF: Final = "local rises"
_BIN: Final = ("features", BINS)
_FORM: Final = {
    "edges": Field("f8", ("features", EDGES), -FINITE, FINITE),
    "edged": Field("i8", ("features",), -1, EDGES, start=-1),
    "cuts": Field("f8", ("features", CUTS), -FINITE, FINITE),
    "used": Field("i8", ("features",), -1, CUTS, start=-1),
    "rows": Field("f8", _BIN, 0, MOST, whole=True),
    "mean": Field("f8", _BIN),
    "variance": Field("f8", _BIN, 0.0, LARGEST_SQUARE),
    "wealth": Field("f8", _BIN, 0.0, MOST_WEALTH),
    "best": Field("f8", _BIN, 0.0, MOST_WEALTH, start=1),
    "start": Field("i8", _BIN, 0, MOST),
    "origin": Field("i8", (*_BIN, 2), -(2.0**63), 2.0**63),
    "then": Field("f8", _BIN),
    "whole": Field("f8", (3,), -LARGEST_SQUARE, LARGEST_SQUARE),
    "block": Field("i8", (1,), 1, LONGEST, start=1),
}
"""The arrays of bins have the number of rows, the mean and variance of their loss, the bet, where its strongest gain
began, the event of that row, and the mean then. `whole` has rows, mean and variance of all losses. `block` is the
number of neighbouring rows that tell as much as one independent row.
"""
_LOCATED: Final = {
    "singles": Field("f8", ("features", BINS, 3), -_LARGEST_SQUARES, _LARGEST_SQUARES),
    "pairs": Field("f8", ("pairs", BINS, BINS, 3), -_LARGEST_SQUARES, _LARGEST_SQUARES),
    "total": Field("f8", (3,), -_LARGEST_SQUARES, _LARGEST_SQUARES),
}
"""Numbers, sums and squares of the losses of the rows that locate a rise; empty otherwise."""

Floats = NDArray[np.float64]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Losses of some rows, and their excess over what was expected."""

    rows: Annotated[float, msgspec.Meta(ge=0, le=MOST)] = 0.0
    loss: Annotated[float, msgspec.Meta(ge=-LARGEST_SUM, le=LARGEST_SUM)] = 0.0
    """Sum of the losses as they are."""
    loss_squares: Annotated[float, msgspec.Meta(ge=0, le=_LARGEST_SQUARES)] = 0.0
    expected: Annotated[float, msgspec.Meta(ge=-LARGEST_SUM, le=LARGEST_SUM)] = 0.0
    """Sum."""
    excess: Annotated[float, msgspec.Meta(ge=-LARGEST_SUM, le=LARGEST_SUM)] = 0.0
    """Sum, without the weight of outliers."""
    squares: Annotated[float, msgspec.Meta(ge=0, le=_LARGEST_SQUARES)] = 0.0
    """Sum of the squares of the excess."""

    @property
    def mean(self) -> float:
        return self.loss / self.rows if self.rows else 0.0

    @property
    def rise(self) -> float:
        """Mean of the losses as they are, over what was expected."""
        return (self.loss - self.expected) / self.rows if self.rows else 0.0

    @property
    def mean_excess(self) -> float:
        return self.excess / self.rows if self.rows else 0.0

    @property
    def error(self) -> float:
        """Squared standard error of the mean excess of independent rows."""
        return self._error(self.squares, self.mean_excess)

    @property
    def error_of_loss(self) -> float:
        """Squared standard error of the mean loss of independent rows."""
        return self._error(self.loss_squares, self.mean)

    def _error(self, squares: float, mean: float) -> float:
        return max(0.0, squares / self.rows - mean * mean) / (self.rows - 1.0) if self.rows >= 2.0 else np.inf


class Rise(msgspec.Struct, forbid_unknown_fields=True):
    """A rise of the loss: an alarm that is located and then confirmed, or an open incident."""

    row: Count
    """The row of the alarm."""
    onset: Onset
    slot: Count
    """The feature of the bin that raised it."""
    bin: Annotated[int, msgspec.Meta(ge=0, lt=BINS)]
    strength: float
    """log10 of the wealth of the bet."""
    chosen: Annotated[list[Count], msgspec.Meta(max_length=_PAIRED)]
    """Features that are combined in pairs, ascending."""
    largest: Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    """Larger losses count as this one."""
    least: Annotated[float, msgspec.Meta(ge=0)]
    """Smallest rise that matters."""
    box: Annotated[list[int], msgspec.Meta(max_length=BOX)] = []
    """The segment: slot, first and last bin, and those of a second feature or -1, 0, 0; empty while it is located."""
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Share of the rows before in the first interval of the segment."""
    error_before: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Squared standard error of their mean loss, of independent rows."""
    waited: bool = False
    """Whether a model that learns has had the rows of the segment in which it may recover."""
    since: tuple[Part, Part, Part] = (Part(), Part(), Part())
    """Rows in the segment, outside, and in its first interval: since it was located, or since the newest look. The
    excess outside and in the interval is that over the means of the bins of the first feature."""
    rows: Annotated[int, msgspec.Meta(ge=0, le=_PATIENCE)] = 0
    """Rows of this step."""
    number: Count = 0
    """Number of the incident; 0 until it is confirmed."""
    means: tuple[float, float] = (0.0, 0.0)
    """Mean loss in the segment before, and when the incident opened."""
    where: Where | None = None
    looks: Annotated[int, msgspec.Meta(ge=0, le=_LOOKS)] = 0

    @property
    def of_two(self) -> bool:
        """Whether the segment has conditions on two features."""
        return self.box[3] >= 0

    @property
    def slots(self) -> list[int]:
        """The features of the segment."""
        return [self.box[0], self.box[3]] if self.of_two else [self.box[0]]

    def begin_again(self) -> None:
        """Begin the next step, without rows."""
        self.since, self.rows = (Part(), Part(), Part()), 0


class Decision(NamedTuple):
    """What the rows of a segment have shown."""

    status: str
    """``open``, ``over`` or ``normal``."""
    rise: Rise


@dataclass(slots=True)
class LocalRises:
    """Bets on the loss in all bins of one stream. They are a function of its rows in order, however blocks are cut.

    Parameters
    ----------
    learns
        Whether the model learns the rows, and so may recover by itself.
    """

    learns: bool = True
    kinds: list[int] = field(default_factory=list)
    """Kinds of the features: 0 number, 1 boolean, 2 text."""
    rise: Rise | None = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=lambda: form.empty(_FORM, features=0))
    located: dict[str, NDArray[Any]] = field(default_factory=lambda: form.empty(_LOCATED, features=0, pairs=0))

    def widen(self, kinds: Sequence[int]) -> None:
        """Add features, given the kinds of all."""
        more = len(kinds) - len(self.kinds)
        of_features = {name: one for name, one in _FORM.items() if one.shape[0] == "features"}
        for name, fresh in form.empty(of_features, features=more).items():
            self.arrays[name] = np.concatenate([self.arrays[name], fresh])
        if len(self.located["singles"]):
            fresh = np.zeros((more, BINS, 3))
            fresh[:, 0] = self.located["total"]
            self.located["singles"] = np.concatenate([self.located["singles"], fresh])
        self.kinds = list(kinds)

    def adopt(self, series: Series, texts: Texts) -> None:
        """Take over the bins that the watch has made, and start the bets of these features over.

        To be called before rows are fed. Bins stay during a rise, and up to `STEP` rows longer.

        Parameters
        ----------
        texts
            Names of categories, by feature and code. A category without a name has no bin of its own.
        """
        arrays = self.arrays
        if self.rise is not None or series.arrays["number"][0] % STEP:
            return  # `Series.feed` ends at these rows, however blocks are cut
        arrays["block"][0] = series.arrays["level_block"][0]
        for slot, own in edges_made(series, arrays):
            if self.kinds[slot] == Kind.NUMBER:
                cuts = cuts_between(own, CUTS)
            else:
                named = texts.get(slot, {}) if self.kinds[slot] == Kind.TEXT else (0.0, 1.0)
                cuts = [code for code in own.tolist() if code in named]
            arrays["cuts"][slot], arrays["used"][slot] = 0.0, len(cuts)
            arrays["cuts"][slot, : len(cuts)] = cuts
            self._begin_anew(slice(slot, slot + 1))

    def feed(
        self, first_row: int, inputs: Floats, losses: Floats, events: NDArray[np.int64], limit: float
    ) -> tuple[int, Decision | None]:
        """Feed rows until something is decided, and return how many were fed, and the decision.

        Fewer rows may be fed without a decision. If it is to open an incident, the caller calls `open`.

        Parameters
        ----------
        inputs
            (n, d) values of the features, NaN where one is absent; texts as codes.
        losses
            (n,)
        events
            (n, 2) number and time of each row's event.
        limit
            Wealth above which a bin raises an alarm.
        """
        if self.rise is not None:
            step = self._gather if self.rise.box else self._locate
            return step(self.rise, inputs[: _PATIENCE - self.rise.rows], losses[: _PATIENCE - self.rise.rows])
        inputs, losses = np.ascontiguousarray(inputs), np.ascontiguousarray(losses)  # one form of the kernel, not two
        names = "cuts", "used", "rows", "mean", "variance", "wealth", "best", "start", "then", "whole"
        tested = (self.arrays[name] for name in names)
        fed, place = feed(first_row, inputs, losses, self._categories, limit, self._block, *tested)
        start = self.arrays["start"]
        fresh = start >= first_row
        self.arrays["origin"][fresh] = events[start[fresh] - first_row]
        if place >= 0:
            self._raise(first_row + int(fed) - 1, *divmod(int(place), BINS))
        return int(fed), None

    def open(self, rise: Rise, number: int, names: Sequence[str], texts: Texts) -> None:
        """Make an incident of a confirmed alarm. Later rows are looked at anew."""
        here = rise.since[0]
        rise.number, rise.means = number, (here.mean - here.rise, here.mean)
        rise.where = self._where(rise, names, texts)
        rise.begin_again()

    def end(self) -> None:
        """End what is under way, and compare all bins with later rows only."""
        self._dismiss()
        self._begin_anew(slice(None))
        self.arrays["whole"][:] = 0.0

    @property
    def _block(self) -> float:
        return float(self.arrays["block"][0])

    @property
    def _categories(self) -> NDArray[np.bool_]:
        return np.asarray(np.array(self.kinds, np.int64) != Kind.NUMBER)

    def _dismiss(self) -> None:
        """Forget an alarm: all bets start over."""
        self.rise, self.located = None, form.empty(_LOCATED, features=0, pairs=0)
        self.arrays["wealth"][:], self.arrays["best"][:] = 0.0, 1.0

    def _begin_anew(self, which: slice) -> None:
        for name in ("rows", "mean", "variance", "wealth"):
            self.arrays[name][which] = 0.0
        self.arrays["best"][which] = 1.0

    def _raise(self, row: int, slot: int, place: int) -> None:
        """Begin to locate a rise."""
        arrays = self.arrays
        first, (seq, time) = int(arrays["start"][slot, place]), arrays["origin"][slot, place].tolist()
        margin, ts = 3 * (row - first) // 4 + 5, None if time == NO_TIME else time
        others = np.where(arrays["used"] >= 0, arrays["best"].max(axis=1), 0.0)
        others[slot] = np.inf
        chosen = sorted(np.argsort(-others, kind="stable")[:_PAIRED].tolist())
        _, mean, variance = arrays["whole"].tolist()
        self.rise = Rise(
            row=row,
            onset=Onset(first, max(0, first - margin), row, seq, ts),
            slot=slot,
            bin=place,
            strength=float(np.log10(max(1.0, arrays["wealth"][slot, place]))),
            chosen=[one for one in chosen if others[one] > 0.0],
            largest=min(LARGEST, mean + FURTHEST * variance**0.5),
            least=_MATTERS * variance**0.5,
        )
        m = len(self.rise.chosen)
        self.located = form.empty(_LOCATED, features=len(self.kinds), pairs=m * (m - 1) // 2)

    @property
    def _known(self) -> NDArray[np.bool_]:
        """(d, BINS) which bins have had enough rows for their mean loss to be known."""
        return np.asarray(self.arrays["rows"] >= _KNOWN)

    def _means(self) -> Floats:
        """Return (d, BINS) the mean loss in each bin: where a bet gains, that before it began to.

        Where it is not known, it is the mean of the bins where it is.
        """
        gains, known = self.arrays["best"] > 1.0, self._known
        means = np.where(gains, self.arrays["then"], self.arrays["mean"])
        rows = self.arrays["rows"] * known
        whole = (rows * means).sum(axis=1, keepdims=True) / np.maximum(1.0, rows.sum(axis=1, keepdims=True))
        return np.where(known, means, whole)

    def _expected_of_two(self, means: Floats, first: int, second: int) -> Floats:
        """Return (BINS, BINS) the loss that is expected in the cells of two features: two effects that add up.

        It is not below the mean of any bin.
        """
        rows = self.arrays["rows"][first] * self._known[first]
        whole = float((rows * means[first]).sum()) / max(1.0, float(rows.sum()))
        least = min(means[first].min(), means[second].min())
        return np.asarray(np.maximum(means[first][:, np.newaxis] + means[second] - whole, least))

    def _rows_until(self, mask: NDArray[np.bool_], missing: float) -> int:
        """Return how many rows it takes until so many of the mask are among them, at most all."""
        return min(len(mask), 1 + int(np.searchsorted(np.cumsum(mask), missing)))

    def _locate(self, rise: Rise, inputs: Floats, losses: Floats) -> tuple[int, None]:
        """Add rows to those that locate a rise. Choose the segment once they are enough."""
        located, arrays = self.located, self.arrays
        of_bin = located["singles"][rise.slot, rise.bin]
        fed = self._rows_until(self._bins(rise.slot, inputs) == rise.bin, _LOCATE - of_bin[0])
        inputs, losses = np.ascontiguousarray(inputs[:fed]), losses[:fed]
        lattice.add_rows(
            inputs,
            np.minimum(losses, rise.largest),
            np.zeros((fed, 0)),
            arrays["cuts"],
            arrays["used"],
            self._categories,
            np.array(rise.chosen, np.int64),
            np.empty((0, CANDIDATES, BOX), np.int64),
            np.empty(len(self.kinds), np.int64),
            np.empty((len(self.kinds), BINS), np.uint64),
            located["singles"],
            located["pairs"],
            np.zeros((0, lattice.COMMON, 3)),
            located["total"],
            np.zeros(len(self.kinds)),
        )
        rise.rows += fed
        if of_bin[0] >= _LOCATE:
            self._choose(rise)
        elif rise.rows == _PATIENCE:
            self._dismiss()
        return fed, None

    def _choose(self, rise: Rise) -> None:
        """Choose the segment whose excess is clearest: an interval, or a box of two features that is clearer still."""
        used, categories, means, known = self.arrays["used"], self._categories, self._means(), self._known
        singles = _excess_of(self.located["singles"] * known[:, :, np.newaxis], means)
        scores, bins, _ = lattice.best_intervals(singles, used, categories)
        slot = int(scores.argmax())
        if not scores[slot] > 0.0:
            self._dismiss()
            return
        rise.box, clearest = [slot, *bins[slot].tolist(), *_NO_BOX], float(scores[slot])
        tables = self.located["pairs"].copy()
        expected = np.zeros(tables.shape[:3])
        for place, (first, second) in enumerate(pairs_of(rise.chosen)):
            tables[place] *= (known[first][:, np.newaxis] & known[second])[:, :, np.newaxis]
            expected[place] = self._expected_of_two(means, first, second)
        pairs = _excess_of(tables, expected)
        box_scores, boxes, _ = lattice.best_boxes(pairs, np.array(rise.chosen, np.int64), used, categories)
        for score, box, cells in zip(box_scores.tolist(), boxes.tolist(), pairs, strict=True):
            rise_of = float(cells[box[1] : box[2] + 1, box[4] : box[5] + 1, 1].sum())
            of_sides = (singles[box[k], box[k + 1] : box[k + 2] + 1, 1].sum() for k in (0, 3))
            if score > clearest and min(of_sides) >= _BACK * rise_of:
                rise.box, clearest = box, score
        self._describe(rise)
        rise.rows, self.located = 0, form.empty(_LOCATED, features=0, pairs=0)

    def _describe(self, rise: Rise) -> None:
        """Note the share of the rows before in the first interval of a segment, and the error of their mean loss."""
        slot, first, last = rise.box[:3]
        rows, own = self.arrays["rows"][slot], slice(first, last + 1)
        kept = np.minimum(rows[own], _MEMORY) * self._known[slot, own]
        count = max(1.0, float(kept.sum()))
        error = float((kept * self.arrays["variance"][slot, own]).sum()) / count / count
        rise.share, rise.error_before = float(rows[own].sum() / max(1.0, rows.sum())), min(LARGEST_SQUARE, error)

    def _bins(self, slot: int, inputs: Floats) -> NDArray[np.int64]:
        """Return (n,) the bins of the values of a feature."""
        column, category = np.ascontiguousarray(inputs[:, slot]), bool(self.kinds[slot] != Kind.NUMBER)
        return np.asarray(bins_of(column, self.arrays["cuts"][slot], self.arrays["used"][slot], category))

    def _gather(self, rise: Rise, inputs: Floats, losses: Floats) -> tuple[int, Decision | None]:
        """Add rows to those of a segment, and decide about it once they are enough."""
        waits = self.learns and not rise.waited
        due = _RECOVERS if waits else _LOOK if rise.number else _CONFIRM
        means, (slot, first, last, other, low, high) = self._means(), rise.box
        bins = self._bins(slot, inputs)
        expected = means[slot, bins]
        side = here = (bins >= first) & (bins <= last)
        if rise.of_two:
            others = self._bins(other, inputs)
            here = side & (others >= low) & (others <= high)
            expected = np.where(here, self._expected_of_two(means, slot, other)[bins, others], expected)
        fed = self._rows_until(here, due - rise.since[0].rows)
        clipped, ones = np.minimum(losses, rise.largest), np.ones(len(losses))
        summands = [
            np.stack([ones, losses, losses * losses, of, clipped - of, (clipped - of) ** 2], axis=1)
            for of in (expected, means[slot, bins])
        ]
        masks = [one[:, np.newaxis] for one in (here, ~here, side)]
        rows = np.stack([masks[0] * summands[0], masks[1] * summands[1], masks[2] * summands[1]], axis=1)[:fed]
        sums = np.array([msgspec.structs.astuple(one) for one in rise.since])
        # one by one: the sums must not depend on how blocks are cut
        whole = np.add.accumulate(np.concatenate([sums[np.newaxis], rows]), axis=0)[-1].tolist()
        rise.since = (Part(*whole[0]), Part(*whole[1]), Part(*whole[2]))
        rise.rows += fed
        if rise.since[0].rows < due and rise.rows < _PATIENCE:
            return fed, None
        enough = rise.since[0].rows >= due
        if waits and enough:
            rise.waited = True
            rise.begin_again()
            return fed, None
        return fed, self._decided(rise, enough=enough)

    def _decided(self, rise: Rise, *, enough: bool) -> Decision | None:
        """Return what the gathered rows show; None if an alarm was false, or an incident lasts."""
        if not rise.number:
            if enough and self._confirmed(rise):
                return Decision("open", rise)
            self._dismiss()
            return None
        rise.looks += 1
        before, opened = rise.means
        if enough and rise.since[0].mean - before < _BACK * (opened - before):
            self.end()
            return Decision("over", rise)
        if rise.looks == _LOOKS or not enough:
            self.end()
            return Decision("normal", rise)
        rise.begin_again()
        return None

    def _confirmed(self, rise: Rise) -> bool:
        """Return whether the loss surely rose in a segment, and not elsewhere.

        In a box of two features, the expected loss is an estimate. The loss in the interval of its first feature, where
        the former mean is known, must have risen by as much as the rise in the box makes of it.
        """
        here, elsewhere, side = rise.since
        risen = here.mean_excess
        if risen < max(rise.least, _SURE * ((here.error + rise.error_before) * self._block) ** 0.5):
            return False
        return side.excess >= _BACK * here.excess and elsewhere.mean_excess < _ELSEWHERE * risen

    def _where(self, rise: Rise, names: Sequence[str], texts: Texts) -> Where:
        """Return the segment of a rise, with numbers from the rows that confirmed it."""
        sides = [tuple(rise.box[:3])] + ([tuple(rise.box[3:])] if rise.of_two else [])
        path: list[tuple[Split, bool]] = []
        for slot, first, last in sides:
            cuts = self.arrays["cuts"][slot, : self.arrays["used"][slot]].tolist()
            path += questions(slot, first, last, cuts, self.kinds[slot])
        conditions = conditions_of(tuple(path), names, self.kinds, texts, np.zeros(len(names), np.bool_))
        here, elsewhere, _ = rise.since
        share = here.rows / (here.rows + elsewhere.rows)
        change = share * here.rise + (1.0 - share) * elsewhere.rise
        freedom = max(1.0, here.rows / self._block - 1.0)
        error = ((here.error_of_loss + rise.error_before) * self._block) ** 0.5
        reach = float(stdtrit(freedom, 0.5 + 0.5 * _CONFIDENCE)) * error
        segment = Segment(
            conditions=conditions,
            text=" and ".join(map(in_words, conditions)),
            share_before=share if rise.of_two else rise.share,
            share_since=share,
            loss_before=rise.means[0],
            loss_since=rise.means[1],
            low=here.rise - reach,
            high=here.rise + reach,
            carried=share * here.rise / change if change > 0.0 else None,
        )
        before = int(np.minimum(self.arrays["rows"][rise.box[0]], _MEMORY).sum())
        return Where("loss", "segments", before, int(here.rows + elsewhere.rows), change, [segment])

    def state(self) -> tuple[dict[str, Any] | None, dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        return None if self.rise is None else msgspec.to_builtins(self.rise), {**self.arrays, **self.located}

    def restore(
        self, rise: Rise | None, arrays: Mapping[str, NDArray[Any]], kinds: Sequence[int], row: int, texts: Texts
    ) -> None:
        """Restore a saved state of a stream whose newest row is `row`, and whose categories have these names.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        found = form.read(_FORM, arrays, _OF, features=len(kinds))
        for name, count in (("edges", "edged"), ("cuts", "used")):
            within = np.arange(1, found[name].shape[1]) < found[count][:, np.newaxis]
            form.expect((np.diff(found[name]) > 0)[within].all(), f"{name} in ascending order", found[name], _OF)
        form.expect(((found["used"] < 0) == (found["edged"] < 0)).all(), "bins with edges", found["used"], _OF)
        for slot in np.flatnonzero(np.array(kinds, np.int64) != Kind.NUMBER).tolist():
            named = texts.get(slot, {}) if kinds[slot] == Kind.TEXT else (0.0, 1.0)
            own = found["cuts"][slot, : max(0, found["used"][slot])].tolist()
            form.expect(all(code in named for code in own), "categories with a name", own, _OF)
        newest = found["start"].max(initial=0)
        form.expect(newest <= row, f"bets that began up to row {row}", newest, _OF)
        seqs = found["origin"][..., 0]
        form.expect(seqs.min(initial=0) >= 0, "events from 0 on as origins", seqs.min(initial=0), _OF)
        whole = found["whole"]
        form.expect(0 <= whole[0] <= MOST and whole[2] >= 0, "rows and a variance", whole, _OF)
        if rise is not None:
            _check(rise, found["used"], kinds)
        locating = rise is not None and not rise.box
        m = len(rise.chosen) if rise is not None and locating else 0
        sizes = {"features": len(kinds) if locating else 0, "pairs": m * (m - 1) // 2}
        located = form.read(_LOCATED, arrays, _OF, **sizes)
        for name, array in located.items():
            fits = (array[..., [0, 2]] >= 0).all() and (np.abs(array[..., :2]) <= LARGEST_SUM).all()
            form.expect(fits, f"rows, sums and squares of {name}", array, _OF)
        self.kinds, self.rise, self.arrays, self.located = list(kinds), rise, found, located


def _check(rise: Rise, used: NDArray[np.int64], kinds: Sequence[int]) -> None:
    """Raise FrameError unless a rise is of features that have bins."""
    slots = [rise.slot, *rise.chosen]
    fits = all(slot < len(kinds) and used[slot] >= 0 for slot in slots) and rise.chosen == sorted(set(rise.chosen))
    form.expect(fits, "features with bins", slots, _OF)
    form.expect(rise.bin <= used[rise.slot] + 1, f"bins up to {used[rise.slot] + 1}", rise.bin, _OF)
    segments = [] if rise.where is None else rise.where.segments
    named = len(segments) == 1 and None not in (segments[0].loss_before, segments[0].loss_since)
    form.expect(named or not rise.number, "the segment of an incident, with its loss", rise.where, _OF)
    form.expect(bool(rise.box) or not rise.number, "a box of an incident", rise.box, _OF)
    if rise.box:
        form.expect(len(rise.box) == BOX, f"a box of {BOX} numbers", rise.box, _OF)
        for slot, first, last in [rise.box[:3]] + ([rise.box[3:]] if rise.of_two else []):
            fits = 0 <= slot < len(kinds) and used[slot] >= 0
            fits = fits and lattice.is_interval(first, last, int(used[slot]), kinds[slot] != Kind.NUMBER)
            form.expect(fits, "intervals of bins", rise.box, _OF)


def _excess_of(sums: NDArray[Any], means: NDArray[Any]) -> NDArray[Any]:
    """Return (..., 3) numbers, sums and squares of the excess over means from those of the losses.

    Sums and squares are about the mean excess of all rows, as the statistics of the lattice expect.
    """
    rows, loss, squares = (sums[..., k] for k in range(3))
    excess = np.stack([rows, loss - rows * means, squares - 2.0 * means * loss + rows * means * means], axis=-1)
    axes = tuple(range(1, excess.ndim - 1))
    total = excess.sum(axis=axes, keepdims=True)
    mean = total[..., 1] / np.maximum(1.0, total[..., 0])
    excess[..., 2] = np.maximum(0.0, excess[..., 2] - 2.0 * mean * excess[..., 1] + rows * mean * mean)
    excess[..., 1] -= rows * mean
    return excess


@kernel
def feed(  # type: ignore[no-untyped-def]
    first_row, inputs, losses, categories, limit, block, cuts, used, rows, mean, variance, wealth, best, start, then,
    whole,
):  # fmt: skip
    """Feed rows to the bets of all bins until one exceeds the limit; see `LocalRises.feed`.

    Returns
    -------
    The number of rows fed, and the place of the bin that is furthest beyond the limit at this row, or -1.
    """
    for i in range(inputs.shape[0]):
        over, furthest, row = -1, limit, first_row + i
        loss, spread = losses[i], np.sqrt(whole[2])
        if whole[0] >= _KNOWN and spread > 0.0:
            loss = min(loss, whole[1] + FURTHEST * spread)
        for s in range(inputs.shape[1]):
            if used[s] < 0:
                continue
            c = place_of(inputs[i, s], cuts[s], used[s], categories[s])
            step = loss - mean[s, c]
            if rows[s, c] >= _KNOWN and spread > 0.0:
                own = max(np.sqrt(variance[s, c]), _FLOOR * spread)
                stake = _STAKE
                if mean[s, c] > 0.0:
                    stake = min(stake, (1.0 - _LEAST) * own / mean[s, c])  # a loss of 0 must leave some wealth
                factor = max(_LEAST, 1.0 + stake * min(FURTHEST, step / own))
                if block > 1.0:
                    factor **= 1.0 / block
                if best[s, c] <= 1.0:
                    best[s, c], start[s, c], then[s, c] = 1.0, row, mean[s, c]
                wealth[s, c] = min((wealth[s, c] + 1.0) * factor, MOST_WEALTH)
                best[s, c] = min(best[s, c] * factor, MOST_WEALTH)
                if wealth[s, c] > furthest:
                    over, furthest = s * BINS + c, wealth[s, c]
            rows[s, c] += 1.0
            share = 1.0 / min(rows[s, c], _MEMORY)
            mean[s, c] += share * step
            variance[s, c] = (1.0 - share) * (variance[s, c] + share * step * step)
        whole[0] += 1.0
        share = 1.0 / min(whole[0], _MEMORY)
        step = loss - whole[1]
        whole[1] += share * step
        whole[2] = (1.0 - share) * (whole[2] + share * step * step)
        if over >= 0:
            return i + 1, over
    return inputs.shape[0], -1


@kernel
def bins_of(values, cuts, used, category):  # type: ignore[no-untyped-def]
    """Return (n,) the bins of the values of a feature."""
    bins = np.empty(values.size, np.int64)
    for i in range(values.size):
        bins[i] = place_of(values[i], cuts, used, category)
    return bins


def warm_up() -> None:
    """Compile what runs after an alarm."""
    local = LocalRises()
    local.widen([0, 0])
    local.arrays["used"][:] = 0
    local.rise = Rise(0, Onset(0, 0, 0), 0, 1, 0.0, [0, 1], 1.0, 0.0)
    local.located = form.empty(_LOCATED, features=2, pairs=1)
    local._locate(local.rise, np.zeros((1, 2)), np.zeros(1))
    arrays = local.located["pairs"], np.array(local.rise.chosen), local.arrays["used"], local._categories
    lattice.best_intervals(local.located["singles"], *arrays[2:])
    lattice.best_boxes(*arrays)
