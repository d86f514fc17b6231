"""Every state that rows can lead to can be restored, and is the same again: the form of saved state refuses none."""

from collections.abc import Iterator

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream_topics import contributions, frames
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import LARGEST, LARGEST_SQUARED
from tests.support.examples import some

START, BLOCKS, MOST_ROWS = 5, 40, 40
FEATURES = (("number", 0), ("text", 2), ("flag", 1), ("other", 0), ("late", 2))
EXTREMES = (0.0, -0.0, 1.0, -1.0, 5e-324, -1e-300, 1e60, 1e-60)
DETECTORS = {
    "adwin": (),
    "adwin that alarms": ("drift.delta=0.9", "drift.grace=0", "drift.test_interval=1", "drift.buckets=2"),
    "page_hinkley": ("drift.threshold=0.01", "drift.grace=1", "drift.values=smoothed", "drift.pd=squares"),
    "kswin": ("drift.watch=loss", "drift.window=8", "drift.stat_size=3", "drift.alpha=0.5"),
}


def settings(detector: str, *more: str) -> Settings:
    assignments = ["explain.methods=ipfi,isage,ipdp", f"explain.reservoir={START}", "publish.every=10", "ipdp.ice=3"]
    named = f"drift.detector={detector.partition(' ')[0]}"
    return load(assignments=[*assignments, named, *DETECTORS[detector], *more])


def numbers(draws: np.random.Generator, shape: tuple[int, ...], most: float) -> np.ndarray:
    """Return numbers of every size, some of them the largest that contributions may have."""
    values = draws.normal(size=shape) * 10.0 ** draws.uniform(-3, 3)
    odd = draws.random(shape) < 0.1
    values[odd] = draws.choice([*EXTREMES, most, -most], size=odd.sum())
    return np.clip(values, -most, most)


def hostile(draws: np.random.Generator, regression: bool) -> Iterator[Contributions]:
    """Yield consecutive blocks: features, classes and points come and go, and the rows' distribution changes."""
    row, width, classes = START, 1, 0 if regression else 2
    for number in range(BLOCKS):
        count = int(draws.integers(1, MOST_ROWS))
        width = min(len(FEATURES), width + (draws.random() < 0.2))
        classes = min(4, classes + (draws.random() < 0.1)) if classes else 0
        k, points = max(1, classes), int(draws.integers(2, 5))
        names, kinds = zip(*FEATURES[:width], strict=True)
        outputs = [f"c{one}" for one in range(classes)] if classes > 2 else ["c1"] if classes else [""]
        grid = numbers(draws, (count, points, width), LARGEST)
        for slot in (slot for slot, kind in enumerate(kinds) if kind):
            grid[:, :, slot] = np.arange(points) % (3 if kinds[slot] == 2 else 2) + number // 10 * (kinds[slot] == 2)
            grid[draws.random(count) < 0.2, :, slot] = np.nan
        ice = numbers(draws, (count, width, points, len(outputs)), LARGEST)
        ice[np.isnan(grid.transpose(0, 2, 1))] = np.nan
        inputs = numbers(draws, (count, width), 1e60) + 3.0 * (number > BLOCKS // 2)
        inputs[draws.random((count, width)) < 0.1] = np.nan
        target = draws.integers(0, k, count).astype(float) if classes else numbers(draws, (count,), LARGEST)
        short = LARGEST_SQUARED
        yield Contributions(
            stream="s",
            epoch=0,
            partition=0,
            first_row=row,
            version=row,
            seqs=np.arange(row, row + count) * 3,
            times=[int(one) for one in draws.integers(-(2**62), 2**62, count)],
            kind="ok",
            names=list(names),
            kinds=list(kinds),
            classes=[f"c{one}" for one in range(classes)],
            outputs=outputs,
            texts={slot: {code: f"t{code}" for code in range(10)} for slot, kind in enumerate(kinds) if kind == 2},
            loss="brier" if classes else "squared",
            values={
                "loss": np.abs(numbers(draws, (count,), LARGEST)),
                "inputs": inputs,
                "target": target,
                "ipfi": numbers(draws, (count, width), LARGEST),
                "isage": numbers(draws, (count, width), LARGEST),
                "isage.first": draws.integers(0, width, count),
                "isage.model_loss": np.abs(numbers(draws, (count,), LARGEST)),
                "isage.prediction": numbers(draws, (count, k), short),
                "isage.target": draws.integers(-1, k, count).astype(float)
                if classes
                else numbers(draws, (count,), short),
                "ipdp": ice,
                "ipdp.points": grid,
            },
        )
        row += count


def travelled(stream: StreamAggregator) -> tuple[bytes, StreamAggregator]:
    """Return a state as it is written, and the aggregator that resumes from it."""
    data = frames.encode("state", 1, *stream.state())
    frame = frames.decode(data, "state", 1)
    return data, StreamAggregator.restore("s", stream.settings, frame.meta, frame.arrays)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("seed", some([1], range(1, 4), pytest.mark.slow) + some([], range(4, 12)))
def test_every_state_can_be_restored(seed: int, detector: str, regression: bool) -> None:
    core = PartitionAggregator(0, settings(detector, f"model.task={'regression' if regression else 'classification'}"))
    published = 0
    for offset, block in enumerate(hostile(np.random.default_rng(seed), regression)):
        core.offer(contributions.decode(contributions.encode(block)), offset)
        published += len(core.take_records())
        data, restored = travelled(core.streams["s"])
        assert travelled(restored)[0] == data
        core.streams["s"] = restored
    assert published > 100


def test_an_empty_state_can_be_restored() -> None:
    for detector in DETECTORS:
        data, restored = travelled(StreamAggregator.empty("s", settings(detector)))
        assert travelled(restored)[0] == data
