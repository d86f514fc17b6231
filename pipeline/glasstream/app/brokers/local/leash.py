"""Runs a server that ends when the process that asked for it ends, however that happens.

    python -I leash.py LOG GRACE_S REMOVE SERVER [ARGUMENT...]

The owner holds the other end of this process's standard input. It never writes to it: the end of that input means
that the owner is gone, and the server is terminated, killed GRACE_S seconds later if it is still there, and the
folder REMOVE is deleted (`-` for none). The first line on standard output is the server's process id; after it the
output is closed. The server's own output goes to the file LOG. The exit code is the server's.

Linux could do this with a parent-death signal set by the server itself, but that signal is sent when the *thread*
that started the server ends, and setting it needs code between fork and exec of a process with many threads. Here
both are harmless: the main thread starts the server while it is alone, and lives as long as the process. The signal
then covers what is left, the death of the leash.

It is run as a file, without the project on the path, so it imports the standard library only.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_leash() -> Callable[[], None] | None:
    """What the server does between fork and exec so that the kernel kills it with this process (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    leash = os.getpid()

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != leash:
            os._exit(1)

    return before_exec


def _end_with_owner(server: "subprocess.Popen[bytes]", owner_gone: threading.Event, grace: float, remove: str) -> None:
    """Wait for the end of standard input, then end the server and remove its folder."""
    while os.read(0, 4096):
        pass
    owner_gone.set()
    with contextlib.suppress(ProcessLookupError):
        server.send_signal(signal.SIGCONT)
        server.terminate()
    try:
        server.wait(grace)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if remove != "-":
        shutil.rmtree(remove, ignore_errors=True)


def main(arguments: list[str]) -> int:
    log, grace, remove, *command = arguments
    with Path(log).open("ab") as output:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=_die_with_leash()
        )
    os.write(1, f"{server.pid}\n".encode())
    os.close(1)
    owner_gone = threading.Event()
    ending = threading.Thread(target=_end_with_owner, args=(server, owner_gone, float(grace), remove), daemon=True)
    ending.start()
    code = server.wait()
    if owner_gone.is_set():
        ending.join()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) & 0xFF)
