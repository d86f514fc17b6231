"""The detectors of many series say what River's say of each, however rows are cut, and go on from their state."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift

from glasstream.base.errors import FrameError
from glasstream.detect.drift.adwin import Adwin
from glasstream.detect.drift.detector import Alarm, Parameters
from glasstream.detect.drift.kswin import Kswin
from glasstream.detect.drift.page_hinkley import PageHinkley
from glasstream.detect.drift.settings import DETECTORS
from glasstream.testing import check_detector
from glasstream_topics import frames

RIVERS = {"adwin": drift.ADWIN, "page_hinkley": drift.PageHinkley, "kswin": drift.KSWIN}
ADWIN: Parameters = {"delta": 0.002, "clock": 32, "max_buckets": 5, "min_window_length": 5, "grace_period": 10}
PAGE: Parameters = {"min_instances": 30, "delta": 0.005, "threshold": 20.0, "alpha": 0.9999}
KS: Parameters = {"alpha": 0.001, "window_size": 40, "stat_size": 15, "seed": 4}
DEFAULT = {"adwin": ADWIN, "page_hinkley": PAGE, "kswin": KS}


def series(rows: int) -> np.ndarray:
    """Return series of every kind: noise, steps, a walk, rates, levels, a constant, heavy tails, a large mean."""
    random = np.random.Generator(np.random.PCG64(3))
    noise = random.normal(size=(rows, 8))
    ramp = np.arange(rows) / rows
    return np.column_stack(
        [
            noise[:, 0],
            noise[:, 1] + 2.0 * (ramp > 0.5),
            np.cumsum(noise[:, 2]) * 0.03,
            (random.random(rows) < 0.1 + ramp / 2).astype(float),
            np.repeat(noise[: rows // 500 + 1, 3] * 3, 500)[:rows] + noise[:, 4] * 0.1,
            np.zeros(rows),
            noise[:, 5] / noise[:, 6],
            1e6 + noise[:, 7],
        ]
    )


def alarms_of_river(make: Any, column: np.ndarray) -> list[int]:
    detector, found = make(), []
    for row, value in enumerate(column.tolist()):
        detector.update(value)
        if detector.drift_detected:
            found.append(row)
    return found


@pytest.mark.parametrize(
    ("name", "parameters", "rows"),
    [
        ("adwin", ADWIN, 6_000),
        ("adwin", {**ADWIN, "delta": 1e-5, "grace_period": 2_000}, 6_000),
        ("adwin", {**ADWIN, "delta": 0.2, "clock": 1, "min_window_length": 1}, 1_000),
        ("adwin", {**ADWIN, "max_buckets": 2, "clock": 7, "min_window_length": 20}, 3_000),
        ("adwin", {**ADWIN, "max_buckets": 11}, 3_000),
        ("page_hinkley", PAGE, 3_000),
        ("page_hinkley", {**PAGE, "min_instances": 5, "delta": 0.1, "threshold": 20.0, "alpha": 0.99}, 3_000),
        ("kswin", KS, 300),
    ],
)
def test_each_series_has_the_alarms_of_rivers_detector(name: str, parameters: Parameters, rows: int) -> None:
    values = series(rows)
    found = DETECTORS[name].empty().update(values, parameters)
    for one in range(values.shape[1]):
        wanted = alarms_of_river(lambda: RIVERS[name](**parameters), values[:, one])
        assert [alarm.row for alarm in found if alarm.series == one] == wanted
    assert len({alarm.series for alarm in found}) > 1


def test_adwin_has_the_window_of_rivers_to_the_bit_after_every_number() -> None:
    values = series(1_500)
    ours = Adwin.empty()
    rivers = [drift.ADWIN(**ADWIN) for _ in range(values.shape[1])]
    for row in values:
        ours.update(row[np.newaxis], ADWIN)
        for one, river in enumerate(rivers):
            river.update(row[one])
            assert (river.width, river.total, river.variance) == (ours.counts[one, 0], *ours.sums[one])


def test_adwins_memory_is_the_logarithm_of_the_window() -> None:
    detector = Adwin.empty()
    detector.update(np.arange(100_000.0)[:, np.newaxis] % 7.0, {**ADWIN, "delta": 1e-12})
    assert detector.counts[0, 0] == 100_000
    for held in (detector.state()[1].values(), (getattr(detector, name) for name in Adwin.__slots__)):
        assert sum(array.nbytes for array in held) < 20 * 6 * 8 * 2 + 400, "as it is kept, and as it is used"


def test_an_alarm_tells_the_means_of_both_sides() -> None:
    noise = np.random.Generator(np.random.PCG64(4)).normal(scale=0.1, size=(2_000, 1))
    values = noise + (np.arange(2_000) >= 1_000)[:, np.newaxis]
    for name, parameters in DEFAULT.items():
        first = DETECTORS[name].empty().update(values, parameters)[0]
        assert 1_000 <= first.row < 1_100, (name, first)
        assert abs(first.before) < 0.2 and first.after > 0.05 + first.before and first.width >= 1, name
    (alarm,) = Adwin.empty().update(values, ADWIN)
    newer = values[alarm.row + 1 - alarm.width : alarm.row + 1, 0]
    older = values[: alarm.row + 1 - alarm.width, 0]
    assert (alarm.before, alarm.after) == pytest.approx((older.mean(), newer.mean()), abs=1e-12)
    assert abs(alarm.row + 1 - alarm.width - 1_000) < 32 and alarm.after > 0.9


def fed(name: str, values: np.ndarray, cuts: list[int], crash: bool) -> list[Alarm]:
    detectors, found = DETECTORS[name].empty(), []
    for first, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
        found += [alarm._replace(row=alarm.row + first) for alarm in detectors.update(values[first:end], DEFAULT[name])]
        if crash:
            detectors = DETECTORS[name].restore(*travelled(*detectors.state()))
    return found


def travelled(meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The state as it comes back from a topic."""
    frame = frames.decode(frames.encode("test", 1, meta, arrays), "test", 1)
    return frame.meta, frame.arrays


