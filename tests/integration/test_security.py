"""A real Kafka that lets in by SASL over TLS and asks an authorizer: each stage with the least rights, nobody else."""

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from glasstream.app.brokers.local import Kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.app.command.make_source import Asked, make_source
from glasstream.app.command.tail import follow
from glasstream.app.configuration import load
from glasstream.app.operate.doctor import examine
from glasstream.app.operate.doctor.finding import DoctorContext, Finding, Level
from glasstream.app.operate.topics import apply_acls, verify
from glasstream.app.page.reading import Topics
from glasstream.app.runner.replay import produce
from glasstream.base.errors import BrokerError, TopicError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import events
from glasstream_topics.access import ROLES
from glasstream_topics.admin import HIDDEN
from glasstream_topics.consume import importance
from tests.support.deployment import HMAC_KEY, SETTINGS, Deployment
from tests.support.logs import messages
from tests.support.schema_registry import registry
from tests.support.waiting import wait_for

PASSWORDS = {role: secrets.token_hex(16) for role in (*ROLES, "nobody")}
GUESS = secrets.token_hex(16)


@dataclass(frozen=True)
class Secured:
    """The broker, and how it is entered by the listener that asks who one is."""

    open_address: str
    address: str
    ca: Path

    def client(self, role: str) -> dict[str, str]:
        """A client of librdkafka for one who has a role."""
        return {"bootstrap.servers": self.address, "log_level": "2", **self.credentials(role)}

    def credentials(self, role: str) -> dict[str, str]:
        """How one who has a role is let in."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": f"glasstream-{role}",
            "sasl.password": PASSWORDS[role],
            "ssl.ca.location": str(self.ca),
        }

    def settings(self, role: str, prefix: str, **others: str) -> Settings:
        """The settings of one who has a role, with some settings of the client replaced."""
        given = [f"broker={self.address}", f"prefix={prefix}", *SETTINGS]
        kafka = {**self.credentials(role), **others}
        return load(assignments=[*given, *(f"kafka.{name}={text}" for name, text in kafka.items())])

    def variables(self, role: str) -> dict[str, str]:
        """The same as the environment of a worker."""
        said = {
            f"GLASSTREAM_KAFKA_{name.upper().replace('.', '_')}": text for name, text in self.credentials(role).items()
        }
        return {"GLASSTREAM_BROKER": self.address, "GLASSTREAM_WORKER_DEBUG": "true", **said}


@pytest.fixture
def secured(local_broker: Callable[..., Kafka], tmp_path: Path) -> Secured:
    authority = trustme.CA()
    ca, server = tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(ca))
    certificate = authority.issue_cert("127.0.0.1")
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    server.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)
    port, _ = free_ports()
    users = " ".join(f'user_glasstream-{role}="{password}"' for role, password in PASSWORDS.items())
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker = local_broker(
        settings={
            "listeners": f"SECURE://127.0.0.1:{port}",
            "advertised.listeners": f"SECURE://127.0.0.1:{port}",
            "listener.security.protocol.map": "SECURE:SASL_SSL",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": f"{plain} required {users};",
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(server),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    return Secured(broker.bootstrap, f"127.0.0.1:{port}", ca)


@pytest.fixture
def deployment(secured: Secured, prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with registry() as schemas:
        given = [f"broker={secured.open_address}", f"prefix={prefix}", "worker.session_seconds=6", *SETTINGS]
        made = Deployment(load(assignments=[*given, f"avro.registry={schemas.address}"]), tmp_path)
        list(apply_acls(made.settings, {}))
        yield made
        made.close()


def refusal(client: dict[str, str], topic: str) -> str:
    """Return the broker's answer to a client that writes to a topic."""
    told: list[str] = []
    producer = Producer(client)
    producer.produce(topic, b"{}", b"s", on_delivery=lambda error, message: told.append(str(error)))
    producer.flush(30.0)
    return " ".join(told)


def doctor(secured: Secured, prefix: str, role: str, probe: bool = False, **others: str) -> Iterator[Finding]:
    """Return the doctor's findings for a client with a role, with some settings of the client replaced."""
    settings = secured.settings(role, prefix, **others)
    return examine(DoctorContext(settings, {"GLASSTREAM_HMAC_KEY": HMAC_KEY}, time.time, probe))


