"""The id that Kafka gives a topic when it is created (KIP-516). A topic that is created again gets another id."""

import logging

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient

from glasstream.errors import BrokerError, UnavailableError
from glasstream.transport.connection import Connection
from glasstream.transport.patience import heals

log = logging.getLogger(__name__)

_NONE = str(Uuid(0, 0))
"""Id in the answer of a broker that gives topics no ids."""


class TopicIdentity:
    """Query for the current id of a topic.

    Parameters
    ----------
    connection
        Connection to the brokers.
    topic
        Full name of the topic.
    timeout
        Seconds within which a broker must answer.
    """

    def __init__(self, connection: Connection, topic: str, timeout: float = 10.0) -> None:
        self._connection = connection
        self._topic = topic
        self._timeout = timeout
        self._said = False

    def __call__(self) -> str | None:
        """Return the id, or None if the brokers give topics no ids, as those before Kafka 2.8. Log that once.

        Raises
        ------
        UnavailableError
            No broker answers, or the topic is missing.
        BrokerError
            The broker refuses.
        """
        admin = AdminClient(self._connection.client())
        try:
            cluster = admin.list_topics(self._topic, timeout=self._timeout)
            if 0 <= cluster.controller_id not in cluster.brokers:
                return None  # the embedded broker, which does not answer the next request
            asked = admin.describe_topics(TopicCollection([self._topic]), request_timeout=self._timeout)
            found = str(asked[self._topic].result(self._timeout + 1.0).topic_id)
        except TimeoutError as error:
            raise UnavailableError(f"cannot read the id of {self._topic}: no answer") from error
        except KafkaException as error:
            cause = error.args[0]
            away = heals(cause) or cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            kind = UnavailableError if away else BrokerError
            raise kind(f"cannot read the id of {self._topic}: {cause.str()}") from error
        if found != _NONE:
            return found
        if not self._said:
            self._said = True
            log.warning(
                "the brokers give topics no ids (Kafka before 2.8): if %s is deleted and created again while no worker "
                "runs, the next worker does not notice",
                self._topic,
            )
        return None
