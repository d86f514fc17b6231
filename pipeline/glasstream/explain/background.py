"""Background for explanations: everything that methods draw from earlier rows, in one pass for all methods.

The rows of a block pass through in order. Each row draws what its explanation needs and then enters. The draws of one
method do not depend on which other methods are in use.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import StateError
from glasstream.events.features import LONGEST_NAMED, NAMED, NAMED_SLOTS, FeatureTable, Kind
from glasstream.explain.method import Arrays, Passing
from glasstream.explain.registry import REGISTRY
from glasstream.explain.sampling.reservoir import Reservoir, together
from glasstream.explain.settings import MethodSettings
from glasstream_topics.methods import LABELLED, METHODS, MOST_OUTPUTS, numbers_of_a_row

_RESERVOIR: Final = "reservoir"
"""Name of the rows held in the state; other names begin with that of a method."""


def joined(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `ExplainRequest` that two methods need: of `draws` and `texts` each needs its own."""
    both = {**fields, **more}
    if "draws" in fields and "draws" in more:
        both["draws"] = {**fields["draws"], **more["draws"]}
    if "texts" in fields and "texts" in more:
        slots = {**fields["texts"], **more["texts"]}
        both["texts"] = {slot: {**fields["texts"].get(slot, {}), **more["texts"].get(slot, {})} for slot in slots}
    return both


def texts_in(rows: NDArray[np.float64], kinds: Sequence[int], texts: Mapping[int, Mapping[int, str]]) -> dict[int, Any]:
    """Return those texts, by slot and code, that incidents can name in rows; see `FeatureTable.named`."""
    found = {}
    for slot in [slot for slot, kind in enumerate(kinds) if kind == Kind.TEXT][:NAMED_SLOTS]:
        codes = set(rows[:, slot].tolist())
        named = texts.get(slot, {}).items()
        found[slot] = {c: text for c, text in named if c in codes and c < NAMED and len(text) <= LONGEST_NAMED}
    return found


class Background:
    """Background rows of one stream, and the further data that each method keeps.

    It may be pickled, so it keeps no settings but those of the methods: others may hold secrets.

    Parameters
    ----------
    settings
        All settings.
    stream
        Name of the stream. It keys all draws, together with the random seed.
    """

    def __init__(self, settings: MethodSettings, stream: str) -> None:
        explain = settings.explain
        key = stream_key(settings.seed, stream)
        self._start = explain.first_row
        self._watched = settings.drift.finds_incidents
        self._pairs = settings.attributions.pairs
        self._points = max(settings.ipdp.points, settings.ipdp.knots)
        self._reservoir = Reservoir.empty(explain.reservoir, explain.sampling, key)
        self.methods = {name: REGISTRY[name].drawing(settings, key) for name in explain.names}
        self.wanted = together([method.wanted for method in self.methods.values()])

    def pass_through(
        self, block: NDArray[np.float64], kinds: Sequence[Kind], first_row: int, events: Passing | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return what the rows of a block are explained with, under the names of `glasstream_topics.methods.TAKEN`.

        A method of which no row is explained has no arrays if the events are given.

        Parameters
        ----------
        block
            (count, d) consecutive rows, NaN where a feature is absent. d may have grown since the last call.
        kinds
            Kinds of the d features.
        first_row
            Number of the block's first row. Rows below t0 enter and draw nothing.
        events
            What passes through the methods that need no label; None for the rows themselves.
        """
        rows = Passing(block, kinds, first_row, self._start)
        drawn = self._reservoir.serve(block, first_row, self._start, self.wanted)
        draws: dict[str, NDArray[Any]] = {}
        for name, method in self.methods.items():
            passing = rows if events is None or METHODS[name].part == LABELLED else events
            own = method.draw(passing, drawn)
            if events is None or passing.explained:
                draws |= own
        return draws

    def fields(self, draws: Arrays, rows: NDArray[np.float64], features: FeatureTable, width: int) -> dict[str, Any]:
        """Return the fields of `ExplainRequest` that only some methods need; `rows` are those of the block."""
        fields: dict[str, Any] = {}
        for method, drawing in self.methods.items():
            if METHODS[method].draws.keys() <= draws.keys():
                fields = joined(fields, drawing.fields(draws, rows, features, width))
        return fields

    def held(self, rows: int) -> NDArray[np.float64]:
        """Return (up to L, d) rows that the reservoir holds after `rows` rows have entered."""
        return self._reservoir.held(rows)

    def state(self, rows: int) -> dict[str, NDArray[Any]] | None:
        """Return the state after `rows` rows as arrays; None if a method keeps what only a pickle can hold."""
        arrays = {_RESERVOIR: self.held(rows)}
        for name, method in self.methods.items():
            kept = method.state()
            if kept is None:
                return None
            arrays |= {f"{name}/{part}": array for part, array in kept.items()}
        return arrays

    def restore(self, arrays: Arrays, rows: int, features: FeatureTable) -> None:
        """Continue from a state after `rows` rows, as `state` returns it.

        Raises
        ------
        StateError
            The state is not one of these settings, or does not fit the features of the stream.
        """
        parts: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in self.methods}
        held: NDArray[np.float64] | None = None
        for name, array in arrays.items():
            method, _, part = name.partition("/")
            if name == _RESERVOIR:
                held = array
            elif part and method in parts:
                parts[method][part] = array
            else:
                raise StateError(f"background rows: expected none named {name!r:.60}")
        if held is None or held.dtype != np.float64 or held.ndim != 2:
            raise StateError("background rows: expected a matrix of numbers")
        most = min(rows, self._reservoir.size)
        if len(held) != most or held.shape[1] > len(features) or not features.can_hold(held):
            raise StateError(f"background rows: expected {most} rows with values of the stream's features")
        self._reservoir.hold(held)
        for name, drawing in self.methods.items():
            drawing.restore(parts[name], features)

    def row_numbers(self, width: int, outputs: int) -> int:
        """Return the largest count of numbers that one row takes in a block or, if more, in its answer.

        Parameters
        ----------
        width
            Number of features.
        outputs
            Number of classes of the model; 1 for regression.
        """
        block = width + 2 + sum(method.numbers(width) for method in self.methods.values())
        sizes = {"d": width, "k": outputs, "points": self._points, "outputs": min(outputs, MOST_OUTPUTS)}
        sizes["pairs"] = 3 * self._pairs
        return max(block, numbers_of_a_row(self.methods, sizes, watched=self._watched))
