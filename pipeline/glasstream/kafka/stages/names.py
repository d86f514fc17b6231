"""Full names of topics, the fingerprint to which state is bound, and where an epoch begins."""

import logging
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from glasstream.base.errors import ContractError, LostInputError, StateError
from glasstream.base.form import NEW_EPOCH
from glasstream.flow.settings import Settings
from glasstream_topics.progress import Setting
from glasstream_topics.progress_learner import LearnerPartitionProgress, LearnerStreamProgress
from glasstream_topics.progress_novelty import NoveltyPartitionProgress, NoveltyStreamProgress

log = logging.getLogger(__name__)

_NUMERIC = ("river", "numpy", "numba")
"""Packages whose versions change numbers."""
_OF_MAPS = ("numpy", "numba", "scipy")
"""Packages whose versions change the output of the novelty detector."""

#: Remedy when events are lost that a stage has not used.
LOST_EVENTS = (
    f"lengthen the retention of the topic; to continue with the records that the broker still has, {NEW_EPOCH}, or use "
    "another --prefix"
)


Identify = Callable[[], str | None]
"""Function that returns the current id of the topic that a stage reads; None if the brokers give no ids."""


def no_identity() -> None:
    """Return None, where a topic has no id."""


def topic(settings: Settings, name: str) -> str:
    """Return the full name of a topic."""
    return settings.prefix + name


def needed_topics(stage: str, settings: Settings) -> dict[str, int | None]:
    """Return the topics that a stage reads or writes and the partition counts that they must have.

    The stages accept any number of partitions (None) of an output topic, because they partition its records by key. The
    Avro publisher compares the numbers of its topics itself.
    """
    return {
        one.full_name(settings.prefix): None
        if one.json or one.codec == "avro"
        else one.partition_count(settings.partitions)
        for one in settings.all_topics
        if stage in (*one.read_by, *one.written_by)
    }


def fingerprint(settings: Settings) -> dict[str, Setting]:
    """Return every setting and version that changes numbers."""
    return {**settings.fingerprint(), **_versions(_NUMERIC)}


def novelty_fingerprint(settings: Settings) -> dict[str, Setting]:
    """Return every setting and version that changes the output of the novelty detector."""
    return {**settings.novelty_fingerprint(), **_versions(_OF_MAPS)}


def _versions(packages: tuple[str, ...]) -> dict[str, Setting]:
    versions: dict[str, Setting] = {f"version.{package}": version(package) for package in packages}
    versions["version.python"] = ".".join(platform.python_version_tuple()[:2])
    return versions


@contextmanager
def known_state(where: str) -> Iterator[None]:
    """Translate unreadable records of state into `StateError`.

    Raises
    ------
    StateError
        A contract rejects a record of the state.
    """
    try:
        yield
    except ContractError as error:
        raise StateError(
            f"{where}: expected state that this release wrote; {error}; continue with the release that wrote it, or "
            f"{NEW_EPOCH}, or use another --prefix"
        ) from error


def differences(found: dict[str, Setting], ours: dict[str, Setting]) -> list[str]:
    """List the settings and versions of the state that differ from the current fingerprint, one text each."""
    return [
        f"{key}: was {found.get(key)!r}, is {ours.get(key)!r}"
        for key in sorted(found.keys() | ours.keys())
        if found.get(key) != ours.get(key)
    ]


