"""Streams with a known change, as rows for the watch. The labels follow the signs of `a` and `b`."""

from collections.abc import Callable

import numpy as np

from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics import frames
from glasstream_topics.incidents import Incident

AT, ROWS = 3_000, 4_500
NAMES = ["a", "b", "c", "colour", "still"]
KINDS = [0, 0, 0, 2, 0]
_WRONG = 0.1


def time_of(row: int) -> int | None:
    """Return the time of a row's event: a minute a row, and some events have none."""
    return None if row % 7 == 3 else 1_767_225_600_000 + 60_000 * row


class Stream:
    """Rows of a model that knows the rule of the labels and is wrong for a share of the rows."""

    def __init__(self, seed: int, rows: int = ROWS) -> None:
        self.draws = np.random.default_rng(seed)
        self.inputs = np.column_stack(
            [
                self.draws.normal(size=rows),
                self.draws.exponential(5.0, size=rows),
                self.draws.integers(0, 4, size=rows).astype(float),
                self.draws.choice([0.0, 1.0, 2.0], size=rows, p=[0.7, 0.2, 0.1]),
                np.ones(rows),
            ]
        )
        self.target = (self.inputs[:, 0] + 0.3 * self.inputs[:, 2] > 0.4).astype(float)
        self.loss = np.where(self.draws.random(rows) < _WRONG, 0.8, 0.1) + 0.02 * self.draws.random(rows)
        self.importance = self.draws.normal(0.05, 0.2, size=(rows, len(NAMES)))
        self.importance[:, 0] += 0.3

    def rows(self, first: int = 0, last: int | None = None, first_row: int = 100) -> Rows:
        part = slice(first, last)
        count = len(self.loss[part])
        return Rows(
            first_row=first_row + first,
            seqs=np.arange(first_row + first, first_row + first + count),
            times=[time_of(row) for row in range(first_row + first, first_row + first + count)],
            names=NAMES,
            kinds=KINDS,
            inputs=self.inputs[part],
            target=self.target[part],
            classes=["no", "yes"],
            loss=self.loss[part],
            loss_name="brier",
            importance=self.importance[part],
        )


def swapped(stream: Stream) -> None:
    stream.inputs[AT:, :2] = stream.inputs[AT:, 1::-1]


def scaled(stream: Stream) -> None:
    stream.inputs[AT:, 1] *= 1_000.0


def missing(stream: Stream) -> None:
    stream.inputs[AT:, 0][stream.draws.random(ROWS - AT) < 0.3] = np.nan


def constant(stream: Stream) -> None:
    stream.inputs[AT:, 1] = 2.0


def alive(stream: Stream) -> None:
    stream.inputs[AT:, 4] = stream.draws.normal(size=ROWS - AT)


def data_moved(stream: Stream) -> None:
    stream.inputs[AT:, 1] += 4.0
    stream.inputs[AT:, 3] = stream.draws.choice([0.0, 1.0, 2.0], size=ROWS - AT, p=[0.2, 0.2, 0.6])


def data_and_loss_moved(stream: Stream) -> None:
    data_moved(stream)
    stream.loss[AT:] += 0.5


def concept_moved(stream: Stream) -> None:
    other = stream.inputs[AT:, 0] > 0.3
    stream.target[AT:][other] = 1.0 - stream.target[AT:][other]
    stream.loss[AT:][other] = 0.9


def labels_shifted(stream: Stream) -> None:
    """Draw the rows again, one class more often."""
    weights = np.where(stream.target[AT:] == 1.0, 5.0, 1.0)
    rows = AT + stream.draws.choice(ROWS - AT, size=ROWS - AT, p=weights / weights.sum())
    for array in (stream.inputs, stream.target, stream.loss):
        array[AT:] = array[rows]


def model_replaced(stream: Stream) -> None:
    stream.loss[AT:] = np.where(stream.draws.random(ROWS - AT) < 0.4, 0.8, 0.1)


def reasoning_moved(stream: Stream) -> None:
    stream.importance[AT:, 0] -= 0.3
    stream.importance[AT:, 1] += 0.3


def twins(stream: Stream) -> None:
    """Let `still` follow `a` at all rows, a little above it: their distributions differ by less than 0.05."""
    stream.inputs[:, 4] = stream.inputs[:, 0] + 0.03 * stream.draws.exponential(size=len(stream.inputs))


def twins_swapped(stream: Stream) -> None:
    twins(stream)
    stream.inputs[AT:, [0, 4]] = stream.inputs[AT:, [4, 0]]


def nothing(stream: Stream) -> None:
    pass


Change = Callable[[Stream], None]


def changed(change: Change, seed: int) -> Stream:
    stream = Stream(seed)
    change(stream)
    return stream


def watched(stream: Stream, sizes: list[int] | None = None, budget: float = 0.5) -> list[Incident]:
    """Return the incidents of a stream that arrives in blocks of some sizes."""
    watch = IncidentWatch("s", 0, 7, budget)
    found: list[Incident] = []
    first = 0
    for size in sizes or [len(stream.loss)]:
        for record in watch.update(stream.rows(first, first + size)):
            found.append(record)
            frames.encode("state", 1, *watch.state())  # what is published can be saved
        first += size
    return found
