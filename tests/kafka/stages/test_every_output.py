"""Every value that admission accepts can be encoded by every output: records, Avro, tables, frames, states."""

import random
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.events.decode import decode
from glasstream.flow.settings import Settings
from glasstream_topics.events_dead import Reason
from tests.support.every_output import extreme_messages, through_every_output
from tests.support.examples import examples

SETTINGS = (
    "topics.events=1", "explain.reservoir=5", "publish.every=10", "snapshot.doubling=8", "snapshot.cadence=20",
    "explain.methods=ipfi,ipdp,novelty", "drift.grace=20", "labels.estimate=10", "novelty.window=10000",
    "groups.by=m,a", "groups.every=5", "groups.least=2",
)  # fmt: skip


def settings(*more: str) -> Settings:
    return load(assignments=[*SETTINGS, *more])


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("model", ["linear", "tree"])
@given(seed=st.integers(0, 2**32))
@examples(15)
def test_every_value_that_admission_accepts_can_be_encoded_by_every_output(task: str, model: str, seed: int) -> None:
    chance = random.Random(seed)
    more = () if chance.random() < 0.5 else (f"model.task={task}",)
    chosen = settings(f"model.name={model}", *more)
    counts = through_every_output(chosen, extreme_messages(chance, 40, task, tame=chance.choice((0.7, 0.95, 0.99))))
    assert counts["predictions"]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_and_by_every_table(task: str, tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance = random.Random(seed)
        counts |= through_every_output(
            settings("model.name=linear"), extreme_messages(chance, 100, task, tame=0.97), folder
        )
    assert counts.keys() >= {"predictions", "importance", "effects"}


@pytest.mark.parametrize("ts", [2**63, 2**64 - 1, 2**64, 99999999999999999999, -(2**63) - 1, 10**400])
def test_a_time_beyond_64_bits_is_rejected_and_its_neighbours_are_not(ts: int, tmp_path: Path) -> None:
    event = b'{"x":{"a":1},"y":"p","ts":%d}' % ts
    for value in (event, b"[%b]" % event, b'{"id":1,"y":"p","ts":%d}' % ts):
        (rejected,) = decode(value, 2**20).rejected
        assert rejected.reason is Reason.BAD_TS
        assert "a signed integer of 64 bits (ms since 1970), got" in rejected.detail
    good = [b'{"x":{"a":%d},"y":"p","ts":%d}' % (place, at) for place, at in enumerate((2**63 - 1, -(2**63), 0))]
    sent = [(b"s", good[0]), (b"s", event), (b"s", b"[" + b",".join((good[1], event, good[2])) + b"]")]
    counts = through_every_output(settings("model.name=linear"), sent, tmp_path)
    assert counts == {"predictions": 3, "events.dead": 2}
    assert orjson.loads(good[0])["ts"] == 2**63 - 1
