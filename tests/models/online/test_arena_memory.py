"""Memory of young models: of a large arena, only what is used is in memory."""

from pathlib import Path

import numpy as np

from glasstream.models.online.layout import empty_arena, zeroed

WORDS = 250_000


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def test_an_arena_takes_the_memory_that_is_used_also_where_another_one_was_before() -> None:
    used = [np.ones(WORDS) for _ in range(50)]
    before = resident()
    del used
    arenas = []
    for number in range(200):
        floats, integers = empty_arena(WORDS)
        assert floats.size == integers.size == WORDS and not floats[-10:].any()
        floats[:100] = number
        arenas.append((floats, integers))
        if number % 3 == 0:
            arenas.pop(0)
    assert resident() - before < 20 * 8 * WORDS, "expected a few pages for each of 133 arenas of 2 MB"
    assert all(floats[99] == integers[:100].view(np.float64)[99] > 0 for floats, integers in arenas)


def test_small_and_large_arrays_are_zero_and_can_be_written() -> None:
    for words in (0, 1, 8_191, 8_192, 100_000):
        made = zeroed(words)
        assert made.shape == (words,) and made.dtype == np.float64 and not made.any() and made.flags.c_contiguous
        made[:] = 1.0
        assert made.sum() == words
