"""Check that a worker can hold the largest message that its topic accepts."""

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
    """Check of a topic's largest message size when a stage starts.

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
                "cannot read %s of %s (%s): grant DescribeConfigs (`glasstream topics acls` prints the command); until "
                "then, make sure that it is at most %d",
                _SETTING, self._topic, reason, LIMIT,
            )  # fmt: skip
            return
        if int(found) > LIMIT:
            raise TopicError(
                f"{self._topic} accepts messages of {found} bytes ({_SETTING}), but a worker handles at most {LIMIT}. "
                f"Lower it: kafka-configs.sh --bootstrap-server {self._connection.bootstrap} --alter --topic "
                f"{self._topic} --add-config {_SETTING}=1048588 (`glasstream topics show` prints the required values)"
            )
