"""Logs and settings with which the learner's checkpoints are tested."""

from dataclasses import replace

from glasstream.events.message import Message
from glasstream.flow.learner.checkpoint import saved
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.models.codec.authentication import Key
from glasstream_topics import events
from glasstream_topics.checkpoints import PLAIN, Checkpoint
from tests.support.learner import event, message

PLACE = Checkpoint(
    stream="s", epoch=0, rows=8, seqs=9, offset=1, used=0, fingerprint={}, form=PLAIN, state=b""
)  # fmt: skip


METHODS = ["explain.methods=ipfi,isage,ipdp", "snapshot.shortest=10"]


VARIANTS = {
    "linear": [],
    "tree": ["model.name=tree"],
    "forest, adaptive cadence": ["model.name=forest", "snapshot.target=0.05", "snapshot.longest=30"],
    "conditional removal": ["model.name=tree", "isage.removal=conditional"],
    "not compiled": ["model.name=river.neighbors:KNNClassifier"],
}


def checkpoint_of(learner: PartitionLearner, *, at_rest: bool = False, key: Key | None = None) -> Checkpoint:
    """A checkpoint of the stream ``s``."""
    stream, (offset, used) = learner.streams["s"].learner, learner.position
    place = replace(PLACE, rows=stream.state.rows, seqs=stream.state.seqs, offset=offset, used=used)
    return saved(learner.state("s", at_rest=at_rest), place, key=key)


def odd(number: int) -> object:
    """Events of several streams' worth of trouble: bad targets, new features, texts, no labels."""
    made = event(number)
    if number % 11 == 3:
        return {**made, "y": "text"}
    if number % 13 == 4:
        del made["y"]
    if number % 17 == 5:
        return 3
    if number > 60:
        made["x"]["late"] = number % 5
        made["x"]["town"] = f"t{number % (number // 20)}"
    return made


LOG: list[Message] = []
for _n in range(24):
    LOG.append(message(2 * _n, [odd(5 * _n + k) for k in range(5)]))
    LOG.append(message(2 * _n + 1, events.FLUSH if _n % 5 == 4 else odd(500 + _n)))
