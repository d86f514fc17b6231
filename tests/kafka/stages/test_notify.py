"""The notifier against a real HTTP server: nothing is lost, order is kept, and duplicates have the same ids."""

import asyncio
import hashlib
import hmac
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from faust.types import TP

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.configuration import load
from glasstream.base.errors import SettingsError
from glasstream.events.message import Message
from glasstream.flow.notify_settings import NotifySettings
from glasstream.kafka.health.catalogue import DAMAGED, INCIDENTS_SKIPPED, POSTS
from glasstream.kafka.health.steps import Steps
from glasstream.kafka.stages import build
from glasstream.kafka.stages.notify import Notifier
from glasstream.kafka.stages.webhook import Answer, Webhook
from glasstream.kafka.transport.reader import Batch
from glasstream.kafka.transport.redact import RedactingFormatter, secrets_of_webhook
from glasstream.kafka.transport.sequence import Sequence as Reading
from glasstream.kafka.transport.stateless import StatelessStage, WorkLane
from glasstream_topics import access, incidents
from tests.support.examples import some
from tests.support.incident_records import encoded, message
from tests.support.transport_harness import committed_offset, options, produce, running
from tests.support.waiting import until
from tests.support.webhook_server import Receiver, bodies

KEY = b"a key of sixteen bytes"
NOW = 1_700_000_000.0
TIMEOUT, STALLED = 30.0, 0.5
"""Seconds until a request has failed: so many that only a stalled one ever does, and few where the receiver stalls."""


class Time:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = NOW
        self.pauses: list[float] = []
        self.on_pause: Callable[[], Awaitable[None]] | None = None

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
        if self.on_pause is not None:
            await self.on_pause()


def notifier(
    receiver: Receiver, time: Time, settings: NotifySettings | None = None, keys: tuple[bytes, ...] = (), seed: int = 0
) -> tuple[Notifier, Webhook]:
    stalls = any(act in ("stall", "trickle") for act in receiver.acts)
    webhook = Webhook(receiver.url, STALLED if stalls else TIMEOUT, lambda: time.now)
    made = Notifier(
        settings or NotifySettings(), webhook, keys,
        clock=lambda: time.now, steady=lambda: time.now - NOW, sleep=time.sleep, chance=random.Random(seed),
    )  # fmt: skip
    return made, webhook


def deliver(
    receiver: Receiver,
    messages: Sequence[Message],
    settings: NotifySettings | None = None,
    keys: tuple[bytes, ...] = (),
    time: Time | None = None,
) -> tuple[Notifier, Time]:
    """Let a notifier handle messages one after the other."""
    time = time or Time()

    async def run() -> Notifier:
        async with receiver:
            made, webhook = notifier(receiver, time, settings, keys)
            await webhook.start()
            try:
                for one in messages:
                    assert await made.handle(one) == []
            finally:
                await webhook.stop()
        return made

    return asyncio.run(run()), time


def outcomes(made: Notifier) -> dict[str, float]:
    return {sample.labels[0]: sample.value for sample in made.samples() if sample.metric is POSTS}


def ids(count: int, topic: str = "incidents") -> list[str]:
    return [f"{topic}/0/orders/{number}/open/{1_000 * number}" for number in range(1, count + 1)]


def test_each_incident_is_posted_once_in_order_with_its_id_and_signature() -> None:
    receiver = Receiver()
    made, time = deliver(receiver, [message(offset) for offset in range(5)], keys=(KEY,))
    assert [request.id for request in receiver.requests] == bodies(receiver.requests) == ids(5)
    assert (outcomes(made), time.pauses) == ({"ok": 5, "refused": 0, "failed": 0}, [])
    for request in receiver.requests:
        assert request.headers["Content-Type"] == "application/json"
        signed = f"{NOW:.0f}.".encode() + request.body
        expected = hmac.new(KEY, signed, hashlib.sha256).hexdigest()
        assert request.headers["Glasstream-Signature"] == f"t={NOW:.0f},v1={expected}"


def test_without_a_key_there_is_no_signature() -> None:
    receiver = Receiver()
    deliver(receiver, [message(0)])
    assert "Glasstream-Signature" not in receiver.requests[0].headers


@pytest.mark.parametrize("act", [500, 503, 408, 425, 429, "stall", "cut"])
def test_what_may_heal_is_tried_again_without_limit_and_blocks_what_follows(act: int | str) -> None:
    attempts = 3 if act == "stall" else 40
    receiver = Receiver().then(*[act] * attempts)
    made, time = deliver(receiver, [message(0), message(1)], NotifySettings(attempts=2), (KEY,))
    assert [request.id for request in receiver.requests] == [ids(1)[0]] * (attempts + 1) + [ids(2)[1]]
    assert len({request.body for request in receiver.requests[:-1]}) == 1, "a retry changed the body"
    assert outcomes(made) == {"ok": 2, "refused": 0, "failed": attempts}
    assert (made.skipped, len(time.pauses)) == (0, attempts)
    stamps = [int(request.headers["Glasstream-Signature"].partition(",")[0][2:]) for request in receiver.requests]
    assert stamps == [int(NOW + sum(time.pauses[:place])) for place in (*range(attempts + 1), attempts)]


