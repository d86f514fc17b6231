"""The method `attributions`: the contribution of each feature to the prediction of each event."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, stream_key, uniform
from glasstream.base.errors import StateError
from glasstream.base.jit import kernel
from glasstream.events.features import FeatureTable, Kind, decoded
from glasstream.explain.attributions.game import ADDITIVE, Attributor, Scale, residual
from glasstream.explain.importance import ImportanceAggregator
from glasstream.explain.method import Arrays, Drawing, Method, OutputRecord, Passing, Signals
from glasstream.explain.sampling.reservoir import Drawn, Reservoir, Wanted
from glasstream.explain.settings import MethodSettings
from glasstream.models.predictors.predictor import NO_LABEL, Floats, Integers, Predictor
from glasstream_topics import attributions
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import EFFECTS, LARGEST
from glasstream_topics.requests import AttributionOptions, ExplainRequest

MOST_RESIDUAL: Final = 1e-9
"""Largest difference between a prediction and the sum of its parts, relative to what is added."""
_NUMBERS: Final = ("base", "explained", "prediction")
_COUNTS: Final = ("output", "link", "rows", "event")
_LINKS: Final = tuple(attributions.LINKS)
_CHOICE: Final = int(Purpose.ATTRIBUTIONS)
_NOTHING: Final = Wanted()
_STREAMS: Final = 4
"""Number of streams for which attributors are kept."""
_KEPT: Final = 2
"""Number of attributors that are kept for a stream: blocks of two versions are often explained at the same time."""


class _Drawing(Drawing):
    """Keep a sample of the events, and draw from it every `refresh` events the rows with which events are compared.

    The first rows are drawn at the first event that is explained, then before each event whose number is a multiple of
    `refresh`.
    """

    def __init__(self, settings: MethodSettings, key: NDArray[np.uint64]) -> None:
        own = settings.attributions
        self._share, self._refresh = own.share, own.refresh
        self._options = AttributionOptions(
            own.scale,
            own.output or "",
            -LARGEST if own.low is None else own.low,
            LARGEST if own.high is None else own.high,
            own.pairs,
            own.cache,
        )
        self._sample = Reservoir.empty(own.rows, settings.explain.sampling, key)
        self._events = 0
        self._rows, self._event = np.empty((0, 0)), -1
        """The background rows, and the event before which they were drawn."""

    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        block, _, first, start, answers = rows
        count, width = block.shape
        anchor = np.full(rows.explained, -1, np.int64)
        backgrounds: list[tuple[int, Floats]] = []
        done = 0
        for place in range(max(0, start - first), count):
            number = first + place
            if self._event < 0 or number % self._refresh == 0:
                self._enter(block[done:place], first + done)
                done = place
                if len(self._sample.held(number)):
                    self._rows, self._event = self._sample.held(number).copy(), number
            if self._event >= 0 and (not backgrounds or backgrounds[-1][0] != self._event):
                backgrounds.append((self._event, self._rows))
            anchor[place - count] = len(backgrounds) - 1
        self._enter(block[done:], first + done)
        _choose(self._sample.key, first + count - len(anchor), self._share, anchor)
        output, prediction = np.full(count, -1, np.int64), np.zeros(count)
        if answers is not None:
            output, prediction = answers
        sizes = [len(held) for _, held in backgrounds]
        return {
            "attributions": np.concatenate([np.empty((0, width)), *(_wide(held, width) for _, held in backgrounds)]),
            "attributions.first": np.cumsum([0, *sizes])[:-1].astype(np.int64),
            "attributions.anchor": anchor,
            "attributions.event": np.array([event for event, _ in backgrounds], np.int64),
            "attributions.output": output[count - len(anchor) :],
            "attributions.prediction": prediction[count - len(anchor) :],
        }

    def _enter(self, block: Floats, first: int) -> None:
        if len(block):
            self._sample.serve(np.ascontiguousarray(block), first, first + len(block), _NOTHING)
            self._events = first + len(block)

    def numbers(self, width: int) -> int:
        return 3  # and one background or two in a block, which is cut if it is too large

    def fields(self, draws: Arrays, rows: Floats, features: FeatureTable, width: int) -> dict[str, Any]:
        known = {slot: list(features.categories[slot]) for slot in range(width) if features.kinds[slot] is Kind.TEXT}
        return {"attributed": self._options, "texts": _texts(rows, known)}

    def state(self) -> dict[str, NDArray[Any]]:
        counts = np.array([self._events, self._event], np.int64)
        return {"sample": self._sample.held(self._events), "rows": self._rows, "counts": counts}

    def restore(self, arrays: Arrays, features: FeatureTable) -> None:
        if arrays.keys() != {"sample", "rows", "counts"}:
            raise StateError(f"attributions: expected a sample, rows and counts, got {', '.join(arrays):.60}")
        sample, rows, counts = arrays["sample"], arrays["rows"], arrays["counts"]
        if counts.dtype != np.int64 or counts.shape != (2,) or not -1 <= counts[1] <= counts[0]:
            raise StateError("attributions: expected the numbers of events, and of the event of the background rows")
        events, event = counts.tolist()
        for array, most in ((sample, min(events, self._sample.size)), (rows, min(event, self._sample.size))):
            if array.dtype != np.float64 or array.ndim != 2 or len(array) != max(0, most):
                raise StateError(f"attributions: expected {max(0, most)} rows of numbers, got {array.shape}")
            if array.shape[1] > len(features) or not features.can_hold(array):
                raise StateError("attributions: expected rows with values of the stream's features")
        self._sample.hold(sample)
        self._events, self._event, self._rows = events, event, rows


def _wide(rows: Floats, width: int) -> Floats:
    """Return rows with new features, which are absent."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


