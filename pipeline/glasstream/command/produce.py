"""`glasstream produce`: write a source to the `events` topic of a running deployment."""

from glasstream.runner.replay import Replay
from glasstream.settings import Settings
from glasstream.sources.messages import pack
from glasstream.sources.source import Source
from glasstream.transport.connection import connection


def produce(settings: Settings, source: Source, rows_per_message: int) -> int:
    """Write all events and the flush mark, and return the number of events.

    Raises
    ------
    BrokerError
        The broker refuses a message.
    InputError
        A message would be larger than the topic takes.
    """
    replay = Replay(
        connection(settings),
        settings,
        source.stream,
        pack(source.events(), rows_per_message, settings.limits.message_bytes),
    )
    while replay.end is None:
        replay.step(0, wait=0.02)
    replay.close()
    return replay.sent