def test_pauses_are_drawn_below_a_doubling_bound() -> None:
    settings = NotifySettings(first_seconds=1.0, longest_seconds=60.0)
    drawn = deliver(Receiver().then(*[500] * 9), [message(0)], settings)[1].pauses
    bounds = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(0 <= pause <= bound for pause, bound in zip(drawn, bounds, strict=True))
    draw = random.Random(0)
    assert drawn == [draw.uniform(0, bound) for bound in bounds]


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ("120", 120.0),
        ("1e9", 300.0),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("nan", 0.0),
    ],
)
def test_a_server_may_ask_for_a_longer_pause_up_to_a_bound(asked: str, least: float) -> None:
    receiver = Receiver().then((429, {"Retry-After": asked}), (503, {"Retry-After": asked}))
    _, time = deliver(receiver, [message(0)])
    assert len(time.pauses) == 2
    for pause, own in zip(time.pauses, (1.0, 2.0), strict=True):
        # A date is as near as the pauses before it have brought it.
        assert least - sum(time.pauses[:1]) * ("GMT" in asked) <= pause <= max(least, own)


@pytest.mark.parametrize("act", [400, 401, 403, 404, 410, 413, (302, {"Location": "/elsewhere"}), (308, {}), "trickle"])
def test_what_is_refused_for_good_is_skipped_and_reported(act: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver().then(500, act, act, 500, act)
    with caplog.at_level(logging.INFO):
        made, time = deliver(receiver, [message(0), message(1)], NotifySettings(attempts=3))
    assert [request.id for request in receiver.requests] == [ids(1)[0]] * 5 + [ids(2)[1]]
    assert (made.skipped, len(time.pauses)) == (1, 4)
    assert {sample.metric: sample.value for sample in made.samples()}[INCIDENTS_SKIPPED] == 1
    assert outcomes(made) == {"ok": 1, "refused": 3, "failed": 2}
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    status = act[0] if isinstance(act, tuple) else 400 if act == "trickle" else act
    said = line.getMessage()
    assert f"incidents[0]@0: skipping incident {ids(1)[0]}" in said and f"at last with {status}" in said
    assert "the answer" not in said and "no no" not in said, "expected nothing of an answer, which may repeat the path"
    assert "GLASSTREAM_NOTIFY_URL" in said and "notify.form" in said and "\n" not in said and len(said) < 700


def test_a_receiver_that_restarts_loses_nothing() -> None:
    receiver, time = Receiver(), Time()
    downs = 0

    async def run() -> None:
        nonlocal downs
        await receiver.start()
        made, webhook = notifier(receiver, time)

        async def restart() -> None:
            nonlocal downs
            downs += 1
            if downs % 3 == 0:
                await receiver.start()

        time.on_pause = restart
        await webhook.start()
        for offset in range(6):
            await made.handle(message(offset))
            if offset % 2 == 0:
                await receiver.stop()
        assert outcomes(made) == {"ok": 6, "refused": 0, "failed": 9}
        await webhook.stop()

    asyncio.run(run())
    assert [request.id for request in receiver.requests] == ids(6)


def test_a_webhook_whose_certificate_is_not_trusted_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SSL_CERT_FILE` names authorities of one's own."""
    authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    receiver = Receiver(tls=tls)

    async def run() -> list[Answer]:
        answers = []
        async with receiver:
            for trusted in (False, True):
                if trusted:
                    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
                webhook = Webhook(receiver.url, 30.0)
                await webhook.start()
                answers.append(await webhook.post(b"{}", {"Idempotency-Key": "a"}))
                await webhook.stop()
        return answers

    refused, accepted = asyncio.run(run())
    assert (refused.outcome, accepted.outcome) == ("failed", "ok")
    assert refused.detail.startswith("ClientConnectorCertificateError") and "secret" not in refused.detail
    assert len(receiver.requests) == 1


def test_a_message_that_is_no_incident_is_skipped_and_counted() -> None:
    receiver = Receiver()
    broken = [Message("incidents", 0, offset, b"s", value) for offset, value in enumerate([None, b"{}", b"\xff"])]
    made, _ = deliver(receiver, [*broken, message(3)])
    assert [request.id for request in receiver.requests] == [ids(4)[3]]
    assert next(sample.value for sample in made.samples() if sample.metric is DAMAGED) == 3


def test_records_that_the_settings_do_not_choose_are_not_posted() -> None:
    receiver = Receiver()
    settings = NotifySettings(statuses="over", verdicts="concept_moved")
    messages = [message(0), message(1, status="over"), message(2, status="over", verdict="unclear")]
    deliver(receiver, messages, settings)
    assert [request.id for request in receiver.requests] == ["incidents/0/orders/2/over/2000"]


def test_readiness_says_for_how_long_the_webhook_has_not_accepted_an_incident() -> None:
    receiver, time = Receiver().then(*[500] * 8), Time()
    told: list[str | None] = []

    async def run() -> None:
        async with receiver:
            made, webhook = notifier(receiver, time)
            lane: Any = SimpleNamespace(waits=None)

            async def look() -> None:
                made.tell({0: lane})
                told.append(lane.waits)

            time.on_pause = look
            await webhook.start()
            await made.handle(message(0))
            await look()
            await webhook.stop()

    asyncio.run(run())
    waited = [sum(time.pauses[: place + 1]) for place in range(8)]
    assert [line is not None for line in told] == [*(seconds >= 10 for seconds in waited), False]
    assert waited[0] < 10 < waited[-1]
    assert f"http://127.0.0.1:{receiver.port} has not accepted an incident for {waited[-1]:.0f} s: 500" in str(told[-2])


@pytest.mark.parametrize("act", [500, 400, "stall", "cut"])
def test_neither_address_nor_key_is_logged(act: int | str, caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver().then(act, act)
    with caplog.at_level(logging.DEBUG):
        deliver(receiver, [message(0)], NotifySettings(attempts=2), (KEY,))
    assert caplog.records
    for secret in ("a-secret-path", "s3cr3t", KEY.decode()):
        assert secret not in caplog.text


def test_an_error_that_names_the_address_is_redacted() -> None:
    address = "https://user:pass-word@hooks.example.org/services/T0/B0?x=1"
    found = secrets_of_webhook(address, (KEY,))
    line = RedactingFormatter("%(message)s", "", found).format(
        logging.makeLogRecord({"msg": f"{address} {KEY!r} hooks.example.org"})
    )
    assert line == "https://***@hooks.example.org*** b'***' hooks.example.org"
    for harmless in (None, "https://hooks.example.org", "https://hooks.example.org/"):
        assert secrets_of_webhook(harmless, None) == []


@pytest.mark.parametrize(
    "address", ["hooks.example.org/secret", "ftp://h/secret", "http:///secret", "http://h:x/secret"]
)
def test_an_address_that_is_none_is_refused_without_being_shown(address: str) -> None:
    with pytest.raises(SettingsError, match="GLASSTREAM_NOTIFY_URL: expected an address") as refused:
        Webhook(address, 1.0)
    assert "secret" not in str(refused.value)


class Log:
    """A partition of `incidents`, what a group has committed of it, and notifiers that are killed."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.committed = 0

    async def work(self, made: Notifier, killed: asyncio.Event) -> None:
        """Run the lane of a worker from the committed offset on, until it is killed or all is done."""
        done = asyncio.Event()
        failures: list[Exception] = []

        def acknowledge(tp: TP, offset: int) -> None:
            self.committed = offset
            if self.committed == len(self.messages):
                done.set()

        stage: Any = SimpleNamespace(
            handle=made.handle, producer=None, in_flight=64, steps=Steps(), input_topic="incidents",
            fail=failures.append, options=options("test."),
            app=SimpleNamespace(consumer=SimpleNamespace(used=acknowledge)),
        )  # fmt: skip
        lane = WorkLane(stage, 0, 1)
        lane.sequence = Reading(self.committed)
        lane.offer(Batch(lane.tp, self.committed, 1, self.messages[self.committed :]))
        ends = [asyncio.ensure_future(killed.wait()), asyncio.ensure_future(done.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await lane.drop()
        assert not failures


@pytest.mark.parametrize("seed", some(range(4), range(20), pytest.mark.slow))
def test_killed_at_any_moment_no_incident_is_lost_and_repeats_have_the_same_ids(seed: int) -> None:
    """The worker is killed while a request is on its way, answered, or during a pause; the webhook misbehaves."""
    chance = random.Random(seed)
    log = Log([message(offset) for offset in range(12)])
    receiver, time = Receiver(), Time()
    acts: list[Any] = [200, 200, 500, 429, "cut", "cut late", (503, {"Retry-After": "9"})]
    drawn = [chance.choice(acts) for _ in range(60)]
    receiver.then(*drawn)
    kills = 0

    async def run() -> None:
        nonlocal kills
        async with receiver:
            while log.committed < len(log.messages):
                killed = asyncio.Event()

                def perhaps(killed: asyncio.Event = killed) -> None:
                    nonlocal kills
                    if kills < 8 and chance.random() < 0.3:
                        kills += not killed.is_set()
                        killed.set()

                async def at_pause(perhaps: Callable[[], None] = perhaps) -> None:
                    perhaps()
                    await asyncio.sleep(0)

                receiver.on_request, time.on_pause = perhaps, at_pause
                made, webhook = notifier(receiver, time, seed=seed)
                await webhook.start()
                await log.work(made, killed)
                await webhook.stop()

    asyncio.run(run())
    assert kills > 0
    assert receiver.accepted == ids(12), "incidents were lost, or their first deliveries were out of order"
    posted = [request.id for request in receiver.requests]
    assert posted == bodies(receiver.requests)
    assert sum(one != other for one, other in pairwise(posted)) == 11, "only the incident under way is posted again"
    twice = sum(request.accepted for request in receiver.requests) - 12
    assert twice <= kills + drawn.count("cut late"), "an acknowledged incident was posted again"


@pytest.mark.slow
def test_a_new_group_begins_at_the_end_and_what_comes_while_it_is_away_is_posted(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker ends before it has delivered anything; its successor may not skip to the end again."""
    topic = f"{prefix}{incidents.TOPIC.name}"
    embedded.create_topic(topic, 1)
    settings = [
        f"prefix={prefix}", f"broker={embedded.bootstrap}", "worker.check_crcs=false", "worker.fetch_wait_ms=10",
        "worker.session_seconds=6", "worker.heartbeat_seconds=1", "worker.instance=a",
    ]  # fmt: skip
    produce(embedded.bootstrap, topic, [encoded(number) for number in (1, 2)])

    async def worker(receiver: Receiver, condition: Callable[[], bool], *more: str) -> None:
        monkeypatch.setenv("GLASSTREAM_NOTIFY_URL", receiver.url)
        stage = build._notify(load(assignments=[*settings, *more]), None)
        async with running(stage):
            await until(lambda: stage.settled and stage.lanes[0].sequence is not None)
            if not receiver.requests:
                await asyncio.to_thread(produce, embedded.bootstrap, topic, [encoded(number) for number in (3, 4)])
            await until(condition)
        assert stage.failure is None

    async def run() -> None:
        async with Receiver() as receiver:
            receiver.then(*[500] * 10_000)
            await worker(receiver, lambda: bool(receiver.requests), "notify.first_seconds=0.01")
            assert set(bodies(receiver.requests)) == {ids(3, topic)[2]}
            assert await asyncio.to_thread(committed_offset, embedded.bootstrap, f"{prefix}notify", topic) == 2
            receiver.acts.clear()
            await worker(receiver, lambda: len(receiver.accepted) == 2)
            assert receiver.accepted == ids(4, topic)[2:]
            assert await asyncio.to_thread(committed_offset, embedded.bootstrap, f"{prefix}notify", topic) == 4

    asyncio.run(run())


def test_a_notifier_needs_an_address_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSTREAM_NOTIFY_URL", raising=False)
    with pytest.raises(SettingsError, match="GLASSTREAM_NOTIFY_URL is not set"):
        build._notify(load(), None)
    monkeypatch.setenv("GLASSTREAM_NOTIFY_URL", "https://hooks.example.org/a")
    stage = build._notify(load(assignments=["notify.start=earliest"]), None)
    assert isinstance(stage, StatelessStage)
    assert (stage.producer, stage.start_at, stage.replaceable_input) == (None, "earliest", False)
    assert stage.input_topic == "glasstream.incidents"


def test_its_role_may_read_incidents_and_use_its_group_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ALL", tuple({*access.ALL, incidents.TOPIC}))
    granted = {(grant.kind, grant.name, grant.operations) for grant in access.grants("p.") if grant.role == "notify"}
    assert granted == {
        ("topic", "p.incidents", ("read",)),
        ("group", "p.notify", ("read",)),
        ("group", access.READERS, ("describe",)),
    }


def test_no_login_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def run() -> dict[str, str]:
        async with Receiver() as receiver:
            webhook = Webhook(receiver.url, TIMEOUT)
            await webhook.start()
            assert (await webhook.post(b"{}", {"Idempotency-Key": "a"})).outcome == "ok"
            await webhook.stop()
            return receiver.requests[0].headers

    assert "Authorization" not in asyncio.run(run())


@pytest.mark.parametrize(("address", "warns"), [("http://hooks.example.org/s3cr3t", True), ("https://a.b/", False)])
def test_a_webhook_without_encryption_is_warned_of(address: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        webhook = Webhook(address, TIMEOUT)
        await webhook.start()
        await webhook.stop()

    asyncio.run(run())
    assert ("http://hooks.example.org has no encryption" in caplog.text) is warns
    assert "s3cr3t" not in caplog.text
