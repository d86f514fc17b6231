"""ADWIN (Bifet and Gavaldà, 2007) as River's compiled extension calculates it."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel
from glasstream.models.online import layout as L
from glasstream.models.online.arena import detector_words, reserve, take
from glasstream.models.online.layout import Array

Pool = Any


@bare_kernel
def new_detector(p: Pool, which: int) -> int:
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
    variances = totals + room * (most + 1)
    F[totals + I[used]] = value
    F[variances + I[used]] = 0.0
    I[used] += 1
    I[at + L.BUCKETS] += 1
    I[at + L.MOST_BUCKETS] = max(I[at + L.MOST_BUCKETS], I[at + L.BUCKETS])
    width = F[at + L.WIDTH] + 1.0
    F[at + L.WIDTH] = width
    if width > 1.0:
        difference = value - F[at + L.TOTAL] / (width - 1.0)
        F[at + L.VARIANCE] += (width - 1.0) * difference * difference / width
    F[at + L.TOTAL] += value
    row = 0
    while row < room - 1 and I[used + row] == most + 1:
        here, above = row * (most + 1), (row + 1) * (most + 1)
        n = float(1 << row)
        mean_1 = F[totals + here] / n
        mean_2 = F[totals + here + 1] / n
        if row + 1 >= I[at + L.ROWS]:
            I[at + L.ROWS] += 1
        q = I[used + row + 1]
        F[totals + above + q] = F[totals + here] + F[totals + here + 1]
        between = n * n * (mean_1 - mean_2) * (mean_1 - mean_2) / (n + n)
        F[variances + above + q] = F[variances + here] + F[variances + here + 1] + between
        I[used + row + 1] = q + 1
        for j in range(2, most + 1):
            F[totals + here + j - 2] = F[totals + here + j]
            F[variances + here + j - 2] = F[variances + here + j]
        for j in range(most - 1, most + 1):
            F[totals + here + j] = 0.0
            F[variances + here + j] = 0.0
        I[used + row] = most - 1
        I[at + L.BUCKETS] += 1  # River counts the buckets that were made, less those that were dropped
        row += 1
    I[at + L.TICK] += 1
    detected = 0
    if I[at + L.TICK] % int(parameters[which, L.CLOCK]) == 0 and width > parameters[which, L.DETECTOR_GRACE]:
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
    most = int(parameters[which, L.BUCKETS_A_ROW])
    least = parameters[which, L.LEAST_WINDOW]
    used = at + L.DETECTOR_HEADER
    totals = used + I[at + L.ROW_ROOM]
    detected = 0
    again = True
    while again:
        again = False
        n0, n1 = 0.0, F[at + L.WIDTH]
        u0, u1 = 0.0, F[at + L.TOTAL]
        log = math.log(2.0 * math.log(F[at + L.WIDTH]) / parameters[which, L.DELTA])
        variance = F[at + L.VARIANCE] / F[at + L.WIDTH]
        done = False
        row = I[at + L.ROWS] - 1
        while row >= 0 and not done:
            size = float(1 << row)
            for k in range(I[used + row]):
                n0 += size
                n1 -= size
                total = F[totals + row * (most + 1) + k]
                u0 += total
                u1 -= total
                if row == 0 and k == I[used + row] - 1:
                    done = True
                    break
                if n1 >= least and n0 >= least:
                    difference = (u0 / n0) - (u1 / n1)
                    reciprocal = 1.0 / (n0 - least + 1.0) + 1.0 / (n1 - least + 1.0)
                    cut = math.sqrt(2.0 * reciprocal * variance * log) + 2.0 / 3.0 * log * reciprocal
                    if abs(difference) > cut:
                        detected = 1
                        if F[at + L.WIDTH] > 0.0:
                            again = True  # with a bucket less
                            _drop_oldest(F, I, at, most)
                            done = True
                            break
            row -= 1
    return detected


@bare_kernel
def _drop_oldest(F: Array, I: Array, at: int, most: int) -> None:
    room = I[at + L.ROW_ROOM]
    used = at + L.DETECTOR_HEADER
    last = I[at + L.ROWS] - 1
    totals = used + room + last * (most + 1)
    variances = used + room + (room + last) * (most + 1)
    n = float(1 << last)
    total = F[totals]
    mean = total / n
    F[at + L.WIDTH] -= n
    F[at + L.TOTAL] -= total
    width = F[at + L.WIDTH]
    difference = mean - F[at + L.TOTAL] / width
    F[at + L.VARIANCE] -= F[variances] + n * width * difference * difference / (n + width)
    count = I[used + last]
    for q in range(1, count):
        F[totals + q - 1] = F[totals + q]
        F[variances + q - 1] = F[variances + q]
    F[totals + count - 1] = 0.0
    F[variances + count - 1] = 0.0
    I[used + last] = count - 1
    I[at + L.BUCKETS] -= 1
    if count == 1:
        I[at + L.ROWS] -= 1
