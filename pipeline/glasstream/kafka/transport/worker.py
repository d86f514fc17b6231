"""The process of a worker: event loop, logging, signals, and exit code."""

import asyncio
import gc
import logging
import multiprocessing.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import Any, NoReturn

import uvloop

from glasstream.base.errors import (
    BrokerError,
    FencedError,
    GlasstreamError,
    SettingsError,
    StageError,
    StalledError,
    StateError,
    TopicError,
)
from glasstream.kafka.transport import app, consumer, snapshot_table
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.redact import RedactingFormatter
from glasstream.kafka.transport.relay import Relay
from glasstream.kafka.transport.stage import Stage
from glasstream.kafka.transport.summary import SummarisingHandler

log = logging.getLogger(__name__)

#: Seconds that an orderly stop may take before the process is ended.
STOP_PATIENCE = 15.0

#: Seconds after that until remaining threads and connections are left to the system.
CLOSE_PATIENCE = 5.0


class ExitCode(IntEnum):
    """Reasons for the end of a worker."""

    OK = 0
    USAGE = 2
    STATE = 3  # the committed state cannot be continued
    FENCED = 4  # another worker owns the partition
    BROKER = 5  # no broker, an unusable topic, or a broker that does not answer in time
    FAILED = 6  # the code of the stage raised an error
    STALLED = 7  # the group does not settle, or the event loop hangs


def exit_code(error: BaseException | None) -> ExitCode:
    """Return the exit code for the error with which a worker ended."""
    if error is None:
        return ExitCode.OK
    for kind, code in (
        (StalledError, ExitCode.STALLED),
        (FencedError, ExitCode.FENCED),
        (StateError, ExitCode.STATE),
        (TopicError, ExitCode.BROKER),
        (BrokerError, ExitCode.BROKER),
        (SettingsError, ExitCode.USAGE),
    ):
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED


def configure_logging(options: StageOptions, secrets: Sequence[str] = ()) -> None:
    """Log warnings, and the messages of our own modules, one line each, on stderr; with `debug` log everything.

    Summarise the lines that Kafka clients repeat while a broker is down, except with `debug`.
    """
    name = f"{options.name} {options.instance}" if options.instance != options.name else options.name
    handler = logging.StreamHandler(sys.stderr) if options.debug else SummarisingHandler(sys.stderr, "glasstream")
    handler.setFormatter(RedactingFormatter(f"%(asctime)s %(levelname)-7s {name}: %(message)s", "%H:%M:%S", secrets))
    logging.basicConfig(level=logging.DEBUG if options.debug else logging.WARNING, handlers=[handler], force=True)
    if options.debug:
        logging.getLogger("numba").setLevel(logging.WARNING)  # it logs every step of its compiler
        return
    logging.getLogger("glasstream").setLevel(logging.INFO)
    # They warn of every rebalance, and of every connection that a stopping broker closes.
    for noisy in ("faust", "mode"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    # Services derived from Faust's log every start and stop under the names of our modules.
    for derived in (app, consumer, snapshot_table):
        logging.getLogger(derived.__name__).setLevel(logging.ERROR)
    logging.getLogger("librdkafka").setLevel(logging.CRITICAL + 1)


def run_worker(build: Callable[[], Stage | Relay], options: StageOptions, secrets: Sequence[str] = ()) -> NoReturn:
    """Run the stage that `build` makes until a signal or an error ends it. Then end the process with an `ExitCode`.

    SIGTERM and SIGINT stop it in order: the worker commits the work in progress, leaves the group, and exits with 0. A
    second signal ends it at once. `secrets` are never written to the log.
    """
    configure_logging(options, secrets)
    # Faust's threads keep their own loops: other threads touch them, which has crashed uvloop (SIGSEGV).
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_live(build))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # closing the loop restored the default; the exit code is settled
    _end_process(code)


def _end_process(code: ExitCode) -> NoReturn:
    """Write what is buffered, and end the process without finalising the interpreter.

    After a fatal error, some clients of librdkafka cannot be closed in time. Their threads call Python to report logs
    and errors. In an interpreter that is being finalised, such a call ends the process with SIGSEGV, and the exit code,
    which says what to do, is lost.
    """
    # Semaphores of other processes that stay are reported as leaked. The standard library has no public function.
    multiprocessing.util._run_finalizers()  # type: ignore[attr-defined]
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


async def _live(build: Callable[[], Stage | Relay]) -> ExitCode:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell() -> None:
        if told.is_set():
            os._exit(ExitCode.FAILED)
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    try:
        stage = build()
    except Exception as error:  # noqa: BLE001 - it ends the process, with a line and a code
        return _exit_code(error)
    threading.excepthook = partial(_end_with_thread, stage, loop)
    # The 230,000 objects of modules and kernels stay; each full collection would visit them for 0.1 seconds.
    gc.collect()
    gc.freeze()
    await _until(stage, told)
    _end_by_force(stage)
    try:
        await asyncio.wait_for(stage.stop(), STOP_PATIENCE)
    except TimeoutError:
        log.error("the worker did not stop within %g s and exits at once", STOP_PATIENCE)
        _exit_code(stage.failure)
        os._exit(exit_code(stage.failure) or ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001 - the first failure is the one that counts
        stage.fail(error)
    return _exit_code(stage.failure)


def _end_with_thread(
    stage: Stage | Relay, loop: asyncio.AbstractEventLoop, unhandled: threading.ExceptHookArgs
) -> None:
    """End the worker when an unexpected error ends a thread: what waits for the thread would wait for ever."""
    if issubclass(unhandled.exc_type, SystemExit):
        return
    name = "a thread" if unhandled.thread is None else f"the thread {unhandled.thread.name}"
    error = StageError(f"{name} was ended by {unhandled.exc_type.__name__}: {unhandled.exc_value}")
    error.__cause__ = unhandled.exc_value
    with suppress(RuntimeError):  # the loop was closed meanwhile
        loop.call_soon_threadsafe(stage.fail, error)


def _end_by_force(stage: Stage | Relay) -> None:
    """End the process when its end takes too long.

    Some of Faust's tasks survive a cancellation, and the runner waits for them. librdkafka may take minutes to release
    a producer whose transaction has failed.
    """
    last_resort = threading.Timer(STOP_PATIENCE + CLOSE_PATIENCE, lambda: os._exit(exit_code(stage.failure)))
    last_resort.daemon = True
    last_resort.start()


async def _until(stage: Stage | Relay, told: asyncio.Event) -> None:
    """Start the stage, and return when it receives a signal to stop or has failed."""
    starting = asyncio.ensure_future(stage.start())
    crashed = asyncio.ensure_future(stage.wait_crashed())
    signalled = asyncio.ensure_future(told.wait())
    ended = asyncio.ensure_future(stage.ended.wait())
    waiting: set[asyncio.Future[Any]] = {starting, crashed, signalled, ended}
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if starting in done and starting.exception() is None and done == {starting}:
            continue  # running; wait for the end
        break
    if starting.done() and not starting.cancelled():
        error = starting.exception()
        if isinstance(error, Exception):
            stage.fail(error)
    for task in waiting - {starting}:
        task.cancel()


def _exit_code(error: BaseException | None) -> ExitCode:
    code = exit_code(error)
    if error is not None:
        trace = error if code is ExitCode.FAILED else None
        kind = "" if isinstance(error, GlasstreamError) else f"{type(error).__name__}: "
        log.error("exiting with code %d (%s): %s%s", code, code.name.lower(), kind, error, exc_info=trace)
    return code
