"""The root of the project's errors, and the errors that readers of the topics see."""


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


class InputError(GlasstreamError):
    """A file or an argument of the user cannot be used."""


class BrokerError(GlasstreamError):
    """There is no broker, or it cannot do what is asked."""


class UnavailableError(BrokerError):
    """Brokers do not answer, or too few are up for the request. Retrying helps once they are back."""
