"""Hold the share of events beyond a threshold at a nominal rate, on streams that follow no fixed distribution.

The threshold of a map holds for events like those of its window. Scored events are later, and on most streams they are
farther away. The threshold is therefore multiplied by exp(level), and the level follows the stream: the quantile
tracker of Angelopoulos, Candès and Tibshirani (2023, Conformal PID Control, section 2.1), for
the logarithm of the indicator. Of n events of any stream, the share beyond the threshold then differs from the rate by
at most (range of the level) / (gain · n), except that fewer are beyond it while the level is `LEAST`.
"""

from collections.abc import Iterable
from math import exp, log
from typing import Final

FLAGS: Final = 0.2
"""Gain of the level by which events are flagged. After a jump of the indicators by a factor F, log(F) / gain events are
flagged in a row; afterwards, the level needs 1 / (gain · rate) events to fall by 1."""
ALARMS: Final = 0.02
"""Gain of the level by whose share alarms are raised: slow, so that a change that lasts shows in many events."""
LEAST: Final = log(0.1)
"""Smallest level. Without it, a quiet stream would make any event novel."""
MOST: Final = 700.0
"""Largest level: exp of more is no float."""


def follow(
    level: float, indicators: Iterable[float], held: float, gain: float, rate: float
) -> tuple[float, list[float]]:
    """Return the level after some events, and the threshold of each event, which the events before it have set.

    Parameters
    ----------
    level
        Level before the events.
    indicators
        Indicators of the events, in their order.
    held
        Threshold of the map, above 0.
    gain
        Largest step of the level.
    rate
        Share of events that shall be beyond the threshold.

    >>> level, thresholds = follow(0.0, [9.0, 9.0, 1.0], 2.0, 1.0, 0.1)
    >>> [round(one, 3) for one in thresholds], round(level, 3)
    ([2.0, 4.919, 12.099], 1.7)
    """
    thresholds = []
    for indicator in indicators:
        threshold = held * exp(level)
        thresholds.append(threshold)
        level = min(MOST, max(LEAST, level + gain * ((indicator > threshold) - rate)))
    return level, thresholds
