"""The novelty detector stage: `events` in, `novelty` out.

Position and anchors go to `progress.novelty` in the same transaction. An anchor is the whole state of a stream,
including a window and a map, so the stage writes one only every few thousand events, for the stream whose own anchor is
the furthest behind. A stream that has waited long gets an anchor sooner: a restart must not ask for events that
retention has removed. A successor restores the newest anchor of each stream. It then uses the events up to the
committed position again without publishing, and fits the maps of that stretch again.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from time import perf_counter

import msgspec

from glasstream.base.errors import LostInputError, StateError
from glasstream.base.sparse import logged
from glasstream.events.message import Message, Position
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.novelty.stream import StreamDetector
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.fitter import Fitter, fitter_died
from glasstream.kafka.stages.names import (
    LOST_EVENTS,
    Identify,
    begin_of_epoch,
    known_state,
    no_identity,
    novelty_fingerprint,
    topic,
)
from glasstream.kafka.stages.seals import NOVELTY, Seals, named_by_novelty
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.models.codec.authentication import Key
from glasstream_topics import novelty, progress_novelty
from glasstream_topics.progress_novelty import Anchor, NoveltyPartitionProgress, NoveltyStreamProgress, Restored

log = logging.getLogger(__name__)

_YIELD_SECONDS = 0.02
"""Seconds after which the event loop gets its turn."""


class NoveltyTask:
    """State of the novelty detector for one partition of `events`.

    Parameters
    ----------
    partition
        Number of the partition.
    settings
        Configuration.
    fitter
        Process that fits maps.
    identify
        Function that returns the id of the topic `events`.
    key
        HMAC key that seals the state; None leaves it plain.
    """

    def __init__(
        self,
        partition: int,
        settings: Settings,
        fitter: Fitter,
        identify: Identify = no_identity,
        key: Key | None = None,
    ) -> None:
        self.partition = partition
        self._identify = identify
        self._topic_id: str | None = None
        self._fitter = fitter
        self._fingerprint = novelty_fingerprint(settings)
        self._seals = Seals(NOVELTY, key, self._fingerprint)
        self._fits: dict[tuple[str, int], Future[bytes]] = {}
        """Maps that were requested and are not used yet, by stream and seq."""
        self._sent_position: Position | None = None
        self._anchors: dict[str, tuple[Position, int]] = {}
        """Position of the newest anchor, and number of events used there, per stream."""
        self._seqs: dict[str, int] = {}
        """Number of events used at the last commit, per stream."""
        self._since_anchor = 0
        """Number of events of all streams since the last anchor."""
        self._changed: dict[str, float] = {}
        """Time at which use of an event since the newest anchor was noticed, per stream."""
        self._chunks: dict[str, int] = {}
        """Number of chunks of the anchor on the topic, per stream."""
        self._superseded: list[ProducerRecord] = []
        """Tombstones for records of an earlier epoch, written with the first records of this epoch."""
        self.awaited = 0
        self.waited = 0.0
        self.anchor_bytes = 0
        self._waiting_since: float | None = None
        self._use(settings)

    def _use(self, settings: Settings) -> None:
        """Start with empty state and these settings."""
        self.settings = settings
        self.core = PartitionDetector(settings)

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Resume from the anchors, and publish nothing before the predecessor's committed position.

        Raises
        ------
        StateError
            The state belongs to other settings, or needs input that Kafka no longer has.
        """
        where = f"{topic(self.settings, 'progress.novelty')}[{self.partition}]"
        with known_state(where):
            restored = progress_novelty.restore(records)
        found = restored.partition
        self._topic_id = self._identify()
        if found is None:
            self.core = PartitionDetector(self.settings, first_offset=low)
            return low
        begun, ours = restored.streams.values(), self._fingerprint
        epoch, begin = begin_of_epoch(
            where, found, begun, self.settings, ours, self.partition, self._topic_id, low, high
        )
        self._use(msgspec.structs.replace(self.settings, epoch=epoch))
        if begin is not None:
            self.core = PartitionDetector(self.settings, first_offset=begin)
            for name in {**restored.parts, **restored.streams}:
                ended = progress_novelty.tombstones(name, restored.chunks(name))
                self._superseded += [ProducerRecord("", key, value) for key, value in ended]
            return begin
        self._topic_id = self._topic_id or found.topic_id
        self._chunks = {name: restored.chunks(name) for name in restored.parts}
        with known_state(where):
            return self._go_on(where, restored, found, low)

    def _go_on(self, where: str, restored: Restored, found: NoveltyPartitionProgress, low: int) -> int:
        sent = Position(found.offset, found.used)
        streams = {name: one for name, one in restored.streams.items() if one.epoch >= self.settings.epoch}
        anchors = {
            name: restored.anchor(name, self._seals.opening(where, name, **named_by_novelty(one.epoch, one.anchor)))
            for name, one in streams.items()
        }
        starts: dict[str, Position] = {}
        for name, one in streams.items():
            anchor = anchors[name]
            if one.seqs == (0 if anchor is None else anchor.seqs):
                starts[name] = sent  # nothing was used since then
            else:
                starts[name] = Position(one.first_offset, 0) if anchor is None else Position(anchor.offset, anchor.used)
        begin = min([sent, *starts.values()])
        if begin.offset < low:
            raise LostInputError(
                f"{where}: expected to read {topic(self.settings, 'events')}[{self.partition}] again from offset "
                f"{begin.offset}, but the broker keeps it from {low} on; {LOST_EVENTS}"
            )
        self._sent_position = sent
        self.core = PartitionDetector(
            self.settings,
            first_offset=begin.offset,
            silent_until=sent,
            begun={name: one.first_offset for name, one in streams.items()},
            begins_in=found.begins_in,
        )
        for name, one in streams.items():
            anchor = anchors.pop(name)
            if anchor is not None:
                watch = msgspec.structs.replace(self.settings, epoch=one.epoch)
                made = StreamDetector.restore(name, watch, anchor.meta, anchor.arrays)
                if made.used != anchor.seqs:
                    raise StateError(
                        f"{where}: expected {anchor.seqs} events in the state of {name!r}, got {made.used}"
                    )
                if name in self._seals.older:
                    self._changed[name] = perf_counter()  # so that it is sealed again with the newest key
                self.core.resume(name, made, one.first_offset, starts[name], one.newest)
                self._anchors[name] = starts[name], anchor.seqs
                self._seqs[name] = anchor.seqs
            elif one.epoch > self.settings.epoch or not one.seqs:
                self.core.begin(name, one.epoch, one.first_offset)
        if self.core.silent:
            log.info("%s: re-reading from offset %d up to %d", where, begin.offset, sent.offset)
        return begin.offset

    async def feed(self, run: Sequence[Message]) -> None:
        """Score the events of messages. Yield to the loop between blocks of events, and wait for maps."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        for due in self.core.consume(*run):
            self._give_up()
            self._ask()
            if due is not None:
                await self._give(due)
                last = loop.time()
            elif (now := loop.time()) - last > _YIELD_SECONDS:
                await asyncio.sleep(0)
                last = now
        for name in self.core.take_ended():
            log.info("stream %r starts over after a reset mark", name)
            self._forget(name)
        self._ask()

    def used(self) -> int:
        """Return the offset of the first message that is not used up."""
        return self.core.position.offset

    def _give_up(self) -> None:
        """End the records of streams that have given up their places."""
        for name in self.core.take_forgotten():
            self._forget(name)
            ended = progress_novelty.tombstones(name, self._chunks.pop(name, 0))
            self._superseded += [ProducerRecord("", key, value) for key, value in ended]

    def _forget(self, stream: str) -> None:
        """Discard the anchor of a stream that has ended or given up its place, and the maps that it requested."""
        self._anchors.pop(stream, None)
        self._changed.pop(stream, None)
        self._seqs.pop(stream, None)
        for asked in [asked for asked in self._fits if asked[0] == stream]:
            self._fits.pop(asked).cancel()

    def _ask(self) -> None:
        """Start fitting the maps that the streams request."""
        for request in self.core.take_requests():
            self._fits[request.stream, request.seq] = self._fitter.submit(
                request, self.settings.novelty, self.settings.seed
            )

    async def _give(self, stream: StreamDetector) -> None:
        """Give a stream the map that is due, and wait for it if necessary. Commit earlier scores meanwhile."""
        pending = stream.pending
        if pending is None:
            return
        made = self._fits[stream.stream, pending.seq]
        if not made.done():
            self.awaited += 1
            self._waiting_since = begun = perf_counter()
            done = asyncio.wrap_future(made)
            try:
                await asyncio.wait({done})
            finally:
                self._waiting_since = None
                self.waited += perf_counter() - begun
            if not done.cancelled():
                done.exception()  # the error is raised below
        del self._fits[stream.stream, pending.seq]
        unfitted = stream.unfitted
        try:
            stream.give(made.result())
        except BrokenProcessPool as error:
            raise fitter_died() from error
        if stream.unfitted > unfitted and logged(stream.unfitted):
            log.warning(
                "stream %r: no map could be fitted to the window at seq %d (%d so far): %s; any earlier map stays in "
                "use",
                stream.stream, pending.seq, stream.unfitted, stream.reason,
            )  # fmt: skip

    def stalled(self) -> str | None:
        """Return None: this stage waits for nothing that can be lost."""
        return None

    def pending(self) -> int:
        """Return the number of records that wait to be sent."""
        return len(self.core.records)

    def collect(self) -> Outputs:
        """Return the records since the last call, the position as of them, and the anchors that are due."""
        position = self.core.position
        if self.core.silent:
            return Outputs()
        changed = self.core.take_changed()
        turn = self._turn(changed)
        if position == self._sent_position and turn is None:
            return Outputs()
        self._sent_position = position
        name = topic(self.settings, novelty.TOPIC.name)
        records = [ProducerRecord(name, novelty.key(stream), value) for stream, value in self.core.take_records()]
        key, value = progress_novelty.encode(
            NoveltyPartitionProgress(
                epoch=self.settings.epoch,
                offset=position.offset,
                used=position.used,
                fingerprint=self._fingerprint,
                topic_id=self._topic_id,
                begins_in=self.core.begins_in if self.core.begins_in > self.settings.epoch else None,
            )
        )
        progress = [*self._superseded, ProducerRecord("", key, value)]
        self._superseded = []
        if turn is not None:
            progress += [ProducerRecord("", key, value) for key, value in self._anchor(turn)]
        for stream in sorted({*changed, *([turn] if turn is not None else [])}):
            progress.append(ProducerRecord("", *self._stream_record(stream)))
        return Outputs(records=records, progress=progress)

    def _turn(self, changed: Iterable[str]) -> str | None:
        """Return the stream whose anchor is due, among those that have used events since their newest anchor.

        That is the stream with the oldest anchor, or the one that has waited longest if that is too long.
        """
        now = perf_counter()
        for name in changed:
            seqs = self.core.streams[name].detector.used
            self._since_anchor += seqs - self._seqs.get(name, 0)
            self._seqs[name] = seqs
            if seqs != self._anchored(name)[1]:
                self._changed.setdefault(name, now)
        if not self._changed:
            return None
        if self._since_anchor >= self.settings.novelty.anchor:
            self._since_anchor = 0
            return min((self._anchored(name)[0], name) for name in self._changed)[1]
        since, name = min((since, name) for name, since in self._changed.items())
        patience = self.settings.checkpoint.patience
        return name if patience and now - since >= patience else None

    def _anchored(self, name: str) -> tuple[Position, int]:
        """Return the position of a stream's newest anchor and the events used there; without one, its beginning."""
        return self._anchors.get(name) or (Position(self.core.streams[name].first_offset, 0), 0)

    def _anchor(self, name: str) -> list[tuple[bytes, bytes | None]]:
        """Return the whole state of a stream as of now."""
        detector, position = self.core.streams[name].detector, self.core.position
        meta, arrays = detector.state()
        anchor = Anchor(
            stream=name,
            epoch=detector.settings.epoch,
            offset=position.offset,
            used=position.used,
            seqs=detector.used,
            meta=meta,
            arrays=arrays,
        )
        sealing = self._seals.sealing(name, **named_by_novelty(anchor.epoch, anchor.seqs))
        pairs = progress_novelty.encode_anchor(anchor, self._chunks.get(name, 0), seal=sealing)
        self._chunks[name] = sum(value is not None for _, value in pairs)
        self._anchors[name] = position, detector.used
        self._changed.pop(name, None)
        self.anchor_bytes += sum(len(value) for _, value in pairs if value is not None)
        return pairs

    def _stream_record(self, name: str) -> tuple[bytes, bytes]:
        watched = self.core.streams[name]
        _, anchored = self._anchors.get(name, (None, -1))
        return progress_novelty.encode(
            NoveltyStreamProgress(
                stream=name,
                epoch=watched.detector.settings.epoch,
                first_offset=watched.first_offset,
                seqs=watched.detector.used,
                anchor=anchored,
                newest=watched.newest,
            )
        )

    def samples(self) -> Iterator[Sample]:
        """Yield metrics of the partition and its streams."""
        place = (str(self.partition),)
        since = self._waiting_since
        yield Sample(catalogue.MAPS_AWAITED, self.awaited, place)
        yield Sample(catalogue.MAP_WAIT, self.waited + (perf_counter() - since if since is not None else 0.0), place)
        yield Sample(catalogue.MAP_WAITING, float(since is not None), place)
        yield Sample(catalogue.ANCHOR_BYTES, self.anchor_bytes, place)
        names = catalogue.shown(self.core.streams, lambda one: one.detector.seqs)
        yield Sample(catalogue.STREAMS_LEFT_OUT, len(self.core.streams) - len(names), place)
        dropped = sum(watched.detector.waiting.dropped for watched in self.core.streams.values())
        yield Sample(catalogue.BOUND_HIT, dropped, ("limits.waiting_bytes", *place))
        for name in names:
            stream, of = self.core.streams[name].detector, (name,)
            yield Sample(catalogue.WATCHED, stream.seqs, of)
            yield Sample(catalogue.SCORED, stream.scored, of)
            yield Sample(catalogue.FLAGGED, stream.flagged, of)
            yield Sample(catalogue.NOVELTY_ALARMS, stream.alarms, of)
            yield Sample(catalogue.MAPS, stream.fitted, of)
            yield Sample(catalogue.NO_MAP, stream.unfitted, of)
            if stream.scorer is not None:
                yield Sample(catalogue.MAP_VERSION, stream.scorer.version, of)

    def committed(self) -> None:
        """Do nothing: the collected records are durable."""

    def dropped(self) -> None:
        """Cancel the requested maps, which are no longer needed."""
        for made in self._fits.values():
            made.cancel()
        self._fits.clear()


def samples(partitions: Iterable[NoveltyTask]) -> Iterator[Sample]:
    """Yield metrics of a worker."""
    for partition in partitions:
        yield from partition.samples()
