"""A watch that counts rows, in place of the one that finds incidents: it tells the wiring from the engine."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from glasstream.detect.incidents.recent import Recent
from glasstream.detect.incidents.watch import Rows
from glasstream_topics.incidents import Affected, Evidence, Incident, Onset
from glasstream_topics.watching import Watched, Watching

EVERY, LASTS = 40, 15


class CountingWatch:
    """Opens an incident at every 40th row that it gets, says how it watches there, and ends it 15 rows later.

    The records contain sums over all rows so far, and the whole row at which they are made: they differ if a row is
    lost, doubled, changed or out of order.
    """

    def __init__(self, stream: str, epoch: int, seed: int, budget: float, learns: bool = True) -> None:
        self.stream, self.epoch, self.seed, self.budget = stream, epoch, seed, budget
        self.count = self.incidents = 0
        self.sums = np.zeros(4)
        """Of inputs, targets, losses and importances."""
        self.since = 0
        self.watching: list[Watching] = []
        self.recent = Recent()

    def update(self, rows: Rows) -> Iterator[Incident]:
        importance = np.zeros_like(rows.inputs) if rows.importance is None else rows.importance
        assert rows.inputs.shape == importance.shape == (len(rows.seqs), len(rows.names))
        assert len(rows.target) == len(rows.loss) == len(rows.seqs) and len(rows.kinds) == len(rows.names)
        assert len(rows.times) in (0, len(rows.seqs))
        for at, seq in enumerate(rows.seqs.tolist()):
            self.count += 1
            values = (np.nansum(rows.inputs[at]), rows.target[at], rows.loss[at], np.sum(importance[at]))
            self.sums += np.array(values)
            place = rows.first_row + at, seq
            if self.count % EVERY == 0:
                self.since = place[0]
                self.watching.append(self._watching(rows, place))
                yield self._incident(rows, at, place, "open")
            elif self.count > EVERY and self.count % EVERY == LASTS:
                yield self._incident(rows, at, place, "over")

    def taken(self) -> list[Watching]:
        taken, self.watching = self.watching, []
        return taken

    def _watching(self, rows: Rows, place: tuple[int, int]) -> Watching:
        one = Watched("watched", self.count, 1, 1, float(abs(self.sums).sum()), [])
        features = dict.fromkeys(rows.names, one)
        return Watching(1, self.epoch, self.stream, *place, unlabelled=False, label=one, features=features)

    def _incident(self, rows: Rows, at: int, place: tuple[int, int], status: str) -> Incident:
        label = rows.classes[int(rows.target[at])] if rows.classes else float(rows.target[at])
        row = self.since
        sums = [float(number) for number in self.sums]
        return Incident(
            schema_version=3,
            epoch=self.epoch,
            stream=self.stream,
            incident=self.count // EVERY,
            status=status,
            row=place[0],
            seq=place[1],
            onset=Onset(row, max(0, row - 5), row, place[1], rows.times[at] if rows.times else None),
            verdict="unclear",
            weight=1.0,
            alternatives=[],
            features=[Affected(name, None) for name in rows.names[:10]],
            loss_name=rows.loss_name,
            loss_before=float(rows.loss[at]),
            loss_after=sums[2],
            summary=f"{self.count} rows, the last with {label}, {rows.inputs[at].tolist()} of kinds {[*rows.kinds]}.",
            evidence=[Evidence("input", None, row, number, None, self.budget) for number in sums],
            rule="unknown",
            muted=[],
        )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"count": self.count, "since": self.since}, {"sums": self.sums}

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *_: Any) -> None:
        self.count, self.since, self.sums = int(meta["count"]), int(meta["since"]), arrays["sums"].copy()
