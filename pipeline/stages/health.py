"""What a stage says of itself: see `pipeline.health`."""

from collections.abc import Callable, Iterable, Iterator

from pipeline.health import catalogue
from pipeline.health.catalogue import Sample
from pipeline.health.server import HealthServer
from pipeline.health.watchdog import Watchdog, end_process
from pipeline.settings import Settings
from pipeline.transport.stage import Stage
from pipeline.transport.worker import ExitCode

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

    def trouble(self) -> str | None:
        """Why the stage ends; None while it does not."""
        failure = self._stage.failure
        return None if failure is None else f"{type(failure).__name__}: {failure}"

    def unready(self) -> str | None:
        """Why nothing is worked on: it starts, or the group rebalances."""
        return None if self._stage.settled else "it has not taken its partitions over yet"

    def samples(self) -> Iterator[Sample]:
        """What every stage has, then its own."""
        stage = self._stage
        yield Sample(catalogue.READ_AGAIN, stage.lost)
        for lane in stage.lanes.values():
            if lane.sequence is None:
                continue
            place = (str(lane.partition),)
            used = lane.sequence.next_offset - len(lane.waiting)
            yield Sample(catalogue.INPUT_OFFSET, used, place)
            end = stage.app.consumer.end(lane.tp)
            if end is not None:
                yield Sample(catalogue.INPUT_LAG, max(0, end - used), place)
        yield from stage.steps.samples()
        yield from self._samples()


def watch_over(stage: Stage, settings: Settings, samples: Samples) -> None:
    """Give a stage its server and its watchdog."""
    health = settings.health
    watchdog = Watchdog(health.stall_seconds, end_process(ExitCode.STALLED))
    stage.beats.append(watchdog.pat)
    stage.services.append(watchdog)
    name, instance = stage.options.name, stage.options.instance
    stage.services.append(HealthServer(health.host, health.port or 0, name, instance, StageHealth(stage, samples)))
