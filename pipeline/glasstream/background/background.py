"""Background for explanations: everything that methods draw from earlier rows, in one pass for all methods.

The rows of a block pass through in order. Each row draws what its explanation needs and then enters. The draws of one
method do not depend on which other methods are in use.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.background import knots
from glasstream.background.grids import Grids
from glasstream.background.orders import orders
from glasstream.background.reservoir import Reservoir, Wanted
from glasstream.background.settings import BackgroundSettings
from glasstream.background.storage import ConditionalStorage
from glasstream.draws import stream_key
from glasstream.ingest.features import Kind
from glasstream_topics.methods import MOST_OUTPUTS
from glasstream_topics.requests import Grid

Array = NDArray[Any]


class Background:
    """Background rows, storage trees and grids of one stream.

    Parameters
    ----------
    settings
        Settings of the methods.
    seed, stream
        Random seed and name of the stream, which key all draws.
    """

    def __init__(self, settings: BackgroundSettings, seed: int, stream: str) -> None:
        self.settings = settings
        key = stream_key(seed, stream)
        self._key = key
        self._reservoir = Reservoir.empty(settings.reservoir, settings.sampling, key)
        self._grids = Grids.empty(settings.grid, key) if "ipdp" in settings.methods else None
        conditional = "isage" in settings.methods and settings.storage is not None
        self._storage = ConditionalStorage.empty(settings.storage, key) if conditional and settings.storage else None
        self.wanted = Wanted(
            values=settings.draws if "ipfi" in settings.methods else 0,
            rows=settings.inner if "isage" in settings.methods and self._storage is None else 0,
            fresh=settings.fresh,
        )

    def pass_through(self, block: NDArray[np.float64], kinds: Sequence[Kind], first_row: int) -> dict[str, Array]:
        """Return what the rows of a block are explained with, under the names of `glasstream_topics.methods.TAKEN`.

        Parameters
        ----------
        block
            (count, d) consecutive rows, NaN where a feature is absent. d may have grown since the last call.
        kinds
            Kinds of the d features.
        first_row
            Number of the block's first row. Rows below t0 enter and draw nothing.
        """
        settings = self.settings
        count, width = block.shape
        begin = max(first_row, settings.start)
        explained = max(0, first_row + count - begin)
        drawn = self._reservoir.serve(block, first_row, settings.start, self.wanted)
        taken: dict[str, Array] = {}
        if "ipfi" in settings.methods:
            taken["ipfi"] = drawn.values
        if "isage" in settings.methods:
            order = orders(self._key, begin, explained, width)
            taken["isage.order"] = order
            taken["isage"] = drawn.rows
            if self._storage is not None:
                taken["isage"] = self._storage.pass_through(
                    block, first_row, settings.start, order, settings.inner, kinds
                )
        if self._grids is not None:
            found = knots.changes(self._grids.pass_through(block, kinds, first_row, settings.start))
            taken |= {"ipdp.row": found.row, "ipdp.place": found.place, "ipdp.value": found.value}
        return taken

    @property
    def grid(self) -> Grid | None:
        """Description by which a reader decodes the changes of the grids; None without iPDP."""
        if self._grids is None:
            return None
        laid = self.settings.grid
        return Grid(laid.knots, laid.points, laid.equidistant)

    def held(self, rows: int) -> NDArray[np.float64]:
        """Return (up to L, d) rows that the reservoir holds after `rows` rows have entered."""
        return self._reservoir.rows[: min(rows, self.settings.reservoir)]

    def row_numbers(self, width: int, outputs: int) -> int:
        """Return the largest count of numbers that one row takes in a block or, if more, in its answer.

        Parameters
        ----------
        width
            Number of features.
        outputs
            Number of classes of the model; 1 for regression.
        """
        settings = self.settings
        taken = width + 2
        given = 1
        if "ipfi" in settings.methods:
            taken += width * settings.draws
            given += width
        if "isage" in settings.methods:
            steps = max(1, width - 1) if settings.fresh or self._storage is not None else 1
            taken += width * (1 + steps * settings.inner)
            given += width + outputs + 3
        if self._grids is not None:
            taken += 2 * settings.grid.knots * width
            given += max(settings.grid.points, settings.grid.knots) * width * (1 + min(outputs, MOST_OUTPUTS))
        return max(taken, given)
