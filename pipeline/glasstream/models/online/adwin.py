"""ADWIN (Bifet and Gavaldà, 2007) as River's compiled extension calculates it."""

from glasstream.base.adwin import boundary, drop, enter
from glasstream.base.jit import bare_kernel
from glasstream.models.online import layout as L
from glasstream.models.online.arena import detector_words, reserve, take
from glasstream.models.online.layout import Array


@bare_kernel
def new_detector(p: L.Pool, which: int) -> int:
    """Return the address of a new detector: 0 is one of warnings, 1 one of drifts."""
    at = take(p, detector_words(int(p.detector[which, L.BUCKETS_A_ROW]), L.FEW_ROWS))
    p.I[at + L.ROW_ROOM] = L.FEW_ROWS
    p.I[at + L.ROWS] = 1
    return at


@bare_kernel
def reset(I: Array, parameters: Array, at: int, which: int) -> None:
    """Make a detector as good as new."""
    room = I[at + L.ROW_ROOM]
    for word in range(detector_words(int(parameters[which, L.BUCKETS_A_ROW]), room)):
        I[at + word] = 0
    I[at + L.ROW_ROOM] = room
    I[at + L.ROWS] = 1


@bare_kernel
def update(F: Array, I: Array, control: Array, parameters: Array, at: int, which: int, value: float) -> int:
    """Update the detector at `at`, and return where it is now: it may have moved.

    This kernel takes arrays of the pool, not the pool: numba hands over seven numbers for each array of a tuple.
    """
    if I[at + L.DETECTED] == 1:
        reset(I, parameters, at, which)
    most = int(parameters[which, L.BUCKETS_A_ROW])
    room = I[at + L.ROW_ROOM]
    if room == L.FEW_ROWS and I[at + L.ROWS] == L.FEW_ROWS:
        at = _with_more_rows(I, control, at, most)
        room = L.MANY_ROWS
    used = at + L.DETECTOR_HEADER
    totals = used + room
    I[at + L.BUCKETS] += 1
    I[at + L.MOST_BUCKETS] = max(I[at + L.MOST_BUCKETS], I[at + L.BUCKETS])
    width = F[at + L.WIDTH]
    I[at + L.ROWS], F[at + L.TOTAL], F[at + L.VARIANCE], merged = enter(
        I, used, F, totals, F, totals + room * (most + 1), most, most + 1, room, I[at + L.ROWS], width, F[at + L.TOTAL],
        F[at + L.VARIANCE], value,
    )  # fmt: skip
    F[at + L.WIDTH] = width + 1.0
    I[at + L.BUCKETS] += merged  # River counts the buckets that were made, less those that were dropped
    I[at + L.TICK] += 1
    detected = 0
    if I[at + L.TICK] % int(parameters[which, L.CLOCK]) == 0 and width + 1.0 > parameters[which, L.DETECTOR_GRACE]:
        detected = _detect(F, I, parameters, at, which)
    F[at + L.TOTAL_WIDTH] += F[at + L.WIDTH]
    I[at + L.DETECTIONS] += detected
    I[at + L.DETECTED] = detected
    return at


@bare_kernel
def _with_more_rows(I: Array, control: Array, at: int, most: int) -> int:
    moved = reserve(control, I.size, detector_words(most, L.MANY_ROWS))
    copy_rows(I, at, L.FEW_ROWS, I, moved, L.MANY_ROWS, most)
    return moved


@bare_kernel
def copy_rows(source: Array, at: int, room: int, target: Array, to: int, new_room: int, most: int) -> None:
    """Copy a detector to zeroed words in which it has another number of rows."""
    for word in range(L.DETECTOR_HEADER):
        target[to + word] = source[at + word]
    target[to + L.ROW_ROOM] = new_room
    for row in range(source[at + L.ROWS]):
        target[to + L.DETECTOR_HEADER + row] = source[at + L.DETECTOR_HEADER + row]
    for part in range(2):
        a = at + L.DETECTOR_HEADER + room + part * room * (most + 1)
        b = to + L.DETECTOR_HEADER + new_room + part * new_room * (most + 1)
        for word in range(source[at + L.ROWS] * (most + 1)):
            target[b + word] = source[a + word]


@bare_kernel
def _detect(F: Array, I: Array, parameters: Array, at: int, which: int) -> int:
    """Shorten the window as long as its two parts differ; return 1 if they did."""
    each, delta = int(parameters[which, L.BUCKETS_A_ROW]) + 1, parameters[which, L.DELTA]
    least = parameters[which, L.LEAST_WINDOW]
    used, room = at + L.DETECTOR_HEADER, I[at + L.ROW_ROOM]
    totals, squares = used + room, used + room + room * each
    rows, width, total, variance = I[at + L.ROWS], F[at + L.WIDTH], F[at + L.TOTAL], F[at + L.VARIANCE]
    detected = 0
    while boundary(I, used, F, totals, each, rows, width, total, variance, delta, least, False)[0] > 0.0:
        detected = 1
        rows, width, total, variance = drop(I, used, F, totals, F, squares, each, rows, width, total, variance)
        I[at + L.BUCKETS] -= 1
    I[at + L.ROWS], F[at + L.WIDTH], F[at + L.TOTAL], F[at + L.VARIANCE] = rows, width, total, variance
    return detected
