"""Exit codes of the commands. `glasstream.kafka.transport.worker` defines those of the workers."""

DIFFERS = 1
"""A check failed (`topics verify`, `doctor`, `intake try`), records differ (`replay`), or letters are left (`dead`)."""
USAGE = 2
"""Arguments, files, models and settings that cannot be used."""
NO_BROKER = 5
"""The broker does not answer, or it or its topics are not usable."""
STANDSTILL = 7
"""The stages stood still: in a `run` although it sent records again, or while a command waited for them."""
FAILED = 8
"""A stage of `run` failed."""
INTERRUPTED = 130
"""The user interrupted the command before it started work, or interrupted it twice."""
