"""Kafka gets the request that ends a transaction late, while the next transaction of the same stage is under way."""

from collections import Counter
from collections.abc import Callable

from glasstream.brokers.local import Kafka
from glasstream.brokers.local.node import free_ports
from glasstream.transport.connection import Connection
from glasstream.transport.patience import Patience
from glasstream.transport.records import ProducerRecord
from glasstream.transport.transactions import ReplacedError, TransactionalProducer
from tests.chaos.late_ends import LateEnds
from tests.transport.harness import make_topics, read_all

RECORDS = 12
SIZE = 700_000
"""Size of a record: so large that a transaction takes several requests."""
PARTITIONS = 3


def test_a_late_end_is_refused_and_each_transaction_is_there_once_and_whole(
    local_broker: Callable[..., Kafka],
) -> None:
    """Only a broker accepts a late request of the newest producer, and refuses that of a former one."""
    (port,) = free_ports(1)
    proxy = LateEnds([port])
    broker = local_broker(
        settings={
            "listeners": f"PROXIED://127.0.0.1:{port}",
            "advertised.listeners": f"PROXIED://127.0.0.1:{proxy.ports[port]}",
            "listener.security.protocol.map": "PROXIED:PLAINTEXT",
        }
    )
    make_topics(broker.bootstrap, {"out": PARTITIONS})
    link = Connection(f"127.0.0.1:{proxy.ports[port]}")

    def opened() -> TransactionalProducer:
        made = TransactionalProducer(link, "id", patience=Patience("cannot write"))
        made.open(60.0)
        return made

    def found() -> Counter[int]:
        parts = read_all(broker.bootstrap, "out", PARTITIONS)
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
    proxy.close()
    assert replaced == 3 and found() == Counter(dict.fromkeys(range(number), RECORDS))
