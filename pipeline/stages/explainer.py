"""The explainer stage: a block of `work` and the snapshot that it names in, its contributions out. No state."""

import asyncio
import logging
from collections import OrderedDict

from pipeline.errors import FrameError
from pipeline.explain.explainer import explain
from pipeline.models import snapshot as codec
from pipeline.models.predictor import Predictor
from pipeline.settings import Settings
from pipeline.stages.fold_progress import FoldProgress
from pipeline.stages.names import topic
from pipeline.transport.records import Message, Record
from topics import contributions, progress_fold, snapshots, work
from topics.snapshots import Identity
from topics.work import Work

log = logging.getLogger(__name__)

_MODELS = 16
"""Decoded models kept ready; a block that names an older one decodes it again."""
_SAY_WAITING_SECONDS = 10.0


class Explainer:
    """Explains blocks with the snapshots that it has heard of.

    Parameters
    ----------
    settings
        The configuration.
    key
        The HMAC key, for models that travel as a pickle.
    progress
        Where the fold is: a block that it has folded needs no explanation any more, and may get none, because the
        snapshot that it names is ended. Such blocks come again after a crash of an explainer.
    """

    def __init__(self, settings: Settings, key: bytes | None, progress: FoldProgress) -> None:
        self.settings = settings
        self.damaged = 0
        """Messages that were not work."""
        self._key = key
        self._progress = progress
        self._snapshots = snapshots.Assembler(2 * settings.limits.snapshot_bytes + settings.limits.snapshot_largest)
        self._models: OrderedDict[Identity, Predictor] = OrderedDict()
        self._changed = asyncio.Event()

    def on_snapshot(self, key: bytes, value: bytes | None) -> None:
        """Take one record of `snapshots`."""
        if self._snapshots.add(key, value) is not None:
            self._changed.set()

    def on_progress(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one record of `progress.fold`."""
        self._progress.on_record(partition, offset, key, value)
        self._changed.set()

    async def handle(self, message: Message) -> list[Record]:
        """Explain one block; waits until its snapshot is there."""
        try:
            block = work.decode(message.value or b"")
        except FrameError as error:
            self.damaged += 1
            log.error("%s is not work and is left out: %s", message.place, error)
            return []
        model = None
        if block.count:
            model = await self._model(block)
            if model is None:
                return []
        answers = await asyncio.to_thread(explain, block, model)
        name, key = topic(self.settings, contributions.TOPIC.name), contributions.key(block.stream)
        return [Record(name, key, contributions.encode(answer), block.partition) for answer in answers]

    async def _model(self, block: Work) -> Predictor | None:
        """The model that the block names; None for a block that is folded already."""
        identity = Identity(block.stream, block.epoch, block.version)
        model = self._models.get(identity)
        if model is None:
            data = await self._bytes(block, identity)
            if data is None:
                return None
            model = self._models[identity] = await asyncio.to_thread(codec.decode, data, key=self._key)
            while len(self._models) > _MODELS:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(identity)
        return model

    async def _bytes(self, block: Work, identity: Identity) -> bytes | None:
        """The snapshot's bytes, waited for: a block is explained with its own version or not at all."""
        while (data := self._snapshots.get(*identity)) is None:
            if self._progress.next_row.get(block.stream, 0) >= block.first_row + block.count:
                return None
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), _SAY_WAITING_SECONDS)
            except TimeoutError:
                log.warning(
                    "stream %r: row %d still waits for version %d of its model; it comes on %s from the learner",
                    identity.stream,
                    block.first_row,
                    identity.version,
                    topic(self.settings, "snapshots"),
                )
        return data


def needed_topics(settings: Settings) -> dict[str, int | None]:
    """The topics that must exist before the start, with their partition counts."""
    return {
        topic(settings, work.TOPIC.name): settings.topics.work,
        topic(settings, contributions.TOPIC.name): settings.topics.events,
        topic(settings, snapshots.TOPIC.name): 1,
        topic(settings, progress_fold.TOPIC.name): settings.topics.events,
    }
