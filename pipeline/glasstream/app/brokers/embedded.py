"""`--broker embedded`: librdkafka's mock cluster, a broker of one process, in memory.

It speaks the real protocol on a loopback port, is inside confluent-kafka's wheel, and needs nothing installed. It is
for the demo and for tests of plumbing. Its limits, all measured with librdkafka 2.16:

- It holds data in memory only. Each partition keeps the newest 5 MiB and 100,000 batches and silently drops older
  records. A producer must stay within that distance of the slowest consumer.
- Records of 3 MB make a partition unreadable. Keep records below 1 MB.
- A consumer group can have one member. With more, a SyncGroup that follows the leader's may fail. A first member
  joins at once, because this module sets the join delay to its minimum. A member that joins a group that had a member
  before waits for `session.timeout.ms` less a second.
- Transactions are accepted, but `read_committed` also returns aborted records.
- Fetches do not wake on new data: a consumer's `fetch.wait.max.ms` is the latency of every hop.
- It has no CreateTopics, DeleteTopics, DescribeConfigs, compaction, retention or security. This class creates topics.
  A consumer or producer that names an unknown topic creates it with 4 partitions.

The cluster runs in threads of this process and ends with it. Use `local` to test rebalances, recovery, compaction and
retention.
"""

import ctypes
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import confluent_kafka

from glasstream.base.errors import BrokerError

_PRODUCER = 0  # rd_kafka_type_t
_TOPIC_ALREADY_EXISTS = 36  # rd_kafka_resp_err_t
_ERROR_TEXT = 512

# Delay for which a group join waits for further members; there are none here.
_REBALANCE_DELAY_MS = 1


class EmbeddedKafka:
    """A mock cluster of one broker, as a context manager. The cluster exists from entering to leaving the block.

    Attributes
    ----------
    bootstrap : str
        `127.0.0.1:PORT`.

    Raises
    ------
    BrokerError
        On entering, if confluent-kafka's library does not offer the mock cluster.
    """

    kind = "embedded"

    def __init__(self) -> None:
        self._library = _library()
        self._client: int | None = None
        self._cluster: int | None = None
        self._topics: dict[str, int] = {}
        self.bootstrap = ""

    def __enter__(self) -> Self:
        text = ctypes.create_string_buffer(_ERROR_TEXT)
        conf = self._library.rd_kafka_conf_new()
        # The client is only a handle of the cluster. It has no broker, so its log lines would only mislead.
        self._library.rd_kafka_conf_set_log_cb(conf, None)
        self._client = self._library.rd_kafka_new(_PRODUCER, conf, text, _ERROR_TEXT)
        if not self._client:
            self._library.rd_kafka_conf_destroy(conf)
            raise _unusable(f"rd_kafka_new failed: {text.value.decode(errors='replace')}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        if not self._cluster:
            self.close()
            raise _unusable("rd_kafka_mock_cluster_new failed")
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, _REBALANCE_DELAY_MS)
        self.bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the cluster and delete its records."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._cluster = None
        if self._client:
            self._library.rd_kafka_destroy(self._client)
            self._client = None

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with exactly this many partitions.

        Parameters
        ----------
        name
            Name of a new topic. A client that has asked for the topic before, even a waiting consumer, has already
            created it with 4 partitions.
        partitions
            Number of partitions, 1 or more.
        config
            Ignored: this broker has no topic configuration.

        Raises
        ------
        BrokerError
            The topic exists already, or the broker is not open.
        """
        if not self._cluster:
            raise BrokerError(f"cannot create {name}: the embedded broker has been closed")
        if partitions < 1:
            raise BrokerError(f"expected 1 or more partitions for {name}; got {partitions}")
        code = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        if code == _TOPIC_ALREADY_EXISTS:
            raise BrokerError(
                f"{name} already exists on the embedded broker. Create topics before the clients that use them start, "
                "or use another --prefix."
            )
        if code:
            cause = self._library.rd_kafka_err2str(code).decode()
            raise BrokerError(f"cannot create {name} with {partitions} partitions on the embedded broker: {cause}")


def _library() -> ctypes.CDLL:
    """Return librdkafka as confluent-kafka's extension has loaded it, with the functions used here declared.

    The symbols are looked up through the extension, which depends on the library. This finds the same copy whether the
    library comes with the wheel or with the system.
    """
    extension = getattr(confluent_kafka, "cimpl", None)
    path = getattr(extension, "__file__", None)
    if path is None:
        raise _unusable("its extension module has no file")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    declared: dict[str, tuple[type | None, list[type]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_destroy": (None, [pointer]),
        "rd_kafka_conf_set_log_cb": (None, [pointer, pointer]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (text, [number]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in declared.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise _unusable(str(error)) from error
    return library


def _unusable(reason: str) -> BrokerError:
    return BrokerError(
        f"expected the mock cluster of librdkafka in confluent-kafka {confluent_kafka.version()}; {reason}. "
        "Reinstall confluent-kafka from its wheel (`pip install --force-reinstall confluent-kafka`), or use "
        "--broker local."
    )
