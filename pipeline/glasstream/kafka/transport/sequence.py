"""Detection of gaps in the offsets of one input partition."""

from enum import Enum


class Verdict(Enum):
    """Decision about a message."""

    NEXT = "use it"
    SEEN = "it was processed before"
    MISSING = "messages before it were lost in transit; read them again"


class Sequence:
    """Decides for every message whether it is the next one, a repetition, or comes after a loss.

    Offsets of a partition need not be contiguous: transaction markers, aborted and compacted records leave holes. Every
    message therefore carries `follows`, the position of the consumer before it (see `consumer`). A hole between the two
    is in the log; a hole below `follows` is a loss on the way.

    Parameters
    ----------
    next_offset : int
        First expected offset.

    Attributes
    ----------
    next_offset : int
        Next expected offset. Everything below has been used.
    holes : int
        Number of offsets without a message in the log, according to the consumer's position.
    lost : int
        Number of times that messages were lost on the way.

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
        """Judge the message at `offset`, and advance if it is the next one."""
        expected = self.next_offset
        if offset < expected:
            return Verdict.SEEN
        if follows > expected:
            self.lost += 1
            return Verdict.MISSING
        self.holes += offset - expected
        self.next_offset = offset + 1
        return Verdict.NEXT
