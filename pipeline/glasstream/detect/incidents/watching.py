"""How the series of a stream are watched: a record at stated rows, and where an alarm or an incident begins or ends."""

from collections.abc import Collection
from typing import Final

import numpy as np

from glasstream.detect.incidents.alarm import Alarm
from glasstream.detect.incidents.detectable import HORIZONS, Floats, Smallest, integrals_of_gains, smallest
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.series import Name, Series
from glasstream_topics.watching import Detectable, Watched

EVERY: Final = 5_000
"""Number of rows between two records."""
EARLY: Final = 1_000
"""Number of rows between two of the first records, up to row `EVERY`."""

_DIGITS = 3  # of numbers in a record


def until_due(rows: int) -> int:
    """Return the number of further rows after which a record is due, given the number of rows so far.

    >>> [until_due(rows) for rows in (0, 999, 1_000, 4_001, 5_000, 9_999)]
    [1000, 1, 1000, 999, 5000, 1]
    """
    every = EARLY if rows < EVERY else EVERY
    return every - rows % every


def watched(series: Series, alarm: Alarm | None, silent: Collection[Name], kinds: Collection[int]) -> list[Watched]:
    """Return how the labels and each feature are watched.

    Parameters
    ----------
    alarm
        The open incident, or an alarm that is pending.
    silent
        Series that raise no alarm because one is under way.
    kinds
        Kinds of the features: 0 number, 1 boolean, 2 text.
    """
    muted, quiet, integrals = set(series.muted), set(silent), integrals_of_gains()
    of_alarm = set() if alarm is None else {*alarm.pending, *(alarm.judgement.changed if alarm.judgement else ())}
    result = []
    for place, kind in enumerate([0, *kinds]):
        name = Name("input", place - 1) if place else Name("label", 0)
        before = series.histogram(name)
        known, restless = int(before.total), place > 0 and place - 1 in muted
        if series.arrays["used"][place] < 0:
            state = "calibrating"
        elif name in of_alarm and alarm is not None:
            state = "pending" if alarm.judgement is None else "incident"
        else:
            state = "muted" if restless else "silent" if name in quiet else "watched"
        sizes: list[Detectable] = []
        if state != "calibrating" and not restless:
            sizes = _detectable(before, series.need(name), integrals, numbers=place > 0 and kind == 0)
        bins, evidence = int((before.counts > 0.0).sum()), _rounded(series.evidence(name))
        result.append(Watched(state, known, bins, before.block, evidence, sizes))
    return result


def _detectable(before: Histogram, need: float, integrals: Floats, *, numbers: bool) -> list[Detectable]:
    """Return the smallest changes of a series: what is noticed within some rows is noticed within more."""
    sizes, result = np.full(len(Smallest._fields), np.nan), []
    wealth = float(np.log(max(1.0, need)))  # a huge budget raises alarms without evidence
    for rows in HORIZONS:
        sizes = np.fmin(sizes, smallest(before, wealth, rows, numbers=numbers, integrals=integrals))
        result.append(Detectable(rows, *map(_size, sizes.tolist())))
    return result


def _size(size: float) -> float | None:
    return None if np.isnan(size) else _rounded(size)


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
