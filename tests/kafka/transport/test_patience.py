"""Brokers that are away are waited for; what they do not heal ends the worker."""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from glasstream.base.errors import BrokerError, FencedError, UnavailableError
from glasstream.kafka.transport import stateful, transactions
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.stateful import StatefulStage, StateLane, digests
from glasstream.kafka.transport.transactions import TRANSACTION_TIMEOUT, ReplacedError, TransactionalProducer

RECORD = ProducerRecord("out", b"k", b"v", 0)


def raised(
    code: int, text: str = "said so", *, retriable: bool = False, abort: bool = False, fatal: bool = False
) -> KafkaException:
    return KafkaException(KafkaError(code, text, fatal, retriable, abort))


class FakeProducer:
    """Plays a script of what commits meet, and keeps what is committed."""

    owner: TransactionalProducer

    def __init__(self, *script: Any, there: bool = True) -> None:
        self.script = list(script)
        self.there = there
        self.open: list[bytes] = []
        self.log: list[bytes] = []
        self.aborted = 0
        #: Whether an abort does not end, and whether a broker answers.
        self.hangs: Callable[[], bool] = lambda: False
        self.answers: Callable[[], bool] = lambda: True

    opened = 0

    def init_transactions(self, timeout: float) -> None:
        """Refuse a second call, as librdkafka does."""
        self.opened += 1
        if self.opened > 1:
            raise raised(KafkaError._STATE)

    def begin_transaction(self) -> None:
        assert not self.open

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        self.open.append(value)

    def commit_transaction(self, timeout: float) -> None:
        met = self.script.pop(0) if self.script else None
        if isinstance(met, tuple):
            undelivered, met = met
            self.owner._note_failure(undelivered, None)
        if met is not None:
            raise met
        self.log += self.open
        self.open = []

    def abort_transaction(self, timeout: float) -> None:
        self.aborted += 1
        if self.hangs():
            raise raised(KafkaError._TIMED_OUT, retriable=True)
        self.open = []

    def list_topics(self, topic: str, timeout: float) -> Any:
        if not self.answers():
            raise raised(KafkaError._TRANSPORT)
        error = None if self.there else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error)})

    def purge(self) -> None: ...

    def poll(self, timeout: float) -> None: ...


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Every rest takes 20 s of it."""
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock, sleep=clock.advance, strftime=lambda form: "12:00:00")
    monkeypatch.setattr(transactions, "time", fake)
    return clock


class TimedPatience(Patience):
    """Rests on the clock of the test, and gives up when told to."""

    def __init__(self, clock: Clock, rests: Callable[[int], None] = lambda number: None) -> None:
        super().__init__("cannot write", clock=clock)
        self.clock, self.rested, self.on_rest = clock, 0, rests
        self.reasons: list[str | None] = []
        self._over = SimpleNamespace(wait=self._rest, set=threading.Event().set, is_set=lambda: self.over)  # type: ignore[assignment]
        self.over = False

    def _rest(self, seconds: float) -> None:
        self.clock.advance(20.0)
        self.rested += 1
        self.reasons.append(self.reason)
        self.on_rest(self.rested)


def producer(fake: FakeProducer, patience: Patience | None) -> TransactionalProducer:
    made = TransactionalProducer(Connection("127.0.0.1:1"), "id", patience=patience)
    made._producer, fake.owner = fake, made  # type: ignore[assignment]
    return made


def undelivered(code: int) -> tuple[KafkaError, KafkaException]:
    """Return librdkafka's errors for undelivered records: the cause for each record, and the failure of the commit."""
    return KafkaError(code, "said so"), raised(KafkaError._FAIL, abort=True)


LASTING = [
    undelivered(KafkaError._MSG_TIMED_OUT),
    raised(KafkaError._TIMED_OUT, "said so, retry call to resume", retriable=True),
    raised(KafkaError._MSG_TIMED_OUT, abort=True),
    raised(KafkaError.NOT_ENOUGH_REPLICAS, abort=True),
    raised(KafkaError.COORDINATOR_NOT_AVAILABLE, retriable=True),
    raised(KafkaError._TRANSPORT, retriable=True),
]


def test_a_transaction_is_written_once_however_long_the_brokers_are_away(clock: Clock) -> None:
    fake, patience = FakeProducer(*LASTING * 3), TimedPatience(clock)
    producer(fake, patience).commit([RECORD])
    assert fake.log == [b"v"]
    assert clock.now == 20.0 * len(LASTING) * 3
    assert all((said or "").startswith("cannot write to out: said so; since ") for said in patience.reasons)
    assert "(360 s)" in (patience.reasons[-1] or "")
    assert patience.reason is None, "it is over"


