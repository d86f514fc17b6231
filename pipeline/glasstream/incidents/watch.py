"""Incidents of one stream: its rows in order go through sequential tests, and what they find becomes one verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream_topics.incidents import Incident


class Rows(NamedTuple):
    """Consecutive explained rows of a stream."""

    first_row: int
    seqs: NDArray[np.int64]
    """(n,)"""
    names: Sequence[str]
    """d names."""
    kinds: Sequence[int]
    """d kinds: 0 number, 1 boolean, 2 text."""
    inputs: NDArray[np.float64]
    """(n, d) values of the features, NaN where one is absent; texts as codes."""
    target: NDArray[np.float64]
    """(n,) labels: index of the class, or the number."""
    classes: Sequence[str]
    """Names of the classes; empty for a regression."""
    loss: NDArray[np.float64]
    """(n,) loss of the model."""
    loss_name: str
    importance: NDArray[np.float64] | None
    """(n, d) contributions of iPFI (or iSAGE if it is the only one); None if there are none."""


@dataclass(slots=True)
class IncidentWatch:
    """Incidents of one stream. They are a function of its rows in order, however blocks are cut.

    Parameters
    ----------
    stream, epoch, seed
        Name and epoch of the stream, and the seed of the draws.
    budget
        Expected number of false incidents in 100,000 rows of a stream that does not change, all series together.
    """

    stream: str
    epoch: int
    seed: int
    budget: float

    def update(self, rows: Rows) -> Iterator[Incident]:
        """Add rows in order, and return the incidents that they open, change or end."""
        return iter(())

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        return {}, {}

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state.

        Raises
        ------
        StateError, KeyError, TypeError, ValueError
            The state is incomplete.
        """
