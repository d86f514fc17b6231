"""How the command ends. The workers' own codes: `glasstream.transport.worker`."""

DIFFERS = 1
"""Something is not as it should be: `topics verify`, `doctor`; `explain-at`, `dead replay`: see there."""
USAGE = 2
"""Arguments, files, models and settings that cannot be used."""
NO_BROKER = 5
"""No broker, or it or its topics are not as they should be."""
STANDSTILL = 7
"""Nothing moved any more in `run`, whatever was sent again."""
FAILED = 8
"""A stage of `run` failed."""
INTERRUPTED = 130
"""Broken off by a person: before anything was under way, or with a second interrupt."""
