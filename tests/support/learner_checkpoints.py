"""Logs and settings with which the learner's checkpoints are tested."""

from dataclasses import replace

from glasstream.events.message import Message
from glasstream.flow.learner.checkpoint import saved
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.models.codec.authentication import Key
from glasstream_topics.checkpoints import PLAIN, Checkpoint

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
    place = replace(PLACE, rows=stream.rows, seqs=stream.seqs, offset=offset, used=used)
    return saved(learner.state("s", at_rest=at_rest), place, key=key)


LOG: list[Message] = []
