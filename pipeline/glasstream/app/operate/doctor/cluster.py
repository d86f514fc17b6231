"""Checks of the brokers: whether they answer, their version, and their clock."""

import logging
import socket
import ssl
import time
import uuid
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from glasstream.app.brokers.choose import addresses
from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.base.errors import BrokerError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection, drain
from glasstream.kafka.transport.transactions import TRANSACTION_TIMEOUT
from glasstream_topics.contract import SAFE_COPIES, least_in_sync

ANSWER_SECONDS = 10.0
_TRY_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_TRIES_AFTER_AN_ERROR = 3
"""Number of attempts after an error: an election, or one bad address of several, may fail once."""
_SKEW_WARN, _SKEW_FAIL = 5.0, 3_600.0
"""Seconds. Beyond the second value Kafka refuses records (log.message.timestamp.after.max.ms, an hour by default)."""

_ON_A_CLUSTER = {
    "default.replication.factor": (SAFE_COPIES, "when one broker fails, new topics stop or lose records"),
    "offsets.topic.replication.factor": (
        SAFE_COPIES,
        "when one broker fails, consumer groups stop or lose their offsets",
    ),
    "transaction.state.log.replication.factor": (SAFE_COPIES, "when one broker fails, the stages stop"),
    "transaction.state.log.min.isr": (
        least_in_sync(SAFE_COPIES),
        "the failure of one broker can lose the outcome of a transaction",
    ),
}
"""Smallest settings for a cluster of three or more brokers, and the consequence of smaller ones."""

_CAUSES = {
    KafkaError._RESOLVE: "the host name cannot be resolved; correct the address",
    KafkaError._AUTHENTICATION: "the broker refused the user, password or mechanism; correct kafka.sasl.*",
    KafkaError._SSL: "TLS failed; check kafka.ssl.ca.location, and that the listener uses TLS",
    KafkaError._TRANSPORT: "check that the broker runs, that it advertises this address, and kafka.security.protocol",
}
"""Remedies by the error with which a client explains that it is not connected."""


def answers(context: DoctorContext) -> list[Finding]:
    """Check whether a broker answers, and if none does, why."""
    check, settings = "broker", context.settings
    seen: list[KafkaError] = []
    silent = logging.Logger("glasstream.app.operate.doctor", level=logging.CRITICAL + 1)
    try:
        admin = AdminClient({**connection(settings).client(), "error_cb": seen.append}, logger=silent)
    except KafkaException as error:
        do = f"correct them: {', '.join(f'kafka.{name}' for name in sorted(settings.kafka))}"
        return [fail(check, f"the client's settings cannot be used: {error.args[0].str()}", do)]
    until, failures = time.monotonic() + ANSWER_SECONDS, 0
    while time.monotonic() < until and failures < _TRIES_AFTER_AN_ERROR:
        with suppress(KafkaException):
            if brokers := admin.list_topics(timeout=_TRY_SECONDS).brokers:
                return [ok(check, f"{len(brokers)} at {settings.broker}")]
        admin.poll(0)
        failures += any(error.code() in (*_CAUSES, KafkaError._ALL_BROKERS_DOWN) for error in seen)
    return [_silence(check, settings, seen)]


def _silence(check: str, settings: Settings, seen: list[KafkaError]) -> Finding:
    silence = f"no answer from {settings.broker}"
    for code, do in _CAUSES.items():
        for error in seen:
            if error.code() == code:
                return fail(check, f"{silence}: {error.str()}", do)
    # A broker that is addressed in the wrong protocol hangs up, and the client reports nothing.
    protocol = settings.kafka.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "SASL_SSL" and any(_speaks_tls(*address) for address in addresses(settings.broker)):
        if protocol == "SSL":
            do = "set kafka.security.protocol=SASL_SSL and kafka.sasl.* if the broker requires a user"
            return fail(check, f"{silence}: it speaks TLS and then hangs up", do)
        do = "set kafka.security.protocol=SASL_SSL, or SSL if the broker requires no user"
        return fail(check, f"{silence}: it speaks TLS, and this client does not ({protocol})", do)
    return fail(check, silence, _CAUSES[KafkaError._TRANSPORT])


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether a listener speaks TLS. Do not verify its certificate, and send nothing to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host.strip("[]"), port), _HANDSHAKE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")),
        ):
            return True
    except OSError:
        return False


