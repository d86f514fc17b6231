"""Entry point of the command `glasstream`.

This module imports nothing heavy: the handler of interrupts must be installed before other modules load.
"""

import os
import signal
import sys


def main() -> None:
    """Run the command line and exit.

    Until a command installs its own handler, an interrupt ends the process at once and without a message. Nothing is
    under way before that, and an exception in the middle of an import may be swallowed, or shown as another one.
    """
    from glasstream.app.command.exit_codes import INTERRUPTED

    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    if "" not in sys.path:
        sys.path.insert(0, "")  # allow imports of a user's model from the current folder
    from glasstream.app.command.cli import execute

    sys.exit(execute())


if __name__ == "__main__":
    main()
