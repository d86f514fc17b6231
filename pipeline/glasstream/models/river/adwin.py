"""The state of River's ADWIN as bytes: bincode, little endian, of fixed width."""

from struct import Struct
from typing import Final

from glasstream.models.online import layout as L
from glasstream.models.online.layout import Array

_HEAD: Final = Struct("<diQdd")
_STATE: Final = Struct("<ddddiiiiQ")
_ROW: Final = Struct("<QQ")
_LENGTH: Final = Struct("<Q")
_TAIL: Final = Struct("<diQii")


def _as_int32(count: int) -> int:
    """Return a count as River has it, which counts in 32 bits."""
    return (count + 2**31) % 2**32 - 2**31


def read_river(state: bytes, F: Array, I: Array, at: int) -> None:
    """Write what an `AdaptiveWindowing` of River gives as its state into a detector of `MANY_ROWS` zeroed rows.

    Raises
    ------
    ValueError
        The state has another form: this River keeps it in another way.
    """
    delta, clock, most, least, grace = _HEAD.unpack_from(state)
    place = _HEAD.size
    total, variance, width, total_width, buckets, most_buckets, tick, detections, rows = _STATE.unpack_from(
        state, place
    )
    place += _STATE.size
    if rows > L.MANY_ROWS or most > 1_000:
        raise ValueError("more rows than a detector can have")
    F[at + L.WIDTH], F[at + L.TOTAL], F[at + L.VARIANCE], F[at + L.TOTAL_WIDTH] = width, total, variance, total_width
    I[at + L.TICK], I[at + L.ROWS], I[at + L.ROW_ROOM], I[at + L.DETECTIONS] = tick, rows, L.MANY_ROWS, detections
    I[at + L.BUCKETS], I[at + L.MOST_BUCKETS] = buckets, most_buckets
    values = Struct(f"<{most + 1}d")
    for row in range(rows):
        _, I[at + L.DETECTOR_HEADER + row] = _ROW.unpack_from(state, place)
        place += _ROW.size
        for part in range(2):
            if _LENGTH.unpack_from(state, place) != (most + 1,):
                raise ValueError("rows of another length")
            start = at + L.DETECTOR_HEADER + L.MANY_ROWS + (part * L.MANY_ROWS + row) * (most + 1)
            F[start : start + most + 1] = values.unpack_from(state, place + _LENGTH.size)
            place += _LENGTH.size + values.size
    if state[place:] != _TAIL.pack(delta, clock, most, int(least), int(grace)):
        raise ValueError("another end")


def write_river(parameters: Array, F: Array, I: Array, at: int) -> bytes:
    """Return the detector at `at` as the state of River's `AdaptiveWindowing`."""
    delta, least, grace = (float(parameters[which]) for which in (L.DELTA, L.LEAST_WINDOW, L.DETECTOR_GRACE))
    clock, most = int(parameters[L.CLOCK]), int(parameters[L.BUCKETS_A_ROW])
    rows, room = int(I[at + L.ROWS]), int(I[at + L.ROW_ROOM])
    floats = [float(F[at + field]) for field in (L.TOTAL, L.VARIANCE, L.WIDTH, L.TOTAL_WIDTH)]
    counts = [_as_int32(int(I[at + field])) for field in (L.BUCKETS, L.MOST_BUCKETS, L.TICK, L.DETECTIONS)]
    parts = [_HEAD.pack(delta, clock, most, least, grace), _STATE.pack(*floats, *counts, rows)]
    for row in range(rows):
        parts.append(_ROW.pack(most, int(I[at + L.DETECTOR_HEADER + row])))
        for part in range(2):
            start = at + L.DETECTOR_HEADER + room + (part * room + row) * (most + 1)
            parts += [_LENGTH.pack(most + 1), F[start : start + most + 1].astype("<f8").tobytes()]
    parts.append(_TAIL.pack(delta, clock, most, int(least), int(grace)))
    return b"".join(parts)
