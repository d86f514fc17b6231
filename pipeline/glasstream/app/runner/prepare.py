"""What the stages of a run are started with: topics, settings and environment."""

import os
import secrets
from pathlib import Path

import msgspec
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.choose import Broker, TopicRequest
from glasstream.app.configuration import SECRET_SETTINGS, to_environment
from glasstream.flow.settings import Checkpoint, Settings
from glasstream.kafka.secret import FILE, hmac_key
from glasstream_topics import admin

_NO_ANCHOR = 10**15
"""Number of events beyond that of any run."""


def create_topics(broker: Broker, settings: Settings) -> None:
    """Create the missing topics of the prefix.

    Raises
    ------
    TopicError, BrokerError
        The broker refuses, or an existing topic does not fit its contract.
    """
    if broker.kind == "embedded":
        descriptions = admin.show(settings.partitions, settings.prefix)
        broker.create_topics(TopicRequest(one.name, one.partitions, one.config) for one in descriptions)
        return
    client = AdminClient({**settings.kafka, "bootstrap.servers": broker.bootstrap})
    replication = settings.topics.replication if broker.kind == "given" else 1
    admin.create(client, settings.partitions, settings.prefix, settings.topic_overrides, replication=replication)


def for_embedded(settings: Settings) -> Settings:
    """Return settings that librdkafka's mock cluster can hold: 5 MiB per partition, far below 1 MB per message.

    The learner then waits for the aggregator about every 1,000 rows, each time for three commits: they come sooner.
    """
    mib = 1024 * 1024
    return msgspec.structs.replace(
        without_checkpoints(settings),
        limits=msgspec.structs.replace(
            settings.limits,
            rows_ahead=min(settings.limits.rows_ahead, 5_000),
            request_bytes=min(settings.limits.request_bytes, 3 * mib),
            snapshot_bytes=min(settings.limits.snapshot_bytes, mib),
            snapshot_largest=min(settings.limits.snapshot_largest, 3 * mib),
        ),
        block=msgspec.structs.replace(settings.block, bytes=min(settings.block.bytes, mib // 4)),
        transaction=msgspec.structs.replace(settings.transaction, seconds=min(settings.transaction.seconds, 0.05)),
        worker=msgspec.structs.replace(
            settings.worker, session_seconds=6.0, heartbeat_seconds=1.0, fetch_wait_ms=10, check_crcs=False
        ),
    )


def without_checkpoints(settings: Settings) -> Settings:
    """Return settings for stages whose state no later run will continue."""
    return msgspec.structs.replace(
        settings,
        checkpoint=Checkpoint(seconds=0.0),
        novelty=msgspec.structs.replace(settings.novelty, anchor=_NO_ANCHOR),
    )


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of the stages: the settings, a new HMAC key if none is set, and one numba thread each."""
    variables = {**os.environ, **to_environment(settings)}
    for name in SECRET_SETTINGS:  # they have been read already
        variables.pop(name + FILE, None)
    if hmac_key(os.environ) is None:
        variables["GLASSTREAM_HMAC_KEY"] = secrets.token_hex(32)
    variables.setdefault("NUMBA_NUM_THREADS", "1")
    variables["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    return variables
