"""A worker starts on a topic only if it can hold the largest message that the topic takes."""

import asyncio
import logging

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from glasstream.errors import TopicError
from glasstream.transport.connection import Connection
from glasstream.transport.decompression import LIMIT

log = logging.getLogger(__name__)

_SETTING = "max.message.bytes"


class SizeCheck:
    """Checks, when a stage starts, what users may send to its topic.

    Parameters
    ----------
    connection
        Where the brokers are.
    topic
        Its full name.
    timeout
        Seconds within which a broker must answer.
    """

    def __init__(self, connection: Connection, topic: str, timeout: float = 10.0) -> None:
        self._connection = connection
        self._topic = topic
        self._timeout = timeout

    async def start(self) -> None:
        """Check it.

        Raises
        ------
        TopicError
            The topic takes larger messages than a worker holds.
        """
        await asyncio.to_thread(self.check)

    async def stop(self) -> None:
        """Do nothing: nothing is held."""

    def check(self) -> None:
        """As `start`, blocking. Where the broker does not say how it keeps the topic, log that and go on.

        The embedded broker keeps no configuration of topics. It is known by the controller that it names, which is
        none of its brokers: whoever asks that one for configuration waits until the time is up.
        """
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        admin = AdminClient(self._connection.client())
        try:
            cluster = admin.list_topics(self._topic, timeout=self._timeout)
            if cluster.controller_id not in cluster.brokers:
                return
            (answer,) = admin.describe_configs([resource], request_timeout=self._timeout).values()
            found = answer.result()[_SETTING].value
        except (KafkaException, KeyError) as error:
            reason = (
                error.args[0].str() if isinstance(error, KafkaException) else f"the broker does not report {_SETTING}"
            )
            log.warning(
                "cannot read how large messages on %s may be (%s): keep its %s at or below %d, or grant "
                "describe-configs (`glasstream topics acls`)",
                self._topic, reason, _SETTING, LIMIT,
            )  # fmt: skip
            return
        if int(found) > LIMIT:
            raise TopicError(
                f"{self._topic} accepts messages of {found} bytes ({_SETTING}), but a worker handles at most {LIMIT}. "
                f"Lower it: kafka-configs.sh --bootstrap-server {self._connection.bootstrap} --alter --topic "
                f"{self._topic} --add-config {_SETTING}=1048588 (`glasstream topics show` prints the required values)"
            )
