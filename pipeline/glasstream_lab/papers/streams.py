"""Streams whose concepts are known: models and generators that switch, and a hyperplane that moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river.datasets import synth

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Events = tuple[Floats, Integers]
"""Rows float64[n, d], and classes int64[n]."""


@dataclass(frozen=True, slots=True, eq=False)
class SwitchingStream:
    """Stream of events from several concepts, one at a time.

    Attributes
    ----------
    rows, targets
        float64[n, d] and int64[n].
    concept
        int64[n], number of the concept that each event comes from.
    """

    rows: Floats
    targets: Integers
    concept: Integers

    def segments(self) -> list[tuple[int, slice]]:
        """Return the longest runs of events with the same concept: the concept, and the events."""
        ends = [*(np.flatnonzero(np.diff(self.concept)) + 1).tolist(), len(self.concept)]
        return [(int(self.concept[a]), slice(a, b)) for a, b in zip([0, *ends], ends, strict=False)]


def switches(concepts: int, events: int, probability: float, seed: int = 0) -> Integers:
    """Return the concept of each event, int64[events].

    The first concept is random. Before each later event the stream switches with this probability to another concept,
    each of which is as likely as the others.

    Examples
    --------
    >>> switches(3, 10, 0.3, seed=2).tolist()
    [0, 2, 2, 0, 0, 0, 2, 1, 0, 0]
    """
    draws = np.random.Generator(np.random.PCG64(seed))
    steps = np.where(draws.random(events) < probability, draws.integers(1, max(concepts, 2), events), 0)
    steps[0] = draws.integers(concepts)
    return np.asarray(np.cumsum(steps) % concepts, np.int64)


def switching(sources: Sequence[Events], concept: Integers) -> SwitchingStream:
    """Return a stream whose event number t is event number t of the source ``concept[t]``.

    Parameters
    ----------
    sources
        Rows and classes of each concept, at least as many as `concept` has events.
    concept
        int64[n], for example of `switches`.
    """
    count = len(concept)
    rows = np.stack([source[0][:count] for source in sources])
    targets = np.stack([source[1][:count] for source in sources])
    at = np.arange(count)
    return SwitchingStream(rows[concept, at], targets[concept, at], concept)


def generated(
    source: Literal["agrawal", "stagger"], function: int, count: int, seed: int
) -> tuple[tuple[str, ...], Floats, Integers]:
    """Return names, rows and classes of a generator of River, with one of its classification functions."""
    kind = synth.Agrawal if source == "agrawal" else synth.STAGGER
    events = list(kind(classification_function=function, seed=seed).take(count))
    rows = np.array([list(x.values()) for x, _ in events], np.float64)
    return tuple(events[0][0]), rows, np.array([int(y) for _, y in events], np.int64)


class Hyperplane(NamedTuple):
    """Two normal features and a line that separates the classes (Muschalik et al. 2023, iPDP, section 4.2).

    The class is 1 if the logistic function of ``weights · x`` plus normal noise is at least `threshold`.
    """

    means: tuple[float, float]
    deviations: tuple[float, float]
    weights: tuple[float, float]
    noise: tuple[float, float] = (5.0, 1.0)
    """Mean and standard deviation of the noise."""
    threshold: float = 0.1

    def events(self, count: int, seed: int = 0) -> Events:
        """Return rows float64[count, 2] and classes."""
        draws = np.random.Generator(np.random.PCG64(seed))
        rows = draws.normal(self.means, self.deviations, (count, 2))
        score = rows @ np.array(self.weights) + draws.normal(*self.noise, count)
        return rows, (score >= np.log(self.threshold / (1.0 - self.threshold))).astype(np.int64)


HYPERPLANES: Final = (
    Hyperplane((100.0, 200.0), (20.0, 40.0), (1.0, -0.5)),
    Hyperplane((200.0, 100.0), (40.0, 20.0), (-0.5, 1.0)),
)
"""The hyperplane before and after its move, with the standard deviations of the authors' code."""
