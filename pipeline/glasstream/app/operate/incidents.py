"""Read the incidents of streams: the newest record of each, as of now."""

from collections.abc import Callable

from glasstream.flow.settings import Settings
from glasstream_topics import consume
from glasstream_topics.incidents import Incident


def newest(settings: Settings, stream: str | None, say: Callable[[str], None]) -> list[Incident]:
    """Return the newest record of each incident, by stream and number, in the newest epoch that has any.

    Parameters
    ----------
    stream
        Only incidents of this stream; None for those of all streams.
    say
        Called with a line if some records cannot be read.

    Raises
    ------
    TopicError
        The broker does not have the topic.
    BrokerError, VersionError
        The topic cannot be read.
    """
    newest_epochs: dict[str, tuple[int, dict[int, Incident]]] = {}
    with consume.incidents(
        settings.broker,
        prefix=settings.prefix,
        streams=stream,
        follow=False,
        damaged="skip",
        kafka=settings.kafka,
    ) as records:
        for record in records:
            epoch, found = newest_epochs.get(record.stream, (-1, {}))
            if record.epoch > epoch:
                newest_epochs[record.stream] = record.epoch, {record.incident: record}
            elif record.epoch == epoch:
                found[record.incident] = record
    if records.damaged:
        say(f"skipped records of {settings.prefix}incidents that cannot be read: {records.damaged:,}")
    return [one for _, (_, found) in sorted(newest_epochs.items()) for _, one in sorted(found.items())]
