"""Detection of gaps in the offsets of one input partition."""

from enum import Enum


class Verdict(Enum):
    """Decision about a batch."""

    NEXT = "use it"
    SEEN = "it was processed before"
    MISSING = "messages before it were lost in transit; read them again"


class Sequence:
    """Decides for every batch of messages whether it is the next one, a repetition, or comes after a loss.

    Offsets of a partition need not be contiguous: transaction markers, aborted and compacted records leave holes. Every
    batch therefore carries `follows`, the position of the client before it (see `reader`). A hole between the two is in
    the log; a hole below `follows` is a loss on the way.

    Parameters
    ----------
    next_offset : int
        First expected offset.

    Attributes
    ----------
    next_offset : int
        Next expected offset. Everything below has been used.
    lost : int
        Number of times that messages were lost on the way.

    Examples
    --------
    >>> watch = Sequence(10)
    >>> watch.judge(last=12, follows=10), watch.judge(last=12, follows=10)
    (<Verdict.NEXT: 'use it'>, <Verdict.SEEN: 'it was processed before'>)
    >>> watch.judge(last=15, follows=13)            # 13 and 14 may be markers
    <Verdict.NEXT: 'use it'>
    >>> watch.judge(last=20, follows=20).name       # 16 to 19 were handed out and never came
    'MISSING'
    >>> watch.next_offset, watch.lost
    (16, 1)
    """

    __slots__ = ("lost", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.lost = 0

    def judge(self, last: int, follows: int | None) -> Verdict:
        """Judge the batch that ends with the message at `last`, and advance if it has the next one."""
        expected = self.next_offset
        if last < expected:
            return Verdict.SEEN
        if follows is not None and follows > expected:
            self.lost += 1
            return Verdict.MISSING
        self.next_offset = last + 1
        return Verdict.NEXT
