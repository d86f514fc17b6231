"""Run all stages on this machine, replay a source through them, and report."""

import signal
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import inf
from pathlib import Path

import msgspec
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from rich.console import Console

from glasstream.app.brokers.choose import open_broker
from glasstream.app.runner.children import PAGE, Children
from glasstream.app.runner.monitor import Monitor, as_json, written
from glasstream.app.runner.outputs import OutputDirectory
from glasstream.app.runner.prepare import create_topics, environment, for_embedded, without_checkpoints
from glasstream.app.runner.replay import EMBEDDED_BYTES_AHEAD, EMBEDDED_BYTES_UNREAD, EMBEDDED_MESSAGE_BYTES, Replay
from glasstream.app.runner.report import Report
from glasstream.app.terminal import standard_console
from glasstream.base.errors import StalledError, TopicError
from glasstream.events.sources.messages import pack
from glasstream.events.sources.source import Source, UntilError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream_topics import admin, events

_POLL_SECONDS = 0.05
_DRAINING_SECONDS = 2.0
"""Seconds between two lines that say what an interrupted run waits for."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits of a run in which nothing moves.

    Attributes
    ----------
    notice
        Seconds between two lines that report the standstill.
    end
        Seconds after which the run ends. By then the learner has repeated what may have been lost three times:
        after 15, 45 and 105 seconds (see `glasstream.kafka.stages.standstill`).
    loading
        Seconds between two lines that report that workers load or compile kernels. That is no standstill.
    """

    notice: float = 60.0
    end: float = 240.0
    loading: float = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run."""

    source: Source
    total: int | None
    rows_per_message: int
    explainers: int
    out: Path | None
    keep_topics: bool
    """Whether to keep the topics, because the user set the prefix and another run may continue with them."""
    data: Path | None = None
    page: bool = False
    """Whether to show the page."""
    hold: bool = False
    """Whether the page stays open after the last event, until an interrupt."""
    patience: Patience = Patience()


class Moves:
    """Detector of a run that stands still.

    Parameters
    ----------
    patience
        Time limits.
    say
        Function that prints a line for the user.
    clock
        Clock in seconds.
    """

    def __init__(
        self, patience: Patience, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._say = say
        self._clock = clock
        self._place: Hashable = None
        self._began = self._moved = self._told = clock()

    def wait(self, loading: Sequence[str]) -> None:
        """Record that workers start, which takes as long as it takes, and say so from time to time."""
        now = self._clock()
        if now - self._told >= self._patience.loading:
            self._told = now
            self._say(f"{', '.join(loading)}: loading numerical kernels for {now - self._began:.0f} s")
        self._moved = now

    def look(self, place: Hashable, where: Callable[[], str]) -> None:
        """Record the progress of the run.

        Parameters
        ----------
        place
            Value that changes whenever something moves.
        where
            Function that describes the progress.

        Raises
        ------
        StalledError
            The place has not changed for longer than a run waits.
        """
        now = self._clock()
        if place != self._place:
            self._place, self._moved, self._told = place, now, now
        elif now - self._moved >= self._patience.end:
            raise StalledError(
                f"no progress for {now - self._moved:.0f} s: {where()}. Glasstream has re-sent possibly lost records "
                "without effect, and ends the run. If you gave --out, its folder has the records published so far. "
                "The log lines of the stages above may name the cause. If this run used the embedded broker, try "
                "--broker local, which loses nothing on a busy machine"
            )
        elif now - self._told >= self._patience.notice:
            self._told = now
            left = self._patience.end - (now - self._moved)
            self._say(
                f"no progress for {now - self._moved:.0f} s: {where()}. The log lines of the stages may name the "
                f"cause. The run ends in {left:.0f} s unless there is progress"
            )


class _Speed:
    """What a run says of plain Python that runs until kernels are compiled."""

    def __init__(self, children: Children, say: Callable[[str], None]) -> None:
        self._children = children
        self._say = say
        self._interpreting = False

    def look(self) -> None:
        """Say when plain Python begins and ends to run."""
        before, self._interpreting = self._interpreting, bool(self._children.interpreting())
        if self._interpreting and not before:
            self._say(
                "the numerical kernels are not compiled yet: plain Python computes, slowly but with the same results, "
                "while another process compiles them (a minute of a processor); later runs load them"
            )
        elif before and not self._interpreting:
            self._say("the numerical kernels are compiled")

    def end(self) -> None:
        """Say what goes on after the run."""
        if self._interpreting:
            self._say(
                "processes of low priority still compile the numerical kernels (a minute of a processor), so that "
                "later runs are faster"
            )


class _Interrupts:
    """Handler of Ctrl-C. The first one drains, if there is anything to drain, and the second one ends at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.count = 0
        self.begun = False
        """Whether there are results that an abrupt end would lose."""
        self._waiting = False
        self._say = say

    def __call__(self, number: int, frame: object) -> None:
        self.count += 1
        if self._waiting:
            return
        if self.count > 1 or not self.begun:
            raise KeyboardInterrupt
        self._say("interrupted: reading no more events, finishing those already read (interrupt again to end at once)")

    def wait(self) -> None:
        """Wait for the next interrupt, when there is nothing left to drain."""
        self._waiting = True
        while not self.count:
            time.sleep(_POLL_SECONDS)