@kernel
def _choose(key, first, share, anchor):  # type: ignore[no-untyped-def]
    """Set the background of events that are not chosen to -1. `first` is the number of the first event."""
    for i in range(anchor.size):
        if uniform(key, first + i, _CHOICE, 0) >= share:
            anchor[i] = -1


def _texts(rows: Floats, known: Mapping[int, Any]) -> dict[int, dict[int, str]]:
    """Return the texts of the categories in rows, by slot and code."""
    found = {}
    for slot, texts in known.items():
        codes = np.unique(rows[:, slot])
        found[slot] = {int(code): texts[int(code)] for code in codes[~np.isnan(codes)].tolist()}
    return found


class _Aggregator(ImportanceAggregator):
    """Publish the contributions of each event, and smooth their absolute values."""

    name: ClassVar[str] = "attributions"

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self._records: list[OutputRecord] = []

    def update(self, block: Contributions, rows: slice) -> Signals:
        names = (*_NUMBERS, *_COUNTS, "error", "inputs", "pairs")
        given = {name: block.values.get(f"attributions.{name}") for name in names}
        values = {name: array[rows] for name, array in given.items() if array is not None}
        contributions, seqs = block.values["attributions"][rows], block.seqs[block.has(EFFECTS)][rows]
        explained = values["output"] >= 0
        chosen, sizes = np.flatnonzero(explained), np.abs(contributions)
        if len(chosen):
            self.smoothing.update(sizes[chosen])
            key = attributions.key(block.stream)
            for value in self._encoded(block, seqs, contributions, values, chosen):
                self._records.append(OutputRecord(attributions.TOPIC.name, key, value))
        return {"importance": np.where(explained[:, np.newaxis], sizes, np.nan)}

    def taken(self) -> list[OutputRecord]:
        """Return the records of the newest events, once."""
        records, self._records = self._records, []
        return records

    def _encoded(
        self, block: Contributions, seqs: Integers, contributions: Floats, values: Arrays, chosen: Integers
    ) -> Iterator[bytes]:
        """Yield the records of chosen events. What can be done for all of them at once is."""
        most, width = self.settings.attributions.largest, contributions.shape[1]
        own = contributions[chosen]
        order = np.argsort(-np.abs(own), axis=1, kind="stable")
        shown = np.minimum((own != 0.0).sum(axis=1), most).tolist()
        names, kinds = block.names, block.kinds
        texts = [block.texts.get(slot, {}) for slot in range(width)]
        given = {name: values[name][chosen].tolist() for name in (*_NUMBERS, *_COUNTS, "inputs", "error")}
        exact, pairs = np.all(values["error"][chosen] == 0.0, axis=1).tolist(), values.get("pairs")
        rows = zip(seqs[chosen].tolist(), order.tolist(), own.tolist(), strict=True)
        for at, (seq, slots, amounts) in enumerate(rows):
            largest = slots[: shown[at]]
            inputs, errors = given["inputs"][at], given["error"][at]
            yield attributions.JSON.write(
                {
                    "epoch": self.settings.epoch,
                    "stream": block.stream,
                    "seq": seq,
                    "model_version": block.version,
                    "output": block.classes[given["output"][at]] if block.classes else None,
                    "prediction": given["prediction"][at],
                    "link": _LINKS[given["link"][at]],
                    "explained": given["explained"][at],
                    "base": given["base"][at],
                    "background": {
                        "rows": given["rows"][at],
                        "event": given["event"][at],
                        "sampling": self.settings.explain.sampling,
                    },
                    "exact": exact[at],
                    "contributions": [
                        {
                            "feature": names[slot],
                            "value": decoded(inputs[slot], kinds[slot], texts[slot]),
                            "contribution": amounts[slot],
                            "error": errors[slot],
                        }
                        for slot in largest
                    ],
                    "others": float(np.delete(own[at], largest).sum()) if shown[at] == most else 0.0,
                    "pairs": None if pairs is None else _pairs(block, pairs[chosen[at]]),
                }
            )


