"""The watch over the offsets of one input partition."""

from enum import Enum


class Verdict(Enum):
    """What to do with a message."""

    NEXT = "use it"
    SEEN = "it was processed before"
    MISSING = "messages before it were lost in transit; read them again"


class Sequence:
    """Says of every message whether it is the next one, a repetition, or comes after a loss.

    Offsets of a partition need not be contiguous: transaction markers, aborted and compacted records leave holes.
    So every message comes with `follows`, the offset that the consumer was at before it (see `consumer`): a hole
    between the two is in the log, a hole below `follows` was made on the way.

    Parameters
    ----------
    next_offset : int
        The offset to begin with.

    Attributes
    ----------
    next_offset : int
        Everything below was used.
    holes : int
        Offsets without a message, confirmed by the consumer's own reading.
    lost : int
        How many times messages were found lost on the way.

    Examples
    --------
    >>> watch = Sequence(10)
    >>> watch.judge(offset=10, follows=10), watch.judge(offset=10, follows=10)
    (<Verdict.NEXT: 'use it'>, <Verdict.SEEN: 'it was processed before'>)
    >>> watch.judge(offset=13, follows=11)          # 11 and 12 are markers
    <Verdict.NEXT: 'use it'>
    >>> watch.judge(offset=20, follows=20).name     # 14 to 19 were handed out and never came
    'MISSING'
    >>> watch.next_offset, watch.holes, watch.lost
    (14, 2, 1)
    """

    __slots__ = ("holes", "lost", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.holes = 0
        self.lost = 0

    def judge(self, offset: int, follows: int) -> Verdict:
        """Judge the message at `offset` and go on behind it if it is the next."""
        expected = self.next_offset
        if offset < expected:
            return Verdict.SEEN
        if follows > expected:
            self.lost += 1
            return Verdict.MISSING
        self.holes += offset - expected
        self.next_offset = offset + 1
        return Verdict.NEXT