def test_a_producer_that_is_open_may_be_opened_again_by_a_take_over_that_tries_again() -> None:
    fake = FakeProducer()
    made = producer(fake, Patience("cannot take over"))
    made.open(1.0)
    made.open(1.0)
    made.commit([RECORD])
    assert fake.log == [b"v"] and fake.opened == 1


@pytest.mark.parametrize("away", [0.0, 600.0])
def test_an_abort_that_never_ends_replaces_the_producer_once_brokers_answer(clock: Clock, away: float) -> None:
    fake = FakeProducer(raised(KafkaError.NOT_ENOUGH_REPLICAS, abort=True))
    fake.hangs, fake.answers = lambda: True, lambda: clock.now >= away
    with pytest.raises(ReplacedError, match="does not end, although brokers answer"):
        producer(fake, TimedPatience(clock)).commit([RECORD])
    assert away + TRANSACTION_TIMEOUT <= clock.now <= away + TRANSACTION_TIMEOUT + 40.0


def test_an_abort_may_last_as_long_as_brokers_are_away(clock: Clock) -> None:
    fake = FakeProducer(raised(KafkaError.NOT_ENOUGH_REPLICAS, abort=True))
    fake.hangs, fake.answers = lambda: clock.now < 3_600.0, lambda: clock.now % 50 == 0.0
    producer(fake, TimedPatience(clock)).commit([RECORD])
    assert fake.log == [b"v"]


def test_without_patience_the_deadline_ends_it(clock: Clock) -> None:
    fake = FakeProducer(*LASTING * 3)
    with pytest.raises(BrokerError):
        producer(fake, None).commit([RECORD] * 2)
    assert fake.log == []


def test_who_gives_up_is_told_so(clock: Clock) -> None:
    patience = TimedPatience(clock, lambda number: setattr(patience, "over", number == 4))
    fake = FakeProducer(*LASTING * 3)
    with pytest.raises(UnavailableError, match="given up"):
        producer(fake, patience).commit([RECORD])
    assert fake.log == [] and patience.rested == 4


