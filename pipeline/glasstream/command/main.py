"""`glasstream`: the process of the command, from its first instant on.

Nothing heavy is imported here: an interrupt that comes while modules load must find its handler in place.
"""

import os
import signal
import sys


def main() -> None:
    """Run the command line and exit.

    Until a command puts its own handling in its place, an interrupt ends the process at once and without a word.
    Nothing is under way then; and an exception in the middle of an import may be swallowed, or shown as another one.
    """
    from glasstream.command.exit_codes import INTERRUPTED

    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    if "" not in sys.path:
        sys.path.insert(0, "")  # a user's model in the current folder can be imported
    from glasstream.command.execute import execute

    sys.exit(execute())


if __name__ == "__main__":
    main()
