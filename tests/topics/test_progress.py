"""Laws of the progress records: a successor finds exactly what was committed, or an error."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream_topics import progress_aggregator, progress_learner
from glasstream_topics.errors import FrameError, RecordError
from glasstream_topics.progress import PARTITION_KEY
from tests.support.golden_records import aggregator_partition, aggregator_state, learner_partition, learner_stream

natural = st.integers(0, 2**53)
names = st.text(max_size=8) | st.sampled_from(["/", "a/0", "\0partition", "partition"])
setting = st.none() | st.booleans() | natural | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False)


def state_of(stream: str, rows: int, size: int = 2) -> progress_aggregator.AggregatorState:
    progress = progress_aggregator.AggregatorStreamProgress(
        stream=stream, epoch=0, next_row=rows, published_row=rows - 1
    )
    return progress_aggregator.AggregatorState(
        progress=progress, meta={"n": rows}, arrays={"raw": np.arange(float(size))}
    )


def compacted(*batches: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Return the records that a reader of the compacted topic ends up with."""
    latest: dict[bytes, bytes] = {}
    for batch in batches:
        for key, value in batch:
            if value is None:
                latest.pop(key, None)
            else:
                latest[key] = value
    return latest


def partition_record() -> list[tuple[bytes, bytes | None]]:
    return [progress_aggregator.encode_partition(aggregator_partition())]


@given(
    st.fixed_dictionaries(dict.fromkeys(("epoch", "first_offset", "offset", "used"), natural)),
    st.dictionaries(st.text(max_size=5), setting, max_size=4),
    st.lists(names, unique=True, max_size=4),
)
def test_the_learner_finds_what_it_committed(numbers: Any, fingerprint: Any, streams: list[str]) -> None:
    partition = progress_learner.LearnerPartitionProgress(fingerprint=fingerprint, **numbers)
    records = [
        progress_learner.LearnerStreamProgress(
            stream=stream,
            epoch=0,
            seqs=index + 2,
            rows=index + 1,
            first_offset=index,
            after=index + 3,
            snapshots={"2": 1, "1": 3},
            counts={"b": 1, "a": 2},
        )
        for index, stream in enumerate(streams)
    ]
    latest = dict(progress_learner.encode(record) for record in [partition, *records])
    restored = progress_learner.restore(latest)
    assert restored.partition == partition
    assert restored.streams == {record.stream: record for record in records}


@given(st.lists(names, unique=True, max_size=4), st.integers(1, 50))
def test_the_aggregator_finds_what_it_committed(streams: list[str], limit: int) -> None:
    batches = [progress_aggregator.encode_stream(state_of(stream, 7, 11), limit=limit) for stream in streams]
    restored = progress_aggregator.restore(compacted(partition_record(), *batches))
    assert restored.partition == aggregator_partition()
    assert restored.streams.keys() == set(streams)
    for stream in restored.streams:
        state = restored.state(stream)
        assert state.progress == restored.streams[stream] == state_of(stream, 7).progress
        assert state.meta == {"n": 7}
        np.testing.assert_array_equal(state.arrays["raw"], np.arange(11.0))


def test_an_untouched_partition_has_nothing() -> None:
    assert progress_learner.restore({}) == progress_learner.Restored(None, {})
    assert progress_aggregator.restore({}) == progress_aggregator.Restored(None, {})


def test_no_stream_has_the_key_of_the_partition_or_of_a_part_of_a_state() -> None:
    for record in [*partition_record(), *progress_aggregator.encode_stream(aggregator_state())[1:]]:
        with pytest.raises(UnicodeDecodeError):
            record[0].decode()


@pytest.mark.parametrize("sizes", [(100, 2), (2, 100), (100, 60, 100)])
def test_a_state_that_shrinks_or_grows_leaves_nothing_behind(sizes: tuple[int, ...]) -> None:
    batches = [partition_record()]
    chunks = 0
    for rows, size in enumerate(sizes, 1):
        batch = progress_aggregator.encode_stream(state_of("s", rows, size), chunks, limit=100)
        chunks = sum(value is not None for _, value in batch) - 1
        batches.append(batch)
    latest = compacted(*batches)
    assert len(latest) == 2 + chunks
    assert progress_aggregator.restore(latest).chunks("s") == chunks
    state = progress_aggregator.restore(latest).state("s")
    assert state.progress.next_row == len(sizes)
    assert state.arrays["raw"].size == sizes[-1]


def test_the_aggregator_never_goes_on_with_less_than_was_committed() -> None:
    records = progress_aggregator.encode_stream(state_of("s", 7, 100), limit=100)
    whole = compacted(partition_record(), records)
    for key, _ in records[1:]:
        with pytest.raises(FrameError, match="is not whole"):
            progress_aggregator.restore({k: v for k, v in whole.items() if k != key}).state("s")
        damaged = whole[key][:-1] + bytes([whole[key][-1] ^ 1])
        with pytest.raises(FrameError, match="is not whole"):
            progress_aggregator.restore({**whole, key: damaged}).state("s")
    with pytest.raises(RecordError, match="the partition's record"):
        progress_aggregator.restore(compacted(records))
    with pytest.raises(RecordError):
        progress_aggregator.restore({**whole, PARTITION_KEY: b"{}"})
    with pytest.raises(RecordError):
        progress_aggregator.restore({**whole, b"s": b"{}"})


def test_a_state_of_another_row_than_its_progress_is_refused() -> None:
    older, newer = (progress_aggregator.encode_stream(state_of("s", rows)) for rows in (7, 8))
    with pytest.raises(FrameError, match="expected the state of"):
        progress_aggregator.restore(compacted(partition_record(), newer, older[1:])).state("s")


def test_a_state_without_its_progress_is_refused() -> None:
    records = progress_aggregator.encode_stream(state_of("s", 7))
    with pytest.raises(FrameError, match="progress"):
        progress_aggregator.restore(compacted(partition_record(), records[1:]))


def test_the_learner_never_goes_on_with_less_than_was_committed() -> None:
    latest = dict(progress_learner.encode(record) for record in (learner_partition(), learner_stream()))
    with pytest.raises(RecordError, match="the partition's record"):
        progress_learner.restore({b"elec2": latest[b"elec2"]})
    for key in latest:
        with pytest.raises(RecordError):
            progress_learner.restore({**latest, key: b'{"epoch":0}'})
        with pytest.raises(RecordError):
            progress_learner.restore({**latest, key: latest[key].replace(b'"schema_version":1', b'"schema_version":2')})
    with pytest.raises(RecordError, match="'other'"):
        progress_learner.restore({**latest, b"other": latest[b"elec2"]})


def test_those_who_watch_read_small_records_only() -> None:
    batch = [*partition_record(), *progress_aggregator.encode_stream(aggregator_state())]
    assert [progress_aggregator.decode(key, value) for key, value in batch if value is not None] == [
        aggregator_partition(),
        aggregator_state().progress,
        None,
    ]


def test_a_setting_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(RecordError, match=r"fingerprint\.alpha"):
        progress_aggregator.encode_partition(
            progress_aggregator.AggregatorPartitionProgress(epoch=0, offset=0, fingerprint={"alpha": float("nan")})
        )
