"""Moving the replicas of a partition: the one request of an administrator that our client library cannot make.

Apache Kafka's own command for it is in a jar that the tests do not fetch. This is AlterPartitionReassignments (API key
45) in version 0, as `AlterPartitionReassignmentsRequest.json` of Apache Kafka describes it.
"""

import socket
import struct
from collections.abc import Sequence

_API_KEY, _VERSION, _CORRELATION = 45, 0, 1
_TIMEOUT_MS = 30_000
_NO_TAGS = b"\0"


def reassign(address: str, topic: str, partition: int, replicas: Sequence[int]) -> None:
    """Ask for a partition to be kept by these brokers; the first is the preferred leader.

    The broker answers before the data is copied: wait until the metadata shows the new replicas.

    Raises
    ------
    OSError
        The broker refuses, or does not answer.
    """
    name = topic.encode()
    body = struct.pack(">i", _TIMEOUT_MS) + _count(1) + _count(len(name)) + name
    body += _count(1) + struct.pack(">i", partition)
    body += _count(len(replicas)) + struct.pack(f">{len(replicas)}i", *replicas)
    body += _NO_TAGS * 3  # of the partition, of the topic, of the request
    header = struct.pack(">hhih", _API_KEY, _VERSION, _CORRELATION, -1) + _NO_TAGS
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_MS / 1000) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        answer = _exactly(connection, size)
    # correlation id, tags, throttle time; then the error of the request
    (error,) = struct.unpack_from(">h", answer, 9)
    place = 11
    message_size = answer[place]
    place += 1 + max(0, message_size - 1)
    if error == 0 and answer[place] == 2:  # one topic: its name, one partition, the partition's number
        place += 1
        place += answer[place] + 1 + 4
        (error,) = struct.unpack_from(">h", answer, place)
    if error:
        raise OSError(f"{topic}[{partition}]: the broker refuses to move it to {list(replicas)}: Kafka's error {error}")


def _count(number: int) -> bytes:
    """A length in the compact form, below 127."""
    if number > 126:
        raise ValueError(f"expected a length below 127, got {number}")
    return bytes([number + 1])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError("the broker closed the connection instead of answering")
        data += piece
    return data