@pytest.mark.kafka
def test_each_stage_does_its_work_with_its_own_rights_and_nobody_elses(
    secured: Secured, deployment: Deployment, tmp_path: Path
) -> None:
    """Only a broker asks who one is and what one may do."""
    prefix = deployment.settings.prefix
    topic = f"{prefix}events"
    for stage in ("aggregator", "learner", "explainer", "novelty", "avro"):
        deployment.start(stage, **secured.variables(stage))
    events_of = Producer(secured.client("producer"))
    for value in (*messages(0, 400), events.FLUSH):
        events_of.produce(topic, value, b"s")
    assert events_of.flush(30.0) == 0
    deployment.wait_published("s", 399)

    with importance(secured.address, prefix=prefix, kafka=secured.credentials("consumer"), timeout=60.0) as records:
        assert next(iter(records)).coverage == 1.0
    copies = Consumer({**secured.client("consumer"), "group.id": f"{prefix}copies", "auto.offset.reset": "earliest"})
    copies.subscribe([f"{prefix}importance.avro"])
    wait_for("a copy", lambda: (one := copies.poll(0.5)) is not None and one.error() is None and one.value()[0] == 0)
    copies.close()

    # Nobody does another one's work.
    for stage, role in (
        ("learner", "explainer"),
        ("explainer", "aggregator"),
        ("aggregator", "nobody"),
        ("novelty", "consumer"),
        ("avro", "learner"),
    ):
        name = f"{stage}-with-the-rights-of-{role}"
        deployment.start(stage, name, **secured.variables(role))
        assert deployment.exit_code(name) == ExitCode.BROKER, deployment.log(name)
        assert "this client is not authorized to see" in deployment.log(name)
    assert "authorization failed" in refusal(secured.client("consumer"), topic)

    # The operator's doctor finds all well, and of others what keeps them out.
    well = list(doctor(secured, prefix, "operator", probe=True))
    assert not [one for one in well if one.level is Level.FAIL], well
    assert {one.check for one in well if one.level is Level.WARN} <= {"hmac key"}, well
    assert {"broker", "clock", "topics", "retention", "lag", "state", "learner workers"} <= {
        one.check for one in well if one.level is Level.OK
    }
    trustme.CA().cert_pem.write_to_path(str(other := tmp_path / "other.pem"))
    cases: list[tuple[str, dict[str, str], str, str]] = [
        ("operator", {"ssl.ca.location": str(other)}, "certificate verify failed", "ssl.ca.location"),
        ("operator", {"sasl.password": GUESS}, "Invalid username or password", "correct kafka.sasl.*"),
        (
            "operator",
            {"sasl.mechanism": "SCRAM-SHA-256"},
            "Unsupported SASL mechanism",
            "refused the user, password or mechanism",
        ),
        ("operator", {"security.protocol": "SASL_PLAINTEXT"}, "it speaks TLS, and this client does not", "SASL_SSL"),
        ("operator", {"security.protocol": "SSL"}, "it speaks TLS and then hangs up", "SASL_SSL"),
        ("nobody", {}, f"this client is not authorized to see {prefix}", "glasstream topics acls"),
        ("consumer", {}, "Topic authorization failed", "allow this client Describe and DescribeConfigs"),
    ]
    # Without rights, no tool says that a topic is missing.
    hidden = secured.settings("nobody", prefix)
    assert {one.partition("found ")[2] for one in verify(hidden)} == {HIDDEN}
    with pytest.raises(TopicError, match="not authorized to see"):
        next(follow(hidden, "drift", from_start=True, most=1))
    with pytest.raises(TopicError, match="not authorized to see"):
        Topics(connection(hidden), [prefix], 1)
    with pytest.raises(BrokerError, match=r"the broker refused a message: .*uthorization failed"):
        source = make_source(None, None, "s", 2_000, 1, Asked())
        source.look(None)
        produce(secured.settings("consumer", prefix), source, 1)

    doctors = [doctor(secured, prefix, who, **changed) for who, changed, *_ in cases]
    packages = [next(one) for one in doctors]  # they are parsed, which Python 3.11 cannot do in two threads at once
    with ThreadPoolExecutor() as pool:  # each waits for some seconds
        told = [[first, *rest] for first, rest in zip(packages, pool.map(list, doctors), strict=True)]
    for (_, given, what, do), found in zip(cases, told, strict=True):
        failed = [one for one in found if one.level is Level.FAIL and one.check != "transport"]
        assert len(failed) == 1 and what in failed[0].what and do in failed[0].do, (given, found)
    for secret in (*PASSWORDS.values(), HMAC_KEY, GUESS):
        assert secret not in str([well, *told])

    # Nobody comes in with a guess.
    deployment.start(
        "aggregator", "guesser", **{**secured.variables("aggregator"), "GLASSTREAM_KAFKA_SASL_PASSWORD": GUESS}
    )
    assert deployment.exit_code("guesser") == ExitCode.BROKER
    assert "rejects this client" in deployment.log("guesser")

    for name in list(deployment.workers):
        assert deployment.stop(name) == ExitCode.OK
    logs = "".join(path.read_text() for path in deployment.folder.glob("*.log"))
    assert "SaslAuthenticate" in logs or "SASL" in logs, "the logs are those of debugging"
    for secret in (*PASSWORDS.values(), HMAC_KEY, GUESS):
        assert secret not in logs
