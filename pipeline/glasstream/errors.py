"""Every error of Glasstream in one tree.

GlasstreamError
├── ContractError                 what is on a topic, or the topic itself, does not fit its contract
│   ├── FrameError                a damaged, foreign or too new binary record
│   ├── RecordError               a JSON record of the wrong form
│   │   └── VersionError          one of a schema version that this release does not know
│   └── TopicError                a missing or wrongly configured topic
├── SettingsError                 configuration; all findings at once
├── InputError                    a CSV file or an argument that cannot be used
├── ModelError                    a model that cannot be made or used
│   ├── ModelRaised               a model raised, or gave no finite number, in predict or learn
│   └── NotCompilable             no compiled form for this model; the generic predictor serves it
├── CheckFailed                   an implementation breaks a law of its kind: see `glasstream.checks`
├── AuthenticationError           pickled state whose HMAC does not verify, or no key to verify with
├── BrokerError                   no broker, or one that cannot do what is asked
│   └── UnavailableError          brokers that do not answer or are too few for now: trying again helps
└── StateError                    a stage cannot continue from what was committed
    ├── FencedError               another worker has taken this partition over
    └── LostInputError            input that is needed again is no longer kept by the broker
"""

from glasstream_topics.errors import ContractError, FrameError, GlasstreamError, RecordError, TopicError, VersionError

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
    """Configuration that cannot be used. `findings` holds one line for each error found."""

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        super().__init__("\n".join(findings))


class InputError(GlasstreamError):
    """A file or an argument of the user that cannot be used."""


class ModelError(GlasstreamError):
    """A model cannot be made or used."""


class ModelRaised(ModelError):
    """A model raised, or gave no finite number, while it predicted or learned one event."""


class NotCompilable(ModelError):
    """This model has no compiled form; the message says why."""


class CheckFailed(GlasstreamError):
    """A predictor, sampler, explainer or detector breaks a law that all of its kind keep."""


class AuthenticationError(GlasstreamError):
    """Pickled state is not authentic, or there is no key to tell."""


class BrokerError(GlasstreamError):
    """There is no broker, or it cannot do what is asked of it."""


class UnavailableError(BrokerError):
    """Brokers do not answer, or are too few to do what is asked of them; it heals when they come back."""


class StageError(GlasstreamError):
    """A worker cannot go on for reasons that are not in its state."""


class StalledError(StageError):
    """A rebalance, or a run, has not moved on within any time that it may take."""


class StageDiedError(StageError):
    """A stage ended that `run` does not start again."""


class StateError(GlasstreamError):
    """A stage cannot go on from the state that was committed."""


class FencedError(StateError):
    """Another worker owns the partition now; nothing of this one was committed."""


class LostInputError(StateError):
    """Input that is needed again is no longer kept by the broker."""