def _pairs(block: Contributions, numbers: Floats) -> list[attributions.Interaction] | None:
    """Return the interactions that an event has; None if there are none."""
    pairs = [
        attributions.Interaction(block.names[int(one)], block.names[int(other)], amount)
        for one, other, amount in numbers.reshape(-1, 3).tolist()
        if min(one, other) >= 0.0
    ]
    return pairs or None


class _Made(NamedTuple):
    """An attributor with what it is a pure function of."""

    stream: str
    predictor: Predictor
    identity: bytes
    attributor: Attributor


class Attributions(Method):
    """Interventional Shapley values of predictions."""

    name = "attributions"

    def __init__(self) -> None:
        self._made: tuple[_Made, ...] = ()
        """The newest attributors first."""

    def drawing(self, settings: MethodSettings, key: NDArray[np.uint64]) -> _Drawing:
        return _Drawing(settings, key)

    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        asked = block.attributed
        if asked is None:
            raise StateError("expected how predictions are attributed, got nothing")  # a decoded block always has it
        rows, first = block.draws["attributions"], block.draws["attributions.first"]
        bounds = [*first.tolist(), len(rows)]
        anchor, event = block.draws["attributions.anchor"], block.draws["attributions.event"]
        own = {name: place for place, name in enumerate(predictor.classes)}
        # Where the predictor has each class of the block. It may not know a new one. The last place is for no class.
        classes = [own.get(name, NO_LABEL) for name in block.classes] if predictor.classes else [0]
        places = np.array([*classes, NO_LABEL])

        def explain(part: slice) -> dict[str, NDArray[Any]]:
            x, seqs, anchors = block.x[part], block.seqs[part], anchor[part]
            numbers, prediction = block.draws["attributions.output"][part], block.draws["attributions.prediction"][part]
            found = _Found(numbers, prediction, x.shape[1], asked.pairs)
            outputs = places[numbers]
            wanted = (anchors >= 0) & (outputs >= 0) & (prediction >= asked.low) & (prediction <= asked.high)
            if asked.output:
                wanted &= outputs == own.get(asked.output, NO_LABEL)
            for place in np.unique(anchors[wanted]).tolist():
                chosen = np.flatnonzero(wanted & (anchors == place))
                background = rows[bounds[place] : bounds[place + 1]]
                attributor = self._attributor(predictor, background, asked, block.stream)
                found.add(attributor, chosen, x, outputs, seqs, len(background), int(event[place]))
            return found.arrays()

        return explain

    def _attributor(
        self, predictor: Predictor, background: Floats, asked: AttributionOptions, stream: str
    ) -> Attributor:
        identity, kept = background.tobytes() + f"{asked.scale}/{asked.cache}".encode(), self._made
        for made in kept:
            if made.stream == stream and made.predictor is predictor and made.identity == identity:
                return made.attributor
        scale: Scale = "additive" if asked.scale == ADDITIVE else "prediction"
        cache = (asked.cache << 20) // _KEPT
        attributor = Attributor(predictor, background, scale, key=stream_key(0, stream), cache_bytes=cache)
        own = [made for made in kept if made.stream == stream][: _KEPT - 1]
        others = [made for made in kept if made.stream != stream][: _KEPT * (_STREAMS - 1)]
        self._made = (_Made(stream, predictor, identity, attributor), *own, *others)
        return attributor

    def aggregator(self, settings: MethodSettings) -> _Aggregator:
        return _Aggregator(settings)

    def finite(self, values: Arrays) -> NDArray[np.bool_]:
        """Return the events whose contributions add up; an event that is not explained has none."""
        parts = own, base, explained = [values[f"attributions{name}"] for name in ("", ".base", ".explained")]
        small = [(np.abs(part) <= LARGEST).reshape(len(own), -1).all(axis=1) for part in parts]
        small.append((np.abs(values.get("attributions.pairs", np.empty((len(own), 0)))) <= LARGEST).all(axis=1))
        return np.asarray((residual(own, base, explained) <= MOST_RESIDUAL) & np.logical_and.reduce(small))

    def part(self, block: ExplainRequest, rows: slice) -> dict[str, Any]:
        draws = block.draws
        anchor = draws["attributions.anchor"][rows]
        used = np.unique(anchor[anchor >= 0])
        place = np.full(len(draws["attributions.first"]) + 1, -1, np.int64)  # the last one is for those without any
        place[used] = np.arange(len(used))
        bounds = [*draws["attributions.first"].tolist(), len(draws["attributions"])]
        kept = [draws["attributions"][bounds[one] : bounds[one + 1]] for one in used.tolist()]
        known = {slot: block.texts.get(slot, {}) for slot, kind in enumerate(block.kinds) if kind == Kind.TEXT}
        return {
            "draws": {
                "attributions": np.concatenate([draws["attributions"][:0], *kept]),
                "attributions.first": np.cumsum([0, *map(len, kept)])[:-1].astype(np.int64),
                "attributions.anchor": place[anchor],
                "attributions.event": draws["attributions.event"][used],
                "attributions.output": draws["attributions.output"][rows],
                "attributions.prediction": draws["attributions.prediction"][rows],
            },
            "texts": _texts(block.x[rows], known),
        }

    def drawn(self, draws: Arrays, slot: int, width: int) -> NDArray[np.float64]:
        return np.asarray(draws["attributions"][:, slot])


