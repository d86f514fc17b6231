"""The generator is Philox, and a draw depends on nothing but what it is for."""

import numpy as np

from glasstream.base.draws import below, philox, stream_key

ONES = 0xFFFFFFFF


def test_philox_known_answers() -> None:
    """The known-answer vectors of Random123 for philox4x32-10."""
    assert [int(word) for word in philox(0, 0, 0, 0, 0, 0)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(word) for word in philox(ONES, ONES, ONES, ONES, ONES, ONES)] == [
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    ]
    assert [int(word) for word in philox(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)] == [
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ]


def test_draws_are_uniform_below_the_bound() -> None:
    key = stream_key(3, "stream")
    for bound in (1, 2, 7, 100):
        draws = np.array([below(bound, key, row, 1, 0) for row in range(7_000)])
        assert draws.min() == 0 and draws.max() == bound - 1
        counts = np.bincount(draws, minlength=bound)
        expected = len(draws) / bound
        chi2 = float(((counts - expected) ** 2 / expected).sum())
        assert chi2 < bound - 1 + 6 * np.sqrt(2 * max(bound - 1, 1))


def test_seed_stream_row_purpose_and_index_all_matter() -> None:
    base = [below(1 << 30, stream_key(1, "a"), row, 1, 0) for row in range(50)]
    others = [
        [below(1 << 30, stream_key(2, "a"), row, 1, 0) for row in range(50)],
        [below(1 << 30, stream_key(1, "b"), row, 1, 0) for row in range(50)],
        [below(1 << 30, stream_key(1, "a"), row + (1 << 40), 1, 0) for row in range(50)],
        [below(1 << 30, stream_key(1, "a"), row, 2, 0) for row in range(50)],
        [below(1 << 30, stream_key(1, "a"), row, 1, 1) for row in range(50)],
    ]
    for other in others:
        assert not set(base) & set(other)