def agreed_epoch(
    where: str, found: dict[str, Setting], epoch: int, settings: Settings, ours: dict[str, Setting]
) -> int:
    """Return the epoch to continue in: that of the state, or a later one that starts here.

    Parameters
    ----------
    where
        Position of the state, for error messages.
    found, epoch
        Fingerprint of the state, and its epoch.
    settings
        Configuration. Its epoch is the earliest allowed; `worker.new_epoch` names the epoch that may start where
        settings differ.
    ours
        Fingerprint of the stage under this configuration.

    Raises
    ------
    StateError
        Settings differ, and no epoch above that of the state may start. The message names every key that differs.
    """
    if settings.epoch > epoch:
        return settings.epoch
    changed = differences(found, ours)
    if not changed:
        return epoch
    allowed = settings.worker.new_epoch
    if allowed is None or allowed <= epoch:
        before = (
            ""
            if allowed is None
            else f", and the state is already in epoch {epoch}, so --new-epoch {allowed} has no effect"
        )
        raise StateError(
            f"{where}: these settings or versions differ from those of the saved state: "
            f"{'; '.join(changed)}{before}. Restore them; or start every stage with --new-epoch N, to discard the "
            "saved state and start epoch N, with the same N for all, above the epochs that `glasstream state show` "
            f"prints ({epoch + 1} or more); or use another --prefix"
        )
    return allowed


def is_other_topic(saved: str | None, current: str | None) -> bool:
    """Return whether the ids are those of two topics. An unknown id (None) may be any."""
    return saved is not None and current is not None and saved != current


def expect_same_topic(where: str, name: str, saved: str | None, current: str | None, remedy: str) -> None:
    """Check that a topic was not deleted and created again since the state was saved.

    Parameters
    ----------
    where
        Position of the state, for error messages.
    name
        Full name of the topic.
    saved, current
        Id of the topic in the state, and its current id.
    remedy
        Remedy if it was.

    Raises
    ------
    LostInputError
        It was. The offsets of the state mean nothing in the new topic, however long it is.
    """
    if is_other_topic(saved, current):
        raise LostInputError(
            f"{where}: the topic {name} was deleted and created again since this state was saved (its id was {saved}, "
            f"and is {current} now), so the messages that follow the state are gone; {remedy}"
        )


def begin_of_epoch(
    where: str,
    found: LearnerPartitionProgress | NoveltyPartitionProgress,
    streams: Iterable[LearnerStreamProgress | NoveltyStreamProgress],
    settings: Settings,
    ours: dict[str, Setting],
    partition: int,
    topic_id: str | None,
    low: int,
    high: int,
) -> tuple[int, int | None]:
    """Return the epoch to continue in, and the offset at which it begins; None if it is that of the state.

    Parameters
    ----------
    where
        Position of the state, for error messages.
    found, streams
        State of the partition, and of its streams, whose epochs reset marks increase.
    settings, ours
        Configuration, and the fingerprint of the stage under it, as for `agreed_epoch`.
    partition, topic_id, low, high
        Partition of `events`, the topic's current id, and the offsets that the broker keeps.

    Raises
    ------
    LostInputError
        The state continues, but the messages that follow it are gone.
    StateError
        Settings differ and no new epoch is allowed, or a stream is already in the new epoch or in a later one.
    """
    epoch = agreed_epoch(where, found.fingerprint, found.epoch, settings, ours)
    if epoch == found.epoch:
        events = topic(settings, "events")
        expect_same_topic(where, events, found.topic_id, topic_id, LOST_EVENTS)
        if found.offset > high:
            raise LostInputError(
                f"{where}: the saved state continues at offset {found.offset} of {events}[{partition}], but the topic "
                f"ends at {high}: the broker lost the end of the log, or the topic was deleted and created again; "
                f"{LOST_EVENTS}"
            )
        return epoch, None
    latest = max((one.epoch for one in streams), default=-1)
    if found.begins_in is not None:  # a stream of the epoch before it has given up its place
        latest = max(latest, found.begins_in - 1)
    if epoch <= latest:
        raise StateError(
            f"{where}: expected a new epoch above {latest}, the highest that reset marks have started, got {epoch}; "
            f"start every stage with --set epoch={latest + 1}, or higher if a stage asks for it"
        )
    known = not is_other_topic(found.topic_id, topic_id) and low <= found.offset <= high
    begin = found.offset if known else low
    log.info("%s: epoch %d begins at offset %d", where, epoch, begin)
    return epoch, begin
