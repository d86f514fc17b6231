"""Every error of Glasstream in one tree.

GlasstreamError
├── ContractError                 a topic or one of its records does not fit its contract
│   ├── FrameError                a binary record is damaged, foreign or of an unknown version
│   ├── RecordError               a JSON record has the wrong form
│   │   └── VersionError          a JSON record has a schema version that this release does not know
│   └── TopicError                a topic is missing or wrongly configured
├── SettingsError                 the configuration is invalid; lists all findings
├── InputError                    a CSV file or an argument cannot be used
├── ModelError                    a model cannot be made or used
│   ├── ModelRaised               a model raised an error, or returned no finite number, in predict or learn
│   └── NotCompilable             the model has no compiled form; the generic predictor evaluates it
├── CheckFailed                   an implementation breaks a law of its kind: see `glasstream.testing`
├── AuthenticationError           the HMAC of saved state does not verify, or there is no key to verify it
├── BrokerError                   there is no broker, or it cannot do what is asked
│   └── UnavailableError          brokers do not answer, or too few are up: retrying helps
├── StageError                    a worker cannot continue, for reasons outside its state
│   ├── StalledError              a rebalance or a run makes no progress within the longest time it may take
│   └── StageDiedError            a stage ended, and `run` does not restart it
└── StateError                    a stage cannot resume from the committed state
    ├── FencedError               another worker has taken over this partition
    └── LostInputError            the broker no longer has input that is needed again
"""

from glasstream_topics.errors import (
    BrokerError,
    ContractError,
    FrameError,
    GlasstreamError,
    InputError,
    RecordError,
    TopicError,
    UnavailableError,
    VersionError,
)

__all__ = [
    "AuthenticationError",
    "BrokerError",
    "CheckFailed",
    "ContractError",
    "FencedError",
    "FrameError",
    "GlasstreamError",
    "InputError",
    "LostInputError",
    "ModelError",
    "ModelRaised",
    "NotCompilable",
    "RecordError",
    "SettingsError",
    "StageDiedError",
    "StageError",
    "StalledError",
    "StateError",
    "TopicError",
    "UnavailableError",
    "VersionError",
]


class SettingsError(GlasstreamError):
    """The configuration is invalid. `findings` has one line for each error found."""

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        super().__init__("\n".join(findings))


class ModelError(GlasstreamError):
    """A model cannot be made or used."""


class ModelRaised(ModelError):
    """A model raised an error, or returned no finite number, while it predicted or learned one event."""


class NotCompilable(ModelError):
    """The model has no compiled form; the message says why."""


class CheckFailed(GlasstreamError):
    """A predictor, sampler, explainer or detector breaks a law of its kind."""


class AuthenticationError(GlasstreamError):
    """Pickled state is not authentic, or there is no key to verify it."""


class StageError(GlasstreamError):
    """A worker cannot continue, for reasons outside its state."""


class StalledError(StageError):
    """A rebalance, a run, or a stage that a command waits for has made no progress for too long."""


class StageDiedError(StageError):
    """A stage ended, and `run` does not restart it."""


class StateError(GlasstreamError):
    """A stage cannot resume from the committed state."""


class FencedError(StateError):
    """Another worker owns the partition now. Nothing that this worker did was committed."""


class LostInputError(StateError):
    """The broker no longer has input that is needed again."""
