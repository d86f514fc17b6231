"""`glasstream`: the process of the command, from its first instant on.

Nothing heavy is imported here: an interrupt that comes while modules load must find its handler in place.
"""

import atexit
import contextlib
import os
import signal
import sys


def main() -> None:
    """Run the command line and exit.

    The process ends before the interpreter is taken down: threads of Kafka clients that still run could crash it then.

    Until a command puts its own handling in its place, an interrupt ends the process at once and without a word.
    Nothing is under way then; and an exception in the middle of an import may be swallowed, or shown as another one.
    """
    ended: list[int] = []
    atexit.register(_leave, ended)  # the first to be registered is the last to be called
    from pipeline.command.exit_codes import INTERRUPTED

    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    if "" not in sys.path:
        sys.path.insert(0, "")  # a user's model in the current folder can be imported
    from pipeline.command.execute import execute

    ended.append(execute())
    sys.exit(ended[0])


def _leave(ended: list[int]) -> None:
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])


if __name__ == "__main__":
    main()
