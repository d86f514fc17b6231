"""The root of the project's errors, and the errors of the contracts."""


class GlasstreamError(Exception):
    """Root of every error that Glasstream raises on purpose.

    A message says what was expected, what came, where, and what to do.
    """


class ContractError(GlasstreamError):
    """A topic or one of its records does not fit its contract."""


class FrameError(ContractError):
    """The bytes of a binary record are damaged, foreign, or of a version that this reader does not know."""


class RecordError(ContractError):
    """A JSON record does not fit its type."""


class VersionError(RecordError):
    """A JSON record has a schema version that this release does not know."""


class TopicError(ContractError):
    """A topic is missing or is not configured as its contract says."""