def kind(context: DoctorContext) -> list[Finding]:
    """Check the version of Kafka, and whether it allows transactions as long as the stages need."""
    admin = AdminClient(connection(context.settings).client())
    try:
        nodes = admin.describe_cluster(request_timeout=ANSWER_SECONDS).result().nodes
        (future,) = admin.describe_configs(
            [ConfigResource(ResourceType.BROKER, str(nodes[0].id))], request_timeout=ANSWER_SECONDS
        ).values()
        config = {name: entry.value for name, entry in future.result().items() if entry.value is not None}
    except KafkaException as error:
        do = "allow DescribeConfigs on the cluster to have them checked"
        return [warn("kafka", f"the broker's settings cannot be read: {error.args[0].str()}", do)]
    found: list[Finding] = []
    longest = float(config.get("transaction.max.timeout.ms", "inf")) / 1000
    if longest < TRANSACTION_TIMEOUT:
        do = f"set transaction.max.timeout.ms to at least {TRANSACTION_TIMEOUT * 1000:.0f}"
        found.append(
            fail("kafka", f"transactions may last {longest:g} s, but the stages need {TRANSACTION_TIMEOUT:g} s", do)
        )
    least = int(config.get("transaction.state.log.min.isr", "1"))
    if least > len(nodes):
        do = "start the other brokers, or lower transaction.state.log.min.isr"
        found.append(fail("kafka", f"transactions need {least} brokers, but only {len(nodes)} answer", do))
    if len(nodes) >= SAFE_COPIES:
        for name, (wanted, otherwise) in _ON_A_CLUSTER.items():
            if int(config.get(name, wanted)) < wanted:
                what = f"{name} is {config[name]} on {len(nodes)} brokers: {otherwise}"
                found.append(warn("kafka", what, f"set it to at least {wanted} on every broker"))
    if config.get("unclean.leader.election.enable", "false") != "false":
        what = "unclean.leader.election.enable is true: a broker that lags may lead and lose committed records"
        found.append(warn("kafka", what, "set it to false on every broker"))
    return found or [ok("kafka", f"{_version(config)}, {len(nodes)} brokers")]


def _version(config: dict[str, str]) -> str:
    """Estimate the version from the broker's settings, because the protocol does not state it."""
    if protocol := config.get("inter.broker.protocol.version"):
        return f"Kafka {protocol}"
    return "Kafka 4 or later" if "share.coordinator.state.topic.replication.factor" in config else "a Kafka"


def clock(context: DoctorContext) -> list[Finding]:
    """Compare the broker's clock with this machine's, using a record that the broker stamps on a temporary topic."""
    check = "clock"
    if not context.probe:
        return []
    settings = context.settings
    name = f"{settings.prefix}doctor-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection(settings).client())
    config = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    asked = admin.create_topics([NewTopic(name, 1, -1, config=config)], request_timeout=ANSWER_SECONDS)
    try:
        asked[name].result()
    except KafkaException as error:
        do = "allow this client to create topics with the prefix, or skip this check with --no-probe"
        return [warn(check, f"not compared, because no topic can be created for it: {error.args[0].str()}", do)]
    try:
        skew = _skew(context, name)
    except BrokerError as error:
        return [warn(check, f"not compared: {error}", "try again; if it persists, read the broker's log")]
    finally:
        with suppress(KafkaException):
            admin.delete_topics([name], request_timeout=ANSWER_SECONDS)[name].result()
    what = f"the broker's clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    do = "synchronize both by NTP, because retention and the times of dead letters depend on them"
    if abs(skew) >= _SKEW_FAIL:
        return [fail(check, f"{what}; Kafka refuses records that are an hour ahead", do)]
    return [warn(check, what, do) if abs(skew) > _SKEW_WARN else ok(check, what)]


def _skew(context: DoctorContext, name: str) -> float:
    """Return by how many seconds the broker's clock is ahead."""
    producer = Producer(connection(context.settings).producer(delivery_timeout_ms=int(ANSWER_SECONDS * 1000)))
    reports: list[tuple[KafkaError | None, Any, float]] = []
    skew: float | None = None
    for _ in range(2):  # the first record also finds the topic's leader
        reports.clear()
        before = context.now()
        producer.produce(name, b"", on_delivery=lambda error, message: reports.append((error, message, context.now())))
        drain(producer, ANSWER_SECONDS)
        if not reports or reports[0][0] is not None:
            raise BrokerError(f"a record was not accepted: {reports[0][0] if reports else 'no answer'}")
        _, message, after = reports[0]
        skew = message.timestamp()[1] / 1000 - (before + after) / 2
    return skew or 0.0
