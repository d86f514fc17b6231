"""The child process of `glasstream.kafka.stages.schemas`: decodes messages with schemas within limits."""

import os
import resource
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from glasstream.base.errors import UnavailableError
from glasstream.events.mapping.formats import Format
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.kafka.stages.decoders import decoder
from glasstream_topics.events_dead import Reason

ANSWER_BYTES = 16 * 1024 * 1024
"""Largest size of a decoded message."""
DECIMAL_BYTES = 64
"""Largest number of bytes of an Avro decimal. Reading one takes the square of its length."""
_SIZE = 4
"""Number of bytes that a frame's size takes."""


class Begin(msgspec.Struct, array_like=True):
    """What the child process needs to decode messages."""

    settings: IntakeSettings
    name: str
    login: str | None
    cpu_seconds: float
    memory_bytes: int


class Answer(msgspec.Struct, array_like=True, omit_defaults=True):
    """Answer to a message: its documents, or why there are none.

    Attributes
    ----------
    documents
        The documents, as msgpack; a misfit is a pair of reason and detail.
    reason, detail
        Why the message as a whole cannot be read.
    unavailable
        Why it cannot be read now.
    """

    documents: bytes = b""
    reason: str = ""
    detail: str = ""
    unavailable: str = ""


class EndedError(Exception):
    """The other process has ended."""


class SilentError(Exception):
    """The other process sends nothing."""


def send(pipe: Any, content: bytes) -> None:
    """Send a frame.

    Raises
    ------
    EndedError
        The other process has ended.
    """
    view = memoryview(len(content).to_bytes(_SIZE, "big") + content)
    try:
        while view:
            view = view[pipe.write(view) :]
    except BrokenPipeError as error:
        raise EndedError from error


def receive(pipe: Any, limit: int | None, seconds: float | None = None) -> bytes:
    """Return the content of the next frame.

    Raises
    ------
    EndedError
        The other process has ended, or sends more than the limit.
    SilentError
        It sends nothing for so many seconds.
    """
    size = int.from_bytes(_exactly(pipe, _SIZE, seconds), "big")
    if limit is not None and size > limit:
        raise EndedError
    return _exactly(pipe, size, seconds)


def _exactly(pipe: Any, size: int, seconds: float | None) -> bytes:
    content = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while len(content) < size:
        if not poll.poll(None if seconds is None else seconds * 1000):
            raise SilentError
        part = pipe.read(size - len(content))
        if not part:
            raise EndedError
        content += part
    return bytes(content)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Decode messages until the parent ends."""
    begin = msgspec.msgpack.decode(receive(requests, None), type=Begin)
    read = decoder(begin.settings, begin.name, begin.login)
    _bound_decimals()
    _limit_memory(begin.memory_bytes)
    send(answers, b"")
    batches = msgspec.msgpack.Decoder(list[tuple[str, bytes]])
    while True:
        for topic, value in batches.decode(receive(requests, None)):
            signal.setitimer(signal.ITIMER_PROF, begin.cpu_seconds)
            answer = _answer(read, topic, value)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            send(answers, msgspec.msgpack.encode(answer))
            if answer.unavailable:
                break


def _answer(read: Format, topic: str, value: bytes) -> Answer:
    try:
        documents, _ = read.read(topic, value)
        content = msgspec.msgpack.encode(
            [(one.reason.value, one.detail) if isinstance(one, Misfit) else one for one in documents]
        )
    except Misfit as misfit:
        return Answer(reason=misfit.reason.value, detail=misfit.detail)
    except UnavailableError as error:
        return Answer(unavailable=str(error))
    except (MemoryError, RecursionError, OverflowError, UnicodeEncodeError) as error:
        return _refusal(value, f"{type(error).__name__}: {error}")
    if len(content) > ANSWER_BYTES:
        return _refusal(value, f"the decoded message has {len(content):,} bytes, more than {ANSWER_BYTES:,}")
    return Answer(content)


def _refusal(value: bytes, cause: str) -> Answer:
    return Answer(
        reason=Reason.BAD_ENCODING.value,
        detail=f"expected a message that can be read, got {len(value):,} bytes that cannot: {cause}"[:900],
    )


def _bound_decimals() -> None:
    """Let fastavro refuse long decimals before it converts them."""
    try:
        from fastavro.read import LOGICAL_READERS
    except ImportError:
        return
    for name in ("bytes-decimal", "fixed-decimal"):
        LOGICAL_READERS[name] = _bounded(LOGICAL_READERS[name])


def _bounded(convert: Callable[..., Any]) -> Callable[..., Any]:
    def read(data: bytes, *schemas: Any) -> Any:
        if len(data) > DECIMAL_BYTES:
            raise ValueError(f"expected a decimal of at most {DECIMAL_BYTES} bytes, got {len(data):,}")
        return convert(data, *schemas)

    return read


def _limit_memory(size: int) -> None:
    """Let the process have this much more memory than it has now, and write no core files.

    Only Linux says how much it has, and keeps such a limit.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = Path("/proc/self/statm")
    if pages.exists():
        now = int(pages.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + size, now + size))


def main() -> None:
    """Serve the parent on the standard streams. What libraries print goes to standard error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent handles them; this process ends with it
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(0, "rb", buffering=0) as requests, os.fdopen(answers, "wb", buffering=0) as replies:
            serve(requests, replies)
    except EndedError:
        pass  # the parent has ended


if __name__ == "__main__":
    main()
