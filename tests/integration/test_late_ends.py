"""Kafka gets the request that ends a transaction late, while the next transaction of the same stage is under way."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from glasstream.app.brokers.local import Kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.transactions import ReplacedError, TransactionalProducer
from tests.chaos.late_ends import LateEnds
from tests.support.transport_harness import Totals, make_topics, numbers, produce, read_all, running, sums, total_stage
from tests.support.waiting import until

RECORDS = 12
SIZE = 700_000
"""Size of a record: so large that a transaction takes several requests."""
PARTITIONS = 3


@pytest.fixture
def proxied(local_broker: Callable[..., Kafka]) -> Iterator[tuple[str, LateEnds]]:
    """Address of a broker, and the proxy by which others reach it."""
    (port,) = free_ports(1)
    proxy = LateEnds([port])
    broker = local_broker(
        settings={
            "listeners": f"PROXIED://127.0.0.1:{port}",
            "advertised.listeners": f"PROXIED://127.0.0.1:{proxy.ports[port]}",
            "listener.security.protocol.map": "PROXIED:PLAINTEXT",
        }
    )
    yield broker.bootstrap, proxy
    proxy.close()


def address(proxy: LateEnds) -> str:
    (port,) = proxy.ports.values()
    return f"127.0.0.1:{port}"


def test_a_late_end_is_refused_and_each_transaction_is_there_once_and_whole(proxied: tuple[str, LateEnds]) -> None:
    """Only a broker accepts a late request of the newest producer, and refuses that of a former one."""
    bootstrap, proxy = proxied
    make_topics(bootstrap, {"out": PARTITIONS})
    link = Connection(address(proxy))

    def opened() -> TransactionalProducer:
        made = TransactionalProducer(link, "id", patience=Patience("cannot write"))
        made.open(60.0)
        return made

    def found() -> Counter[int]:
        parts = read_all(bootstrap, "out", PARTITIONS)
        return Counter(int((value or b"").split()[0]) for part in parts for value in part)

    producer, number, replaced = opened(), 0, 0
    for after in range(3):
        late = proxy.hold(silent=False, after=after)
        while not late.delivered.is_set():
            value = b"%d " % number + b"x" * SIZE
            try:
                producer.commit([ProducerRecord("out", b"k", value, part % PARTITIONS) for part in range(RECORDS)])
            except ReplacedError:
                replaced += 1
                producer.close()
                producer = opened()
                if not found()[number]:
                    continue
            number += 1
        assert late.answer > 0, "the broker refuses it"
    producer.close()
    assert replaced == 3 and found() == Counter(dict.fromkeys(range(number), RECORDS))


SILENT = 1
"""Number of late requests whose client gets no answer at all, until its patience ends."""


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(50, marks=pytest.mark.long)])
def test_a_stage_publishes_the_same_however_many_ends_come_late(proxied: tuple[str, LateEnds], count: int) -> None:
    """At random moments of the next transaction; only a broker has transactions that end too early."""
    bootstrap, proxy = proxied
    chance, prefix, partitions = random.Random(5), "late.", 2
    make_topics(bootstrap, {f"{prefix}{name}": partitions for name in ("in", "state", "out")})
    sent = dict.fromkeys(range(partitions), 0)
    answers: list[int] = []

    def send() -> None:
        for partition, first in sent.items():
            sent[partition] += 5
            produce(bootstrap, f"{prefix}in", numbers(first, first + 5), partition)

    async def run() -> Exception | None:
        totals = Totals(prefix)
        stage = total_stage(Connection(address(proxy)), prefix, totals, commit_interval=0.02)
        async with running(stage):
            for number in range(count):
                late = proxy.hold(silent=number < SILENT, after=chance.randrange(3))
                while not late.delivered.is_set() and stage.failure is None:
                    await asyncio.to_thread(send)
                    await asyncio.to_thread(late.delivered.wait, chance.random() * 0.2)
                answers.append(late.answer)
            await until(lambda: stage.failure is not None or totals.counted() == sum(sent.values()))
        return stage.failure

    assert asyncio.run(run()) is None
    assert len(answers) == count and all(answer > 0 for answer in answers), "the broker has refused each"
    assert read_all(bootstrap, f"{prefix}out", partitions) == [sums(messages) for messages in sent.values()]
