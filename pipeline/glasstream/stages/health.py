"""What a stage says of itself: see `glasstream.health`."""

import time
from collections.abc import Callable, Iterable, Iterator

from glasstream.health import catalogue
from glasstream.health.catalogue import Sample
from glasstream.health.server import HealthServer
from glasstream.health.watchdog import Watchdog, end_process
from glasstream.settings import Settings
from glasstream.transport.stage import Stage
from glasstream.transport.worker import ExitCode

Samples = Callable[[], Iterable[Sample]]


class StageHealth:
    """The health of a stage, as `HealthServer` asks for it.

    Parameters
    ----------
    stage
        The stage.
    samples
        The metrics that only stages of its kind have.
    """

    def __init__(self, stage: Stage, samples: Samples) -> None:
        self._stage = stage
        self._samples = samples
        self._started = time.time()

    def trouble(self) -> str | None:
        """Why the stage ends; None while it does not."""
        failure = self._stage.failure
        return None if failure is None else f"{type(failure).__name__}: {failure}"

    def unready(self) -> str | None:
        """Why nothing is worked on, here or by anybody.

        The stage starts, its group rebalances, brokers are away, a partition is stalled, or nobody has it. A worker
        without a partition is ready as long as others have all of them.
        """
        stage = self._stage
        if stage.view.silent is not None:
            return f"brokers do not answer: {stage.view.silent}"
        if not stage.settled:
            return stage.waits_for or stage.view.unready or "the worker has not taken over its partitions yet"
        lanes = stage.lanes.values()
        reasons = [f"{lane.tp.topic}[{lane.partition}]: {lane.stalled}" for lane in lanes if lane.stalled]
        if stage.view.unready is not None:
            reasons.append(stage.view.unready)
        return "; ".join(reasons) or None

    def samples(self) -> Iterator[Sample]:
        """What every stage has, then its own."""
        stage = self._stage
        yield Sample(catalogue.READY, float(self.trouble() is None and self.unready() is None))
        yield Sample(catalogue.STARTED, self._started)
        yield Sample(catalogue.READ_AGAIN, stage.lost)
        for lane in stage.lanes.values():
            place = (str(lane.partition),)
            yield Sample(catalogue.STALLED, float(lane.stalled is not None), place)
            if lane.sequence is None:
                continue
            used = lane.sequence.next_offset - len(lane.waiting)
            yield Sample(catalogue.INPUT_OFFSET, used, place)
            # The fetch knows the end as of its last answer: while the stage holds back there is none.
            ends = (stage.app.consumer.end(lane.tp), stage.view.ends.get(lane.partition))
            known = [end for end in ends if end is not None]
            if known:
                yield Sample(catalogue.INPUT_LAG, max(0, max(known) - used), place)
        yield from stage.steps.samples()
        yield from self._samples()


def watch_over(stage: Stage, settings: Settings, samples: Samples) -> None:
    """Give a stage its server and its watchdog."""
    health = settings.health
    watchdog = Watchdog(health.stall_seconds, end_process(ExitCode.STALLED))
    stage.beats.append(watchdog.feed)
    stage.services.append(watchdog)
    name, instance = stage.options.name, stage.options.instance
    stage.services.append(HealthServer(health.host, health.port or 0, name, instance, StageHealth(stage, samples)))