def run(settings: Settings, plan: Plan, console: Console) -> int:
    """Replay the source through the pipeline, and return the exit code.

    Raises
    ------
    GlasstreamError
        A stage died, the broker failed, or the input or the settings cannot be used.
    """
    with _interrupts(lambda line: console.print(line, style="yellow")) as interrupts:
        if settings.broker == "none":
            _without_kafka(settings, plan, console, interrupts)
        else:
            _through_kafka(settings, plan, console, interrupts)
    if plan.data is not None and not plan.keep_topics:
        console.print(
            f"the topics of this run are kept: give other commands --broker local --data {plan.data} "
            f"--prefix {settings.prefix}",
            style="dim",
        )
    return 0


def _without_kafka(settings: Settings, plan: Plan, console: Console, interrupts: _Interrupts) -> None:
    # These import River and numba, which otherwise only the workers need.
    from glasstream.app.runner.compile_notice import compile_notice
    from glasstream.flow.reference import Reference

    report = _report(settings, plan, console)
    reference = Reference(settings)
    errors = standard_console(err=True)
    key = events.key(plan.source.stream)
    started = time.monotonic()
    read, partial = 0, False
    rows = UntilError(plan.source.events())

    def messages() -> Iterator[tuple[bytes, bytes]]:
        nonlocal read, partial
        for value, count in pack(rows, plan.rows_per_message, settings.limits.message_bytes):
            if interrupts.count:
                partial = True
                break
            read += count
            yield key, value
        yield key, events.FLUSH

    with (
        OutputDirectory(plan.out, written(settings)) as out,
        compile_notice(errors.print),
    ):
        for topic, record in reference.run(messages()):
            out.add(topic, record)
            report.add(topic, [record])
            interrupts.begun = True
            report.progress(time.monotonic())
            _tell(console, reference.notices)
            _tell(console, plan.source.notices)
    _tell(console, reference.notices)
    _tell(console, plan.source.notices)  # the source adds its last notices when it ends, which may publish nothing
    report.table(
        time.monotonic() - started,
        interrupted_after=read if partial else None,
        broken=rows.error,
        unexplained=reference.unexplained(),
    )


def _report(settings: Settings, plan: Plan, console: Console) -> Report:
    novelty, incidents = settings.explain.detects_novelty, settings.drift.finds_incidents
    return Report(console, plan.total, novelty=novelty, incidents=incidents)


def _through_kafka(settings: Settings, plan: Plan, console: Console, interrupts: _Interrupts) -> None:
    embedded = settings.broker == "embedded"
    if embedded:
        settings = for_embedded(settings)
    if not plan.keep_topics:
        settings = without_checkpoints(settings)  # no later run resumes from this run's state
    say = _saying(console)
    with open_broker(settings.broker, data=plan.data, client=settings.kafka, log=say) as broker:
        settings = msgspec.structs.replace(settings, broker=broker.bootstrap)
        create_topics(broker, settings)
        temporary = broker.kind == "given" and not plan.keep_topics
        with (
            _deleting_topics(settings, say) if temporary else nullcontext(),
            Children(environment(settings), restart=not embedded, say=say) as children,
        ):
            if plan.page:
                children.add_page(show=console.is_interactive)
            children.add("learner", "learner-1")  # takes longest to start, because of River
            children.add("aggregator", "aggregator-1")
            for number in range(plan.explainers):
                children.add("explainer", f"explainer-{number + 1}")
            if settings.explain.detects_novelty:
                children.add("novelty", "novelty-1")
            _replay(settings, plan, console, children, interrupts, embedded=embedded)