class _Found:
    """The contributions of some events; all 0 for those that are not explained."""

    def __init__(self, numbers: Integers, prediction: Floats, width: int, pairs: int) -> None:
        count = len(numbers)
        self.pairs = np.tile([-1.0, -1.0, 0.0], (count, pairs))
        self.values, self.error, self.inputs = (np.zeros((count, width)) for _ in range(3))
        self.base, self.explained = np.zeros(count), np.zeros(count)
        self.prediction, self._numbers = prediction, numbers
        self.output = np.full(count, -1, np.int64)
        self.link, self.rows, self.event = (np.zeros(count, np.int64) for _ in range(3))

    def add(
        self,
        attributor: Attributor,
        chosen: Integers,
        x: Floats,
        outputs: Integers,
        seqs: Integers,
        rows: int,
        event: int,
    ) -> None:
        """Explain the chosen events."""
        made = attributor.explain(x[chosen], outputs[chosen], seqs[chosen])
        self.values[chosen], self.error[chosen], self.inputs[chosen] = made.values, made.error, x[chosen]
        self.base[chosen], self.explained[chosen], self.output[chosen] = made.base, made.total, self._numbers[chosen]
        self.link[chosen], self.rows[chosen], self.event[chosen] = _LINKS.index(made.link), rows, event
        most = self.pairs.shape[1] // 3
        for place in chosen.tolist() if most else ():
            largest = attributor.largest_pairs(x[place], int(outputs[place]), most)
            self.pairs[place, : 3 * len(largest)] = [number for pair in largest for number in pair]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `glasstream_topics.methods` declares."""
        found = {name: getattr(self, name) for name in (*_NUMBERS, *_COUNTS, "error", "inputs")}
        if self.pairs.shape[1]:
            found["pairs"] = self.pairs
        return {"attributions": self.values, **{f"attributions.{name}": array for name, array in found.items()}}
