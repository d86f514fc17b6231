"""The whole pipeline as a plain loop in one process, without Kafka. The distributed run must equal it."""

from collections.abc import Iterable, Iterator
from itertools import chain

from glasstream.detect.novelty.fit import fit
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.explain.sizes import pieces
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.learner.dead_letters import dead_letter
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.pushed import Decisions, File, PushedModels, no_files
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.settings import Settings
from glasstream.models.codec import snapshot as codec
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, events, requests
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest

_KEY = b"what leaves no process needs no secret"

Published = tuple[str, bytes]
"""Topic without the prefix, and record."""


class Reference:
    """Learner, explainer and aggregator, one after the other, then the novelty detector if novelty is requested.

    Parameters
    ----------
    settings
        Settings of the distributed run.
    file
        Where the files are that marks on the log name.
    decisions
        What a learner has decided about such marks.
    """

    def __init__(self, settings: Settings, file: File = no_files, decisions: Decisions | None = None) -> None:
        self.settings = settings
        self._pushed = PushedModels(file, _KEY)
        self._decisions = decisions
        self._learners: dict[int, PartitionLearner] = {}
        self._aggregators: dict[int, PartitionAggregator] = {}
        self._detectors: dict[int, PartitionDetector] = {}
        self._models: dict[tuple[str, int, int], Predictor] = {}
        self._contributions = 0
        self._next: dict[int, int] = {}
        self.notices: list[str] = []

    def run(self, messages: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[Published]:
        """Yield the published records, message by message.

        Parameters
        ----------
        messages
            Pairs (key, value) in the order of the log. The key decides the partition.
        """
        for key, value in messages:
            partition = events.partition(key or b"", self.settings.topics.events, self.settings.topics.partitioner)
            offset = self._next.get(partition, 0)
            self._next[partition] = offset + 1
            yield from self.feed(Message(events.TOPIC.name, partition, offset, key, value))

    def feed(self, message: Message) -> Iterator[Published]:
        """Yield the records that result from one message."""
        learner = self._learners.get(message.partition)
        if learner is None:
            learner = self._learners[message.partition] = PartitionLearner(
                message.partition, self.settings, models=self._pushed, decisions=self._decisions
            )
            self._aggregators[message.partition] = PartitionAggregator(message.partition, self.settings)
        aggregator = self._aggregators[message.partition]
        for _ in learner.consume(message):
            self._keep_snapshots(learner)
        learner.cut()
        outbox, dead = learner.take_outbox()
        self.notices += outbox.notices
        for _, record in outbox.predictions:
            yield "predictions", record
        for _, record in outbox.groups:
            yield "groups", record
        for rejections in dead:
            yield "events.dead", dead_letter(rejections, self.settings.limits.dead_bytes).as_json()
        for block in chain.from_iterable(map(pieces, outbox.requests)):
            model = self._models[block.stream, block.epoch, block.version] if block.count else None
            for contribution in self._explain(block, model):
                aggregator.offer(contribution, self._contributions)
                self._contributions += 1
            self._forget(block.stream, block.epoch, block.version)
        for published in aggregator.take_records():
            yield published.topic, published.value
        if self.settings.explain.detects_novelty:
            yield from self._watch(message)

    def unexplained(self) -> dict[str, tuple[int, str]]:
        """Return per stream how many rows could not be explained, and why the first could not."""
        return {
            name: (stream.failed, stream.cause)
            for partition in self._aggregators.values()
            for name, stream in partition.streams.items()
        }

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        """Return the contributions that the aggregator gets for a block."""
        return explain(block, model)

    def _watch(self, message: Message) -> Iterator[Published]:
        """Yield the novelty records of one message. Fit a map when it is due."""
        detector = self._detectors.setdefault(message.partition, PartitionDetector(self.settings))
        for due in detector.consume(message):
            if due is not None and due.pending is not None:
                due.give(fit(due.pending, self.settings.novelty, self.settings.seed))
        detector.take_requests()
        for _, record in detector.take_records():
            yield "novelty", record

    def _keep_snapshots(self, learner: PartitionLearner) -> None:
        """Keep snapshots as bytes, as an explainer receives them, because the model itself continues to learn."""
        for snapshot in learner.outbox.snapshots:
            data = codec.encode(
                snapshot.predictor,
                stream=snapshot.stream,
                epoch=snapshot.epoch,
                version=snapshot.version,
                key=_KEY,
            )
            self._models[snapshot.stream, snapshot.epoch, snapshot.version] = codec.decode(data, key=_KEY)
        learner.outbox.snapshots.clear()

    def _forget(self, stream: str, epoch: int, version: int) -> None:
        for key in [key for key in self._models if key[0] == stream and key[1:] < (epoch, version)]:
            del self._models[key]


class Encoded(Reference):
    """The plain loop, with blocks and contributions read from bytes, as explainer and aggregator read them."""

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        answers = super()._explain(requests.decode(requests.encode(block)), model)
        return [contributions.decode(contributions.encode(one)) for one in answers]
