"""The harness finds what it is there to find: crashes, hangs, allocations, and exceptions that are not documented."""

import ctypes
import random
import signal

import pytest

from tests.fuzz.harness import fuzz
from tests.fuzz.target import Target


class _Faulty(Target):
    """Ends in another way for each fifth mutation."""

    name = "faulty"
    refused = (KeyError,)
    seconds = 1
    mib = 64

    def __init__(self) -> None:
        self.number = 0

    def run(self, random: random.Random) -> str:
        self.number += 1
        match self.number % 5:
            case 0:
                raise KeyError("documented")
            case 1:
                raise IndexError("a kernel left its array")
            case 2:
                bytearray(2**30)
            case 3:
                ctypes.string_at(0)
            case _:
                signal.pause()
        return "ok"


def test_a_crash_does_not_end_the_run():
    target = _Faulty()
    target.number = 2
    outcome = fuzz(target, seed=1, first=0, count=3)  # each child begins with the same number
    assert outcome.counts == {"SIGSEGV": 3}
    assert [number for number, _ in outcome.findings] == [0, 1, 2]


@pytest.mark.parametrize(
    ("number", "word"), [(4, "refused"), (0, "IndexError"), (1, "MemoryError"), (2, "SIGSEGV"), (3, "hang")]
)
def test_an_outcome_has_its_word(number, word):
    target = _Faulty()
    target.number = number
    outcome = fuzz(target, seed=1, first=0, count=1)
    assert outcome.counts == {word: 1}
    assert len(outcome.findings) == (word != "refused")