@contextmanager
def _deleting_topics(settings: Settings, say: Callable[[str], None]) -> Iterator[None]:
    """Delete the topics of the run afterwards. An error of the run takes precedence over one of the deletion."""
    client = AdminClient({**settings.kafka, "bootstrap.servers": settings.broker})
    try:
        yield
    except BaseException:
        try:
            admin.delete(client, settings.prefix)
        except TopicError as error:
            say(
                f"the topics of this run could not be deleted; delete the topics that begin with {settings.prefix}: "
                f"{error}"
            )
        raise
    admin.delete(client, settings.prefix)


def _replay(
    settings: Settings,
    plan: Plan,
    console: Console,
    children: Children,
    interrupts: _Interrupts,
    *,
    embedded: bool,
) -> None:
    report = _report(settings, plan, console)
    limit = EMBEDDED_MESSAGE_BYTES if embedded else settings.limits.message_bytes
    link = connection(settings)
    stream = plan.source.stream
    with OutputDirectory(plan.out, written(settings)) as out:

        def take(topic: str, messages: list[Message]) -> None:
            records = [as_json(topic, message) for message in messages]
            for record in records:
                out.add(topic, record)
            report.add(topic, records)

        rows = UntilError(plan.source.events())
        packed = pack(rows, plan.rows_per_message, limit)
        monitor = Monitor(
            link,
            settings,
            take,
            public=written(settings),
            from_start=not plan.keep_topics,
            whole=embedded and not plan.keep_topics,
        )
        replay = Replay(
            link,
            settings,
            stream,
            packed,
            EMBEDDED_BYTES_AHEAD if embedded else None,
        )
        partition = events.partition(events.key(stream), settings.topics.events, settings.topics.partitioner)
        interrupts.begun = plan.keep_topics  # from here on other runs may continue with the topics
        moves = Moves(plan.patience, lambda line: console.print(line, style="yellow"))
        started = drained = time.monotonic()

        speed = _Speed(children, lambda line: console.print(line, style="dim"))

        def look() -> None:
            if loading := children.loading():
                moves.wait(loading)
                return
            speed.look()
            progress = monitor.progress
            counts = (progress.consumed, progress.watched, progress.entries, progress.aggregated, progress.published)
            place = (monitor.read, replay.sent, replay.end, *(tuple(sorted(count.items())) for count in counts))
            moves.look(place, lambda: _how_far(monitor, replay, stream, partition, settings))

        while not _done(monitor, replay, stream, settings):
            children.check()
            if interrupts.count:
                replay.finish()
            ahead = _rows_ahead(monitor, stream, settings) / plan.rows_per_message if embedded else inf
            replay.step(_consumed(monitor, partition, settings), ahead)
            now = time.monotonic()
            monitor.poll(_POLL_SECONDS)
            look()
            interrupts.begun = plan.keep_topics or report.predicted > 0
            _tell(console, plan.source.notices)
            if not interrupts.count:
                report.progress(now)
            elif now - drained >= _DRAINING_SECONDS:
                drained = now
                console.print(_draining(report.predicted, monitor, replay, stream), style="dim")
        ends = monitor.ends()
        while not monitor.has_read(ends):
            children.check()
            monitor.poll(_POLL_SECONDS)
            look()
        seconds = time.monotonic() - started
        replay.close()
        monitor.close()
        speed.end()
        children.stop(but=(PAGE,))
    packed.close()  # of an interrupted run: the source adds its last notices
    _tell(console, plan.source.notices)
    report.table(
        seconds,
        interrupted_after=None if replay.exhausted else replay.sent,
        broken=rows.error,
        unexplained=monitor.progress.unexplained,
    )
    if plan.hold and not interrupts.count:
        console.print("the page stays open until you press Ctrl-C", style="dim")
        interrupts.wait()
    children.stop()