GAPS = series(700)
GAPS[::7, 0] = np.nan


@pytest.mark.parametrize("name", ["adwin", "page_hinkley"])
@given(cuts=st.lists(st.integers(1, 699), max_size=4, unique=True).map(sorted), crash=st.booleans())
def test_cuts_and_crashes_change_no_alarm(name: str, cuts: list[int], crash: bool) -> None:
    assert fed(name, GAPS, cuts, crash) == fed(name, GAPS, [], False)


def test_cuts_and_crashes_change_no_alarm_of_kswin() -> None:
    values = GAPS[250:450, :2]
    wanted = fed("kswin", values, [], False)
    assert wanted
    for cuts in ([100], [39, 40, 41, 150], [wanted[0].row, wanted[0].row + 1]):
        assert fed("kswin", values, cuts, True) == wanted


@pytest.mark.parametrize("name", DETECTORS)
def test_nan_is_no_number_and_a_series_may_come_later(name: str) -> None:
    values = GAPS[: 250 if name == "kswin" else 700, :2]
    both = [alarm for alarm in fed(name, values, [], False) if alarm.series == 0]
    (rows,) = np.nonzero(~np.isnan(values[:, 0]))
    alone = DETECTORS[name].empty().update(values[rows, :1], DEFAULT[name])
    assert [alarm.row for alarm in both] == [int(rows[alarm.row]) for alarm in alone]
    late = DETECTORS[name].empty()
    late.update(values[:100, :1], DEFAULT[name])
    later = late.update(values[100:], DEFAULT[name])
    own = DETECTORS[name].empty().update(values[100:, 1:], DEFAULT[name])
    assert [alarm.row for alarm in later if alarm.series == 1] == [alarm.row for alarm in own]


def test_a_damaged_state_is_refused() -> None:
    for name, detectors in DETECTORS.items():
        one = detectors.empty()
        one.update(GAPS[:60], DEFAULT[name])
        meta, arrays = one.state()
        for missing in arrays:
            with pytest.raises(FrameError):
                detectors.restore(meta, {key: array for key, array in arrays.items() if key != missing})
    with pytest.raises(FrameError):
        Adwin.restore(*damaged(Adwin, ADWIN, "totals"))
    with pytest.raises(FrameError):
        Kswin.restore(*damaged(Kswin, KS, "generators"))
    with pytest.raises(FrameError):
        PageHinkley.restore({}, {"sums": np.zeros((2, 3))})


def damaged(kind: Any, parameters: Parameters, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    one = kind.empty()
    one.update(GAPS[:60], parameters)
    meta, arrays = one.state()
    return meta, {**arrays, name: arrays[name][:-1]}


class Single:
    """One series as River has it."""

    def __init__(self, name: str, parameters: Parameters) -> None:
        self.bank, self.parameters, self.drift_detected = DETECTORS[name].empty(), parameters, False

    def update(self, x: float) -> None:
        self.drift_detected = bool(self.bank.update(np.array([[x]]), self.parameters))


@pytest.mark.parametrize("name", ["adwin", "page_hinkley"])
def test_a_single_series_keeps_the_laws_of_detectors(name: str) -> None:
    parameters = {**PAGE, "threshold": 50.0} if name == "page_hinkley" else ADWIN
    check_detector(lambda: Single(name, parameters))