@pytest.mark.parametrize("code", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_what_does_not_heal_ends_it(clock: Clock, code: int) -> None:
    fake = FakeProducer(*[undelivered(code)] * 9)
    with pytest.raises(BrokerError, match="attempt 3 of 3: said so"):
        producer(fake, TimedPatience(clock)).commit([RECORD])


class ClosedHalfway(FakeProducer):
    """Learns that a record was not delivered while it takes the next ones, and then takes none, as librdkafka does."""

    def __init__(self, code: int, times: int) -> None:
        super().__init__()
        self.code, self.times = code, times

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self.times and self.open:
            self.times -= 1
            self.owner._note_failure(KafkaError(self.code, "said so"), None)
            raise raised(KafkaError._STATE)
        super().produce(topic, value, key, partition)


def test_a_client_that_takes_no_further_record_writes_the_transaction_again(clock: Clock) -> None:
    for code, times in ((KafkaError._MSG_TIMED_OUT, 9), (KafkaError.MSG_SIZE_TOO_LARGE, 2)):
        fake = ClosedHalfway(code, times)
        producer(fake, TimedPatience(clock)).commit([RECORD] * 3)
        assert fake.log == [b"v"] * 3 and fake.aborted == times
    with pytest.raises(BrokerError, match="attempt 3 of 3: said so"):
        producer(ClosedHalfway(KafkaError.MSG_SIZE_TOO_LARGE, 3), TimedPatience(clock)).commit([RECORD] * 3)


def test_a_topic_that_is_missing_is_not_waited_for(clock: Clock) -> None:
    fake = FakeProducer(*LASTING * 3, there=False)
    with pytest.raises(BrokerError, match="topics verify"):
        producer(fake, TimedPatience(clock)).commit([RECORD])


@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize(("rests", "kind"), [(2, FencedError), (3, ReplacedError)])
def test_only_a_fence_within_the_time_of_a_transaction_is_surely_another_workers(
    clock: Clock, code: int, rests: int, kind: type[Exception]
) -> None:
    """The broker ends a transaction after 60 s, and refuses its producer with the same words."""
    fake = FakeProducer(*[raised(KafkaError._TIMED_OUT, retriable=True)] * rests, raised(code, fatal=True))
    with pytest.raises(kind):
        producer(fake, TimedPatience(clock)).commit([RECORD])
    assert fake.log == []


STATE = {b"": b"1", b"s": b"x"}
PROGRESS = [ProducerRecord("state", b"", b"2", 0), ProducerRecord("state", b"s", None, 0)]
AFTER = {b"": b"2"}


@pytest.mark.parametrize(
    ("found", "written_again"), [(STATE, 1), (AFTER, 0), ({b"": b"1"}, None), ({**STATE, b"t": b"y"}, None)]
)
def test_a_replaced_producer_is_opened_again_and_nothing_is_written_twice(
    monkeypatch: pytest.MonkeyPatch, found: dict[bytes, bytes], written_again: int | None
) -> None:
    """The state shows whether the transaction was committed, and whether another worker has written."""
    commits: list[list[ProducerRecord]] = []

    class Fresh:
        def open(self, timeout: float) -> None: ...

        def close(self) -> None: ...

        def commit(self, records: list[ProducerRecord]) -> None:
            commits.append(list(records))

    class Replaced(Fresh):
        def commit(self, records: list[ProducerRecord]) -> None:
            raise ReplacedError("id")

    lane = object.__new__(StateLane)
    lane.partition, lane.tp, lane._written = 0, SimpleNamespace(topic="in"), digests(STATE)
    lane.producer, lane.patience = Replaced(), Patience("")
    lane.stage = SimpleNamespace(
        options=SimpleNamespace(take_over_timeout=1.0), expect_owned=lambda lane: None, connection=None,
        state_topic="state", make_producer=lambda partition, patience: Fresh(),
    )  # fmt: skip
    monkeypatch.setattr(stateful, "read_to_end", lambda *args: found)
    if written_again is None:
        with pytest.raises(FencedError):
            lane._publish([RECORD, *PROGRESS], PROGRESS)
        assert commits == []
        return
    lane._publish([RECORD, *PROGRESS], PROGRESS)
    assert commits == [[RECORD, *PROGRESS]] * written_again
    assert lane._written == digests(AFTER)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_released_lane_opens_no_producer_although_its_worker_is_the_owner_again(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """The group names the worker, but the owner is its next lane, which another producer of this name would fence."""
    lane = object.__new__(StateLane)
    lane.partition, lane.tp, lane.patience, lane.open = 0, SimpleNamespace(topic="in"), Patience(""), is_open
    stage = object.__new__(StatefulStage)
    stage.connection, stage.input_topic = Connection("127.0.0.1:1"), "in"
    stage.options = SimpleNamespace(group="group", session_timeout=6.0)
    stage.app = SimpleNamespace(consumer=SimpleNamespace(member_id=lambda: "this"))
    monkeypatch.setattr(stateful, "owners_of", lambda *args: {0: "this"})
    if is_open:
        stage.expect_owned(lane)
        return
    with pytest.raises(UnavailableError, match=r"in\[0\] has been released"):
        stage.expect_owned(lane)


def test_what_waits_for_a_broker_that_is_away_says_so_and_is_given_up_at_once(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience("cannot write", seconds=0.0)
    plain = ConfirmedProducer(Connection("127.0.0.1:1"), patience=patience)
    waiter = Patience("")
    ended: list[BaseException] = []

    def deliver() -> None:
        try:
            plain.deliver([RECORD], waiter)
        except UnavailableError as error:
            ended.append(error)

    thread = threading.Thread(target=deliver)
    thread.start()
    while plain.waits_for is None:
        assert thread.is_alive()
    assert "cannot write to out" in (plain.waits_for or "")
    waiter.give_up()
    thread.join(30.0)
    assert ended and not thread.is_alive()
    plain.close(0.1)


def test_the_waiting_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    patience = Patience("cannot write to out", clock=clock)
    with caplog.at_level(logging.INFO):
        patience.begin()
        for _ in range(5):
            clock.advance(6.0)
            patience.wait("no leader", 0.0)
        patience.done()
        patience.done()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "no leader" in caplog.text and "succeeded after 30 s" in caplog.text


def test_a_batch_that_was_given_up_halfway_is_not_waited_for() -> None:
    """A lane that is let go while the queue of the client is full."""
    plain = ConfirmedProducer(Connection("127.0.0.1:1"), patience=Patience("cannot write", seconds=0.0))
    plain._try = lambda record, counter, until: False  # type: ignore[method-assign]
    waiter = Patience("")
    waiter.give_up()
    with pytest.raises(UnavailableError):
        plain.deliver([RECORD], waiter)
    assert plain.waits_for is None

    async def cancelled() -> None:
        handing_over = asyncio.ensure_future(plain.begin([RECORD]))
        while plain.waits_for is None:
            await asyncio.sleep(0)
        handing_over.cancel()
        await asyncio.gather(handing_over, return_exceptions=True)

    asyncio.run(cancelled())
    assert plain.waits_for is None
    plain.close(0.1)
