"""Learn a stream again from its log, to recover the blocks of some events and the models that these name."""

from collections.abc import Collection, Iterable
from itertools import chain

from glasstream.explain.sizes import pieces
from glasstream.ingest.message import Message
from glasstream.learn.learner import Outbox
from glasstream.learn.partition import PartitionLearner
from glasstream.learn.settings import LearnSettings
from glasstream.models.codec import snapshot as codec
from glasstream.models.contract.predictor import Predictor
from glasstream.operate.starting_point import StartingPoint
from glasstream_topics.requests import ExplainRequest

_KEY = b"what leaves no process needs no secret"


def relearn(
    settings: LearnSettings,
    stream: str,
    partition: int,
    begin: StartingPoint,
    messages: Iterable[Message],
    seqs: Collection[int],
) -> dict[int, tuple[ExplainRequest, Predictor]]:
    """Return for each event its block and the model that explains it. Omit events that are not explained.

    Learning is a function of the log, so the results equal the learner's to the last bit. Only the places where blocks
    are cut may differ.

    Parameters
    ----------
    begin
        Starting point of the messages.
    messages
        Messages of this one stream, in order.
    """
    wanted = set(seqs)
    last = max(wanted)
    core = PartitionLearner(partition, settings, first_offset=begin.at.offset)
    if begin.state is not None:
        core.resume(stream, begin.state, begin.at)
    found: dict[int, tuple[ExplainRequest, Predictor]] = {}
    model: tuple[int, bytes] | None = None

    def take(outbox: Outbox) -> None:
        """Take blocks before snapshots, because a block is cut before the snapshot of its last row is taken."""
        nonlocal model
        for block in chain.from_iterable(map(pieces, outbox.requests)):
            asked = wanted.intersection(block.seqs.tolist())
            if asked and model is not None and model[0] == block.version:
                predictor = codec.decode(model[1], key=_KEY)
                found.update((seq, (block, predictor)) for seq in asked)
        for snapshot in outbox.snapshots:  # as bytes, because the model itself continues to learn
            version = snapshot.version
            data = codec.encode(snapshot.predictor, stream=stream, epoch=settings.epoch, version=version, key=_KEY)
            model = version, data

    take(core.take_outbox()[0])
    for message in messages:
        passed = False
        for learner in core.consume(message):
            if learner.ended:
                passed = True
                break
            if core.outbox.requests or core.outbox.snapshots:
                take(core.take_outbox()[0])
            passed = learner.seqs > last and not learner.waiting.awaits(wanted)
        if passed:
            break
    core.cut()
    take(core.take_outbox()[0])
    return found
