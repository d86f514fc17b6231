"""What a stage asks the brokers about its input topic: the topic's id, and its largest message size."""

import asyncio
import logging
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from glasstream.base.errors import BrokerError, TopicError, UnavailableError
from glasstream.kafka.transport.connection import Connection
from glasstream_topics.client_errors import heals

log = logging.getLogger(__name__)

LIMIT = 128 * 1024 * 1024
"""Largest message in bytes that a worker reads, and about the largest decompressed size of a batch of messages."""
_SECONDS = 10.0
"""Time within which a broker must answer."""
_NONE = str(Uuid(0, 0))
"""Id in the answer of a broker that gives topics no ids."""
_SETTING = "max.message.bytes"


@dataclass(slots=True)
class TopicIdentity:
    """Query for the id that Kafka gave a topic at its creation (KIP-516). A topic that is created again has another id.

    Parameters
    ----------
    connection
        Connection to the brokers.
    topic
        Full name of the topic.
    """

    connection: Connection
    topic: str
    _said: bool = False

    def __call__(self) -> str | None:
        """Return the id, or None if the brokers give topics no ids, as those before Kafka 2.8. Log that once.

        Raises
        ------
        UnavailableError
            No broker answers, or the topic is missing.
        BrokerError
            The broker refuses.
        """
        admin = AdminClient(self.connection.client())
        try:
            cluster = admin.list_topics(self.topic, timeout=_SECONDS)
            if 0 <= cluster.controller_id not in cluster.brokers:
                return None  # the embedded broker, which does not answer the next request
            asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=_SECONDS)
            found = str(asked[self.topic].result(_SECONDS + 1.0).topic_id)
        except TimeoutError as error:
            raise UnavailableError(f"cannot read the id of {self.topic}: no answer") from error
        except KafkaException as error:
            cause = error.args[0]
            away = heals(cause) or cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            kind = UnavailableError if away else BrokerError
            raise kind(f"cannot read the id of {self.topic}: {cause.str()}") from error
        if found != _NONE:
            return found
        if not self._said:
            self._said = True
            log.warning(
                "the brokers give topics no ids (Kafka before 2.8): if %s is deleted and created again while no worker "
                "runs, the next worker does not notice",
                self.topic,
            )
        return None


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """Check, when a stage starts, that a worker can hold the largest message that its topic accepts.

    Parameters
    ----------
    connection
        Connection to the brokers.
    topic
        Full name of the topic.
    """

    connection: Connection
    topic: str

    async def start(self) -> None:
        """Check the topic.

        Raises
        ------
        TopicError
            The topic accepts larger messages than a worker can hold.
        """
        await asyncio.to_thread(self.check)

    async def stop(self) -> None:
        """Do nothing, because the check holds nothing."""

    def check(self) -> None:
        """Check the topic, blocking. If the broker does not report the topic's configuration, log that and continue.

        The embedded broker keeps no configuration of topics. It is recognized by the controller that it names, which is
        none of its brokers. A request for configuration to that controller would only time out.
        """
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        admin = AdminClient(self.connection.client())
        try:
            cluster = admin.list_topics(self.topic, timeout=_SECONDS)
            if cluster.controller_id not in cluster.brokers:
                return
            (answer,) = admin.describe_configs([resource], request_timeout=_SECONDS).values()
            found = answer.result()[_SETTING].value
        except (KafkaException, KeyError) as error:
            reason = (
                error.args[0].str() if isinstance(error, KafkaException) else f"the broker does not report {_SETTING}"
            )
            log.warning(
                "cannot read %s of %s (%s): grant DescribeConfigs (`glasstream topics acls` prints the command); until "
                "then, make sure that it is at most %d",
                _SETTING, self.topic, reason, LIMIT,
            )  # fmt: skip
            return
        if int(found) > LIMIT:
            raise TopicError(
                f"{self.topic} accepts messages of {found} bytes ({_SETTING}), but a worker handles at most {LIMIT}. "
                f"Lower it: kafka-configs.sh --bootstrap-server {self.connection.bootstrap} --alter --topic "
                f"{self.topic} --add-config {_SETTING}=1048588 (`glasstream topics show` prints the required values)"
            )