def _consumed(monitor: Monitor, partition: int, settings: Settings) -> int:
    """Return the offset up to which all readers of `events` have consumed a partition."""
    progress = monitor.progress
    consumed = progress.consumed.get(partition, 0)
    return min(consumed, progress.watched.get(partition, 0)) if settings.explain.detects_novelty else consumed


def _rows_ahead(monitor: Monitor, stream: str, settings: Settings) -> float:
    """Return how many rows may be written to the embedded broker now without pushing out unread records.

    The estimate uses the records that have been read. Until there are some, the number of rows is limited to what leads
    to the first estimates.
    """
    progress, every = monitor.progress, settings.publish.every
    outstanding = max(
        0, progress.entries.get(stream, 0) - max(settings.explain.first_row, progress.aggregated.get(stream, 0))
    )
    allowed = settings.explain.first_row + 2.0 * every
    if monitor.round_bytes("predictions"):
        behind = [
            monitor.behind(topic)
            for topic in ("predictions", *(["novelty"] if settings.explain.detects_novelty else []))
        ]
        allowed = EMBEDDED_BYTES_UNREAD / monitor.round_bytes("predictions") - max(behind)
    for topic, records in (("importance", len(settings.explain.names)), ("effects", 1)):
        published = monitor.round_bytes(topic) * records
        if published:
            rounds = max(1, EMBEDDED_BYTES_UNREAD // published)
            unread = max(0, monitor.behind(topic) - 1) / (monitor.keys(topic) * records)  # one is a marker
            allowed = min(allowed, rounds * every - outstanding - every * unread)
        elif records and progress.published.get(stream, -1) < 0:
            allowed = min(allowed, settings.explain.first_row + 2.0 * every - progress.entries.get(stream, 0))
    if attributes := len(settings.groups.attributes):
        # The learner publishes these, so rows that wait for explanations do not count.
        published = monitor.round_bytes("groups") * attributes
        rounds = max(1, EMBEDDED_BYTES_UNREAD // published) if published else 2
        unread = max(0, monitor.behind("groups") - 1) / attributes
        allowed = min(allowed, (rounds - unread) * settings.groups.every)
    return allowed


def _done(monitor: Monitor, replay: Replay, stream: str, settings: Settings) -> bool:
    """Return whether everything written has been learned, explained, aggregated, scored and published."""
    if replay.end is None:
        return False
    partition, offset = replay.end
    progress = monitor.progress
    if _consumed(monitor, partition, settings) <= offset:
        return False
    rows = progress.entries.get(stream, 0)
    return rows <= settings.explain.first_row or (
        progress.aggregated.get(stream, 0) >= rows and progress.published.get(stream, -1) == rows - 1
    )


def _how_far(monitor: Monitor, replay: Replay, stream: str, partition: int, settings: Settings) -> str:
    progress = monitor.progress
    watched = f", {progress.watched.get(partition, 0):,} messages watched" if settings.explain.detects_novelty else ""
    return (
        f"{replay.sent:,} events written, {progress.rows.get(stream, 0):,} learned, "
        f"{progress.aggregated.get(stream, 0):,} aggregated{watched}"
    )


def _draining(predicted: int, monitor: Monitor, replay: Replay, stream: str) -> str:
    progress = monitor.progress
    rows = progress.entries.get(stream, 0)
    return (
        f"draining: {predicted:,} of {replay.sent:,} written events have been predicted and learned, "
        f"{min(rows, progress.aggregated.get(stream, 0)):,} of {rows:,} learned rows have been explained"
    )


def _saying(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(line, style="dim")


def _tell(console: Console, notices: list[str]) -> None:
    """Print new notices, and remove them from the list."""
    while notices:
        console.print(notices.pop(0), style="dim")


@contextmanager
def _interrupts(say: Callable[[str], None]) -> Iterator[_Interrupts]:
    interrupts = _Interrupts(say)
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
