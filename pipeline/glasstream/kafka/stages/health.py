"""Health of a stage, as `glasstream.kafka.health` publishes it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.health.server import HealthServer, Note
from glasstream.kafka.health.watchdog import Watchdog, end_process
from glasstream.kafka.transport.relay import Relay
from glasstream.kafka.transport.stage import Stage
from glasstream.kafka.transport.worker import ExitCode

Samples = Callable[[], Iterable[Sample]]
Notes = Callable[[], Iterable[Note]]
_Source = TypeVar("_Source", bound=Stage | Relay)


class _Health(ABC, Generic[_Source]):
    """The health of a stage or a relay, as `HealthServer` asks for it.

    Parameters
    ----------
    source
        The stage or relay.
    samples, notes
        Functions that return the metrics of this kind of stage, and what an operator should know.
    """

    def __init__(self, source: _Source, samples: Samples, notes: Notes = tuple) -> None:
        self._source = source
        self._samples = samples
        self._notes = notes
        self._started = time.time()

    def trouble(self) -> str | None:
        """Return why the stage ends, or None if it does not."""
        failure = self._source.failure
        return None if failure is None else f"{type(failure).__name__}: {failure}"

    def unready(self) -> str | None:
        """Return why the stage makes no progress, or none that is of use, or None if it does."""
        return self._waits() or next((note.text for note in self._notes() if note.unready), None)

    def notes(self) -> Iterable[Note]:
        """Return what an operator should know."""
        return self._notes()

    @abstractmethod
    def _waits(self) -> str | None:
        """Return why the stage makes no progress, or None if it does."""

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics that every stage has, then those of this kind of stage."""
        yield Sample(catalogue.READY, float(self.trouble() is None and self.unready() is None))
        yield Sample(catalogue.STARTED, self._started)
        yield from self._places()
        yield from self._source.steps.samples()
        yield from self._samples()

    @abstractmethod
    def _places(self) -> Iterator[Sample]:
        """Yield the metrics of the partitions that the stage reads."""


class StageHealth(_Health[Stage]):
    """The health of a stage. Places are partitions."""

    def _waits(self) -> str | None:
        """Return why the stage makes no progress, or None if it does.

        The reasons are: the stage starts, its group rebalances, brokers are down, or a partition is stalled or has no
        owner. A worker without partitions is ready as long as other workers own all of them.
        """
        stage = self._source
        if stage.view.silent is not None:
            return f"brokers do not answer: {stage.view.silent}"
        if not stage.settled:
            waits = stage.waits_for or stage.view.unready or stage.refusal
            return waits or stage.view.unsettled
        places: dict[str, list[str]] = {}
        for lane in stage.lanes.values():
            if (stalled := lane.stalled) is not None:
                places.setdefault(stalled, []).append(f"{lane.tp.topic}[{lane.partition}]")
        reasons = [f"{', '.join(names)}: {reason}" for reason, names in places.items()]
        if stage.view.unready is not None:
            reasons.append(stage.view.unready)
        return "; ".join(reasons) or None

    def _places(self) -> Iterator[Sample]:
        stage = self._source
        yield Sample(catalogue.READ_AGAIN, stage.lost)
        for lane in stage.lanes.values():
            place = (str(lane.partition),)
            yield Sample(catalogue.STALLED, float(lane.stalled is not None), place)
            if lane.sequence is None:
                continue
            yield Sample(catalogue.INPUT_WAIT, lane.wait, place)
            used = lane.sequence.next_offset - len(lane.waiting)
            yield Sample(catalogue.INPUT_OFFSET, used, place)
            # The consumer knows the end only from its last fetch. While the stage holds back, there is none.
            ends = (stage.app.consumer.end(lane.tp), stage.view.ends.get(lane.partition))
            known = [end for end in ends if end is not None]
            if known:
                yield Sample(catalogue.INPUT_LAG, max(0, max(known) - used), place)


class RelayHealth(_Health[Relay]):
    """The health of a relay. Places are ``topic[partition]``."""

    def _waits(self) -> str | None:
        """Return why the relay makes no progress, or None if it does."""
        return self._source.unready()

    def _places(self) -> Iterator[Sample]:
        relay = self._source
        for (topic, partition), position in list(relay.positions.items()):
            place = (f"{topic}[{partition}]",)
            waits = relay.waits is not None or (topic, partition) in relay.holds
            stalled = waits or (topic, partition) in relay.stalls
            yield Sample(catalogue.STALLED, float(stalled), place)
            yield Sample(catalogue.INPUT_OFFSET, position, place)
            end = relay.ends.get((topic, partition))
            if end is not None:
                yield Sample(catalogue.INPUT_LAG, max(0, end - position), place)


def watch_over(stage: Stage | Relay, settings: Settings, samples: Samples, notes: Notes = tuple) -> None:
    """Add a health server and a watchdog to a stage."""
    health = settings.health
    watchdog = Watchdog(health.stall_seconds, end_process(ExitCode.STALLED))
    stage.beats.append(watchdog.feed)
    stage.services.append(watchdog)
    name, instance = stage.options.name, stage.options.instance
    answers = RelayHealth(stage, samples, notes) if isinstance(stage, Relay) else StageHealth(stage, samples, notes)
    stage.services.append(HealthServer(health.host, health.port or 0, name, instance, answers))
