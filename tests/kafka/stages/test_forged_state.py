"""State with valid checksums that no stage wrote is refused, with stream, field and remedy, before kernels run."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import FrameError, StateError
from glasstream.detect.drift.adwin import Adwin
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.novelty.stream import StreamDetector
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream_topics import progress_aggregator
from glasstream_topics.progress_aggregator import AggregatorState
from tests.support.contributions import ROWS
from tests.support.forged_states import SETTINGS, START, committed, feed
from tests.support.novelty_logs import mixed, packed, told, watch

FAR = 1 << 40
COUNTS, FILLED = "drift/importance/ipfi/counts", "drift/importance/ipfi/filled"


def state() -> dict[bytes, bytes]:
    task = AggregatorTask(0, SETTINGS)
    task.restore({}, 0, 10)
    feed(task, [START, 20])
    return committed(task)


WHOLE = state()
OWN = progress_aggregator.restore(dict(WHOLE)).state("s")


def forged(arrays: dict[str, np.ndarray], meta: dict[str, Any] | None = None) -> dict[bytes, bytes]:
    """Return the state with other arrays and other values, as its writer would write it."""
    content = AggregatorState(progress=OWN.progress, meta={**OWN.meta, **(meta or {})}, arrays={**OWN.arrays, **arrays})
    return WHOLE | {key: value for key, value in progress_aggregator.encode_stream(content) if value is not None}


def column(name: str, place: Any, value: float) -> dict[str, np.ndarray]:
    array = np.array(OWN.arrays[name])
    array[place] = value
    return {name: array}


def buckets(number: int) -> dict[str, Any]:
    drift = {**OWN.meta["drift"]}
    drift["detectors"] = {name: {"buckets": number} for name in drift["detectors"]}
    return {"drift": drift}


FORGED: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], str]] = {
    "buckets beyond the array": (column(FILLED, (slice(None), 0), 2**15 - 1), {}, "filled"),
    "buckets of another dtype": ({FILLED: np.full(OWN.arrays[FILLED].shape, FAR)}, {}, "filled"),
    "negative buckets": (column(FILLED, (0, 0), -5), {}, "filled"),
    "sizes in use": (column(COUNTS, (slice(None), 1), FAR), {}, "in use"),
    "width of a window": (column(COUNTS, (0, 0), FAR), {}, "buckets hold"),
    "room for buckets": ({}, buckets(2**58), "buckets"),
    "other room for buckets": ({}, buckets(1_001), "room for 6 buckets"),
    "sums that are not finite": (column("drift/importance/ipfi/sums", (0, 0), np.nan), {}, "sums"),
    "edges in use": (column("incidents/used", slice(None), FAR), {}, "used"),
    "members of a pair": (column("incidents/members", slice(None), 50), {}, "members"),
    "rows of a block": (column("incidents/block", slice(None), FAR), {}, "block"),
    "no rows of a block": (column("incidents/block", 0, 0), {}, "block"),
    "rows of a block of levels": (column("incidents/level_block", 0, -1), {}, "level_block"),
    "begin of a bet": (column("incidents/start", (0, 0), FAR), {}, "up to row 19"),
    "rows of a calibration": ({"incidents/buffer": np.zeros((400, 4))}, {}, "calibration"),
    "values that are infinite": (column("ipfi/raw", 0, np.inf), {}, "raw"),
    "a weight of nothing": (column("ipfi/weight", 0, 0.0), {}, "weight"),
    "a weight of points": (column("ipdp/weight", 0, 1e-300), {}, "weights"),
    "a mean prediction": (column("isage/mean.raw", 0, 1e140), {}, "raw"),
    "categories": (column("ipdp/categorical", 0, 1), {}, "categories"),
    "the newest row": ({}, {"next_row": OWN.meta["next_row"] + 1}, "next_row"),
    "names": ({}, {"names": ["c"]}, "names"),
    "a loss": ({}, {"loss": "none"}, "loss"),
    "no methods": ({}, {"methods": {}}, "methods"),
    "another value": ({}, {"more": 1}, "more"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_state_is_refused_with_its_field_and_the_remedy(what: str) -> None:
    arrays, meta, field = FORGED[what]
    with pytest.raises(StateError) as caught:
        AggregatorTask(0, SETTINGS).restore(forged(arrays, meta), 0, 10)
    message = str(caught.value)
    assert "stream 's'" in message and field in message, message
    assert ("xpected" in message and "got" in message) or "more" in message, message
    assert "--set epoch=N" in message, message


def extremes(array: np.ndarray) -> list[float]:
    if array.dtype.kind == "f":
        return [np.inf, -np.inf]
    info = np.iinfo(array.dtype)
    return [info.max] if array.dtype.itemsize < 8 else [info.min, info.max]


def refused_arrays(restore: Callable[[dict[str, np.ndarray]], object], arrays: Mapping[str, np.ndarray]) -> None:
    """Check that no array of a state has any other dtype, more dimensions, or extreme numbers."""
    for name, array in arrays.items():
        others = [array.astype(np.float64 if array.dtype == np.float32 else np.float32), array[np.newaxis]]
        for value in () if name.endswith(("origin", "map")) else extremes(array):  # times and bytes may be any
            if array.size:
                others.append(array.copy())
                others[-1].reshape(-1)[array.size // 2] = value
        for other in others:
            with pytest.raises(StateError, match=rf"{name.rpartition('/')[2].rpartition('.')[2]}|in use|buckets"):
                restore({**arrays, name: other})


def test_every_array_of_the_aggregator_has_a_form() -> None:
    def restore(arrays: dict[str, np.ndarray]) -> None:
        StreamAggregator.restore("s", SETTINGS, OWN.meta, arrays)

    restore(dict(OWN.arrays))
    refused_arrays(restore, OWN.arrays)


def test_every_array_of_the_novelty_detector_has_a_form(anchor: Any) -> None:
    def restore(arrays: dict[str, np.ndarray]) -> None:
        StreamDetector.restore("s", watch(), anchor[0], arrays)

    restore(anchor[1])
    refused_arrays(restore, anchor[1])


def test_the_remedy_helps() -> None:
    """In a new epoch, a stage starts without the state that it cannot use."""
    task = AggregatorTask(0, load(assignments=["topics.events=1", "epoch=1"]))
    assert task.restore(forged(*FORGED["edges in use"][:2]), 0, 10) == 0 or not task.core.streams
    assert task.settings.epoch == 1 and not task.core.streams


def test_the_whole_state_goes_on() -> None:
    task, resumed = AggregatorTask(0, SETTINGS), AggregatorTask(0, SETTINGS)
    task.restore({}, 0, 10)
    feed(task, [START, 20])
    task.collect()
    resumed.restore(dict(WHOLE), 0, 10)
    for one in (task, resumed):
        feed(one, [20, 30, ROWS])
    assert committed(resumed) == committed(task)


def test_no_number_is_written_outside_of_a_window() -> None:
    """A state whose count of buckets leads to a chosen place in memory."""
    arrays = {
        "counts": np.array([[0, 1, 0, 0]]),
        "sums": np.zeros((1, 2)),
        "filled": np.array([[FAR, *[0] * 39]]),
        "totals": np.zeros(6),
        "squares": np.zeros(6),
    }
    with pytest.raises(FrameError, match=r"ADWIN: expected 'filled' as i2"):
        Adwin.restore({"buckets": 6}, arrays)
    arrays["filled"] = np.array([[6, *[0] * 39]], np.int16)
    with pytest.raises(FrameError, match="ADWIN: expected"):
        Adwin.restore({"buckets": 6}, arrays)


@pytest.fixture(scope="module")
def anchor() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    core = PartitionDetector(watch())
    told(core, packed(mixed(300), 20))
    return core.streams["s"].detector.state()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("window/targets", 1e300, "targets"),
        ("window/targets", 7.0, "indices"),
        ("window/seqs", FAR, "events before"),
        ("window/rows", 1e300, "rows"),
        ("waiting/seqs", 3, "order"),
        ("detector/filled", 2_000, "filled"),
        ("detector/counts", FAR, "use"),
    ],
)
def test_a_forged_anchor_is_refused(anchor: Any, name: str, value: float, field: str) -> None:
    meta, arrays = anchor
    with pytest.raises(StateError, match=rf"stream 's'.*{field}.*--set epoch=N"):
        StreamDetector.restore("s", watch(), meta, {**arrays, name: np.full_like(arrays[name], value)})


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("waiting", {"ids": [], "labelled": [], "begun": True, "joined": 0, "missed": 0}, "seqs"),
        ("next_due", 2**40, "next map"),
        ("labelled", 2**40, "labels"),
        ("seqs", 2**62, "seqs"),
        ("window", {"classes": []}, "classes"),
        ("categories", [["a", "a"]] * 5, "categories"),
    ],
)
def test_a_forged_value_of_an_anchor_is_refused(anchor: Any, name: str, value: Any, field: str) -> None:
    meta, arrays = anchor
    with pytest.raises(StateError, match=rf"stream 's'.*{field}.*--set epoch=N"):
        StreamDetector.restore("s", watch(), {**meta, name: value}, arrays)
