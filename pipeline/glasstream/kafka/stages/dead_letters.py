"""Records of dead letters that can be written whatever message size the topic accepts."""

import logging

from glasstream.flow.learner.dead_letters import DeadLetter, origin_only
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.records import ProducerRecord
from glasstream_topics import events_dead

log = logging.getLogger(__name__)


def dead_record(settings: Settings, letter: DeadLetter) -> ProducerRecord:
    """Return the record of a letter. If it is refused for its size, a record without the original replaces it."""
    name = topic(settings, events_dead.TOPIC.name)

    def without_original() -> ProducerRecord:
        log.warning(
            "%s refused a dead letter of %d bytes, so the learner writes it without the original message; to keep "
            "originals, set max.message.bytes of the topic to %s (`glasstream topics verify` shows it), or lower "
            "limits.dead_bytes to what the topic accepts",
            name,
            events_dead.size(letter.key, letter.value, letter.headers),
            events_dead.TOPIC.config["max.message.bytes"],
        )
        origin = origin_only(letter)
        return ProducerRecord(name, origin.key, origin.value, origin.partition, origin.headers)

    return ProducerRecord(name, letter.key, letter.value, letter.partition, letter.headers, without_original)
