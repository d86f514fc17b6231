"""Decoding of messages with schemas in a child process, which a hostile message can end but not hold up.

A few bytes can mean an array of 2^40 nulls, a pattern of a schema can take years to match, and a decoder that is
written in C can exhaust its stack. The child process has limits of processor time for each message and of memory. It
ends where one is exceeded; the message becomes a dead letter, and a new process goes on with the next one. Processor
time, unlike time, does not blame a message for a busy machine.
"""

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from glasstream.base.errors import UnavailableError
from glasstream.events.mapping.formats import Documents, Format, plain_format
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.kafka.secret import registry_login
from glasstream.kafka.stages.decoder_child import ANSWER_BYTES, Answer, Begin, EndedError, SilentError, receive, send
from glasstream.kafka.stages.decoders import decoder
from glasstream_topics.events_dead import Reason

CPU_SECONDS = 5.0
"""Largest processor time for a message."""
MEMORY_BYTES = 256 * 1024 * 1024
"""Largest memory of the child process beyond what it has at its start."""
_SILENCE = 120.0
"""Seconds without an answer after which the child process is replaced: it waits for something else than itself."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""Number of bytes of messages that are sent at once."""
_REMEMBERED = 10_000
"""Largest number of messages that are remembered because they ended the process."""


def format_maker(settings: IntakeSettings, environment: Mapping[str, str]) -> Callable[[str], Format]:
    """Return a function that makes the format of a name.

    Raises
    ------
    SettingsError
        The secret for the registry cannot be read. The function raises it if a schema or a package is missing.
    """
    login = registry_login(environment)

    def make(name: str) -> Format:
        found = plain_format(settings, name)
        if found is not None:
            return found
        decoder(settings, name, login)  # an error of the settings is found here
        return Confined(settings, name, login)

    return make


class Confined(Format):
    """A format with schemas whose messages a child process decodes.

    Parameters
    ----------
    settings
        Settings of the intake.
    name
        Name of the format.
    login
        Login for the schema registry.
    cpu_seconds, memory_bytes
        Limits of the child process.
    """

    prepares = True

    def __init__(
        self,
        settings: IntakeSettings,
        name: str,
        login: str | None,
        cpu_seconds: float = CPU_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._begin = Begin(settings, name, login, cpu_seconds, memory_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[tuple[str, bytes], Answer] = {}
        """Answers to the messages of the last call of `prepare`."""
        self._refused: dict[tuple[str, bytes], Answer] = {}
        """Answers to messages that ended the process. They may be read again if a transaction fails."""

    def prepare(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Decode messages together: see `Format`."""
        self._answers = {}
        todo = list(dict.fromkeys(messages))
        while todo:
            self._answers.update((key, self._refused[key]) for key in todo if key in self._refused)
            todo = [key for key in todo if key not in self._answers]
            done = self._ask(_chunk(todo)) if todo else []
            self._answers.update(zip(todo, done, strict=False))
            todo = todo[len(done) :]

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`."""
        key = (topic, value)
        if key not in self._answers:
            self.prepare([key])
        answer = self._answers[key]
        if answer.reason:
            raise Misfit(Reason(answer.reason), answer.detail)
        documents: list[Any] = msgspec.msgpack.decode(answer.documents)
        return [one if isinstance(one, dict) else Misfit(Reason(one[0]), one[1]) for one in documents], False

    def close(self) -> None:
        """End the child process."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _ask(self, messages: Sequence[tuple[str, bytes]]) -> list[Answer]:
        """Return the answers to messages, up to the first one that ends the process.

        Raises
        ------
        UnavailableError
            A message cannot be read now, or the process does not work.
        """
        answers: list[Answer] = []
        for attempt in (1, 2):
            process = self._started()
            rest = messages[len(answers) :]
            try:
                send(process.stdin, msgspec.msgpack.encode(rest))
                for _ in rest:
                    answer = _DECODE_ANSWER(receive(process.stdout, ANSWER_BYTES + 1024, _SILENCE))
                    if answer.unavailable:
                        raise UnavailableError(answer.unavailable)
                    answers.append(answer)
            except SilentError as error:
                self.close()
                raise UnavailableError(
                    f"the process that decodes {self._begin.name} has not answered for {_SILENCE:g} s; check that this "
                    "machine has processors and memory to spare, and the schema registry"
                ) from error
            except EndedError:
                self.close()
                if attempt == 1 and process.returncode not in _OF_THE_MESSAGE:
                    continue  # something else may have ended it, such as a lack of memory of the machine
                _, value = key = messages[len(answers)]
                answer = _exhausted(value, process.returncode, self._begin)
                if len(self._refused) >= _REMEMBERED:
                    self._refused.clear()
                self._refused[key] = answer
                answers.append(answer)
            return answers
        raise AssertionError("unreachable")

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is not None:
            return self._process
        process = subprocess.Popen(
            [sys.executable, "-m", "glasstream.kafka.stages.decoder_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=_environment(os.environ),
        )
        weakref.finalize(self, _end, process)
        self._process = process
        try:
            send(process.stdin, msgspec.msgpack.encode(self._begin))
            receive(process.stdout, 1024, _SILENCE)
        except (EndedError, SilentError) as error:
            self.close()
            raise UnavailableError(
                f"the process that decodes {self._begin.name} has ended during its start ({_how(process.returncode)}); "
                "see its output above, and check the memory of this machine"
            ) from error
        return process


_DECODE_ANSWER = msgspec.msgpack.Decoder(Answer).decode
_OF_THE_MESSAGE = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)
"""Ends of the process that the message has caused."""


def _exhausted(value: bytes, code: int | None, limits: Begin) -> Answer:
    return Answer(
        reason=Reason.BAD_ENCODING.value,
        detail=f"expected a message that {limits.cpu_seconds:g} s of processor time and "
        f"{limits.memory_bytes // 2**20:,} MiB suffice to decode, got {len(value):,} bytes that ended the process "
        f"({_how(code)})",
    )


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"code {code}"
    return "processor time" if code == -signal.SIGPROF else signal.Signals(-code).name


def _chunk(messages: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
    """Return the first messages that are sent at once: at least one."""
    size = 0
    for count, (_, value) in enumerate(messages):
        size += len(value)
        if count and size > _CHUNK_BYTES:
            return messages[:count]
    return messages


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the child process, which finds the same packages, and needs no settings or secrets."""
    found = {name: value for name, value in environment.items() if not name.startswith("GLASSTREAM_")}
    return found | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a child process, and wait for its end."""
    process.kill()  # has no effect on one that has ended
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
