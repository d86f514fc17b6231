"""The configured share of the events is flagged, whatever the stream does. A change raises an alarm."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.novelty_logs import mixed, of_data_set, read, whole

SETTINGS = (
    "novelty.window=400", "novelty.stride=300", "novelty.delay=100", "novelty.held=0.5", "novelty.rate=0.05",
    "novelty.learners=5", "novelty.delta=1e-4", "novelty.test_interval=32", "novelty.grace=200",
)  # fmt: skip


def test_events_like_the_window_are_flagged_at_the_stated_rate() -> None:
    """Each map's own rate differs from the stated one by sqrt(0.05 · 0.95 / 202) = 1.5 %; there are 7 or more."""
    for classes in (0, 2):
        records = read(whole(mixed(5_000, classes=classes, labels=0.8), 500, *SETTINGS))
        maps = len({record.map_version for record in records})
        assert maps >= 7
        rate = float(np.mean([record.flagged for record in records]))
        assert abs(rate - 0.05) < 3 * (0.0153**2 / maps + 0.05 * 0.95 / len(records)) ** 0.5
        assert not [record for record in records if record.alarm]


@pytest.mark.slow
@pytest.mark.parametrize("data_set", ["elec2", "bike_hourly", "air_quality"])
def test_real_streams_in_their_own_order_are_flagged_at_the_stated_rate(data_set: str, data_dir: Path) -> None:
    """Most are beyond the thresholds of the maps. `tests/benchmarks/novelty_shares.py` has more streams."""
    records = of_data_set(data_dir / f"{data_set}.csv.gz", 7_000)
    assert np.mean([record.indicator > (record.held_threshold or 0.0) for record in records]) > 0.5
    assert 0.005 <= np.mean([record.flagged for record in records]) <= 0.02
    assert all(record.flagged == (record.indicator > record.threshold) for record in records)


def test_a_stream_that_moves_away_is_flagged_at_first_and_raises_an_alarm() -> None:
    shift = 2_000
    log = mixed(2_600, classes=0, shift=shift, labels=0.8)
    for event in log[shift:]:
        event.pop("y", None)  # no label tells of it
    records = read(whole(log, 100, *SETTINGS))
    assert all(record.flagged for record in records if shift <= record.seq < shift + 5)
    beyond = [record.indicator > record.held_threshold for record in records if record.seq >= shift]
    assert np.mean(beyond) > 0.9
    assert np.mean([record.flagged for record in records if record.seq >= shift]) < 0.1
    alarms = [record for record in records if record.alarm]
    assert alarms and shift < alarms[0].seq < shift + 100
    assert alarms[0].alarm is not None and alarms[0].alarm.after > alarms[0].alarm.before
    assert alarms[0].alarm.width <= alarms[0].seq - shift + 32
