"""The explainer stage: requests and the snapshots that they name in, contributions out. It has no state."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping

from glasstream.base.errors import AuthenticationError, FrameError, ModelError
from glasstream.base.sparse import logged
from glasstream.events.message import Message
from glasstream.explain.explainer import explain, unexplained
from glasstream.explain.sizes import bounded
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.health.steps import Steps
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.lane import Lane
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, requests, snapshots
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest
from glasstream_topics.snapshots import Identity

log = logging.getLogger(__name__)

_MODELS = 16
"""Largest number of decoded models to keep. A block that names an older model decodes it again."""
_MODEL_BYTES = 256 * 2**20
"""Largest size of the decoded models to keep, if there is more than one."""
_SAY_WAITING_SECONDS = 10.0


class _Shed(Exception):
    """The snapshot that a block names is gone for good."""


class ExplainerTask:
    """Explainer of blocks, with the snapshots that it has received.

    Parameters
    ----------
    settings
        The configuration.
    key
        The HMAC key for models that travel as a pickle.
    progress
        Progress of the aggregator. A block that is aggregated needs no explanation, and may get none, because its
        snapshot may have been ended. Such blocks arrive again after a crash of an explainer.
    """

    def __init__(self, settings: Settings, key: Key | None, progress: AggregatorProgress) -> None:
        self.settings = settings
        self.damaged = 0
        """Number of messages that were not valid requests."""
        self.rows: Counter[str] = Counter()
        """Number of rows by outcome: ok or failed, as in `glasstream_topics.contributions`, or refused by the learner.
        """
        self.blocks: Counter[str] = Counter()
        """Number of blocks by outcome: ok, failed (at least one row), or stale (aggregated before it arrived again)."""
        self.steps = Steps()
        self._key = key
        self._progress = progress
        # Everything that the learners may keep alive: an explainer that forgot a part of it would wait for that part.
        limits = settings.limits
        alive = limits.snapshot_bytes + limits.streams * limits.snapshot_largest
        self._snapshots = snapshots.Assembler(settings.topics.events * alive)
        self._models: OrderedDict[Identity, tuple[Predictor, int]] = OrderedDict()
        """Decoded models and their sizes, the least recently used first."""
        self._newest: dict[tuple[str, int], int] = {}
        """Newest version received, per stream and epoch. Versions arrive in order."""
        self._changed = asyncio.Event()
        self._refused: dict[Identity, str] = {}
        """Reasons why received snapshots cannot be opened here. The learner sends each again."""
        self._stalls: dict[int, str] = {}
        """Reason why this worker cannot explain the next block, per partition of `explain.requests`."""

    def tell(self, lanes: Mapping[int, Lane]) -> None:
        """Set the reason why each lane's block waits. The worker is not ready while a block waits."""
        for partition, lane in lanes.items():
            lane.waits = self._stalls.get(partition)

    def on_snapshot(self, key: bytes, value: bytes | None) -> None:
        """Take one record of `snapshots`."""
        completed = self._snapshots.add(key, value)
        if completed is not None:
            of = completed.stream, completed.epoch
            self._newest[of] = max(completed.version, self._newest.get(of, 0))
            self._changed.set()

    def on_progress(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one record of `progress.aggregator`."""
        self._progress.on_record(partition, offset, key, value)
        self._changed.set()

    async def handle(self, message: Message) -> list[ProducerRecord]:
        """Explain one block, after waiting for its snapshot."""
        try:
            block = bounded(requests.decode(message.value or b""))
            if block.partition >= self.settings.topics.events:
                raise FrameError(f"expected a partition of {self.settings.topics.events}, got {block.partition}")
        except FrameError as error:
            self._say_damaged(f"skipping {message.place}, which is not a valid request: {error}")
            return []
        model = None
        if block.count and self._aggregated(block):
            self.blocks["stale"] += 1
            return []
        if block.count and not block.refused:
            try:
                model = await self._model(block, message.partition)
            except _Shed as gone:
                self.rows["failed"] += block.count
                self.blocks["failed"] += 1
                return [self._record(block, unexplained(block, str(gone)))]
            if model is None:
                self.blocks["stale"] += 1
                return []
        with self.steps.time("explain"):
            try:
                answers = await asyncio.to_thread(explain, block, model)
                records = [self._record(block, answer) for answer in answers]
            except Exception as error:  # noqa: BLE001 - a block may contradict itself where its contract cannot see it
                answers = [unexplained(block, f"{type(error).__name__}: {error}"[:500])]
                records = [self._record(block, answer) for answer in answers]
        for answer in answers:
            self.rows["refused" if block.refused else answer.kind] += answer.count
        self.blocks["failed" if any(answer.kind == "failed" for answer in answers) else "ok"] += 1
        return records

    def _aggregated(self, block: ExplainRequest) -> bool:
        """Return whether the aggregator has all rows of a block."""
        return (self._progress.aggregated(block.stream, block.epoch) or 0) >= block.first_row + block.count

    def _say_damaged(self, what: str) -> None:
        """Count a skipped record, and log the 1st, 10th, 100th, ..."""
        self.damaged += 1
        if logged(self.damaged):
            log.error("%s (%d so far)", what, self.damaged)

    def _record(self, block: ExplainRequest, answer: Contributions) -> ProducerRecord:
        name, key = topic(self.settings, contributions.TOPIC.name), contributions.key(block.stream)
        return ProducerRecord(name, key, contributions.encode(answer), block.partition)

    def samples(self) -> Iterator[Sample]:
        """Metrics of this worker."""
        yield Sample(catalogue.DAMAGED, self.damaged + self._snapshots.rejected, ("",))
        for outcome in ("ok", "failed", "stale"):
            yield Sample(catalogue.BLOCKS, self.blocks[outcome], (outcome,))
        yield Sample(catalogue.EXPLAINED, self.rows["ok"])
        yield Sample(catalogue.FAILED, self.rows["failed"])
        yield Sample(catalogue.SNAPSHOTS_HELD, self._snapshots.held_bytes)
        yield Sample(catalogue.SNAPSHOTS_EVICTED, self._snapshots.evicted)
        yield from self.steps.samples()

    async def _model(self, block: ExplainRequest, partition: int) -> Predictor | None:
        """Return the model that the block names, or None if the block is aggregated already.

        Parameters
        ----------
        partition
            Partition of `explain.requests` that waits for the model.
        """
        identity = Identity(block.stream, block.epoch, block.version)
        try:
            while (found := self._models.get(identity)) is None:
                if identity in self._refused:
                    self._stalls[partition] = self._refused[identity]
                with self.steps.time("wait for a snapshot"):
                    data = await self._bytes(block, identity)
                if data is None:
                    return None
                with self.steps.time("decode"):
                    await self._decode(identity, data)
        finally:
            self._stalls.pop(partition, None)
            self._refused.pop(identity, None)
        self._models.move_to_end(identity)
        return found[0]

    @property
    def _model_bytes(self) -> int:
        """Number of bytes of the decoded models."""
        return sum(size for _, size in self._models.values())

    async def _decode(self, identity: Identity, data: bytes) -> None:
        """Decode the model of a snapshot.

        A snapshot that is damaged, or that cannot be opened here, is forgotten until it arrives again.
        """
        try:
            found = await asyncio.to_thread(codec.read, data, key=self._key)
            if (found.stream, found.epoch, found.version) != identity:
                raise FrameError(f"expected {identity}, got {(found.stream, found.epoch, found.version)}")
        except (FrameError, AuthenticationError, ModelError) as error:
            if isinstance(error, FrameError):
                self._say_damaged(f"skipping a damaged snapshot of stream {identity.stream!r}: {error}")
            else:
                self._refused[identity] = (
                    f"cannot open model version {identity.version} of stream {identity.stream!r}: {error}; give this "
                    "explainer the learner's GLASSTREAM_HMAC_KEY and packages, or stop it so that another explainer "
                    "takes over"
                )
                self._say_damaged(f"skipping a snapshot, whose rows wait: {self._refused[identity]}")
            if self._snapshots.get(*identity) is data:
                self._snapshots.forget(*identity)
            return
        self._models[identity] = found.predictor, found.size
        while len(self._models) > 1 and (len(self._models) > _MODELS or self._model_bytes > _MODEL_BYTES):
            self._models.popitem(last=False)

    async def _bytes(self, block: ExplainRequest, identity: Identity) -> bytes | None:
        """Wait for the snapshot that a block names, and return its bytes. No other version can replace it.

        Return None for a block that needs no explanation any more, because it is aggregated or its epoch is over.
        """
        while (data := self._snapshots.get(*identity)) is None:
            if self._aggregated(block):
                return None
            if self.settings.limits.lag == "shed" and self._newest.get((block.stream, block.epoch), 0) > block.version:
                raise _Shed(f"model version {block.version} was dropped before its rows were explained (limits.lag)")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), _SAY_WAITING_SECONDS)
            except TimeoutError:
                log.warning(
                    "stream %r: row %d is still waiting for model version %d, which the learner sends on %s",
                    identity.stream,
                    block.first_row,
                    identity.version,
                    topic(self.settings, "snapshots"),
                )
        return data
