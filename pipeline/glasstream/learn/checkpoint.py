"""Save the state of a stream's learner as bytes with an HMAC, and restore it.

The model comes from River or from the user, so the state is a pickle. It is unpickled only after its HMAC has been
verified. A checkpoint is normally taken right after a snapshot. At that point no block is open, and every later row is
explained with this version of the model or a later one, so the state needs no earlier version. A checkpoint at another
point, after open blocks have been cut, also holds the newest snapshot if the model is compiled. The snapshot of any
other model stays on `snapshots` until later rows are aggregated.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from glasstream.errors import AuthenticationError, ModelError, StateError
from glasstream.ingest.admission import Task
from glasstream.ingest.decode import Rejected
from glasstream.ingest.features import FeatureTable
from glasstream.ingest.waiting import Waiting
from glasstream.learn.learner import tells_model
from glasstream.models.codec.authentication import Key, Named, open_sealed, seal
from glasstream_topics.checkpoints import Checkpoint

KIND: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class StreamState:
    """State from which a stream resumes.

    Attributes
    ----------
    task, target_kind
        Task and kind of target that the admission has determined.
    first_offset
        Offset of the stream's first message.
    rejected
        Elements of the current message that were rejected after decoding.
    learner
        State of the learner, from `StreamLearner.state`.
    classes
        Classes of the accepted labels, in order of first appearance.
    """

    task: Task | None
    target_kind: type | None
    first_offset: int
    rejected: Sequence[Rejected]
    learner: dict[str, Any]
    classes: tuple[str, ...] = ()

    @property
    def features(self) -> FeatureTable:
        """The features that the learner has seen."""
        return self.learner["_features"]  # type: ignore[no-any-return]

    @property
    def tells_model(self) -> bool:
        """Whether resuming from this state reproduces the snapshot that explains the next row."""
        return tells_model(self.learner)

    @property
    def waiting(self) -> Waiting[Any]:
        """The events that wait for their labels."""
        return self.learner["waiting"]  # type: ignore[no-any-return]


def sealed(state: StreamState, place: Checkpoint, *, key: Key | None) -> Checkpoint:
    """Return the checkpoint with the state sealed by an HMAC that is valid for this checkpoint only.

    Parameters
    ----------
    state
        State from which a successor resumes.
    place
        Checkpoint to be written; its own `sealed` is ignored.
    key
        The HMAC key, or several keys of which the first signs.

    Raises
    ------
    ModelError
        The model cannot be pickled.
    AuthenticationError
        There is no key.
    """
    try:
        body = pickle.dumps(state, protocol=5)
    except Exception as error:
        raise ModelError(
            f"stream {place.stream!r}: its model cannot be pickled ({type(error).__name__}: {error}), so there can be "
            "no checkpoints of it; define its parts at the top level of a module, or set checkpoint.seconds = 0 "
            "(a restart then learns everything again)"
        ) from error
    return replace(place, sealed=seal(body, kind=KIND, stream=place.stream, key=key, **_names(place)))


def _names(checkpoint: Checkpoint) -> dict[str, Named]:
    """Return the metadata that a checkpoint holds in the clear. The seal covers all of it."""
    return {
        "epoch": checkpoint.epoch,
        "rows": checkpoint.rows,
        "seqs": checkpoint.seqs,
        "offset": checkpoint.offset,
        "used": checkpoint.used,
        "fingerprint": checkpoint.fingerprint,
    }


def verified(checkpoint: Checkpoint, *, key: Key | None) -> bytes:
    """Return the state in a checkpoint, still pickled.

    Raises
    ------
    AuthenticationError
        None of the keys made its HMAC, or the HMAC belongs to another checkpoint.
    """
    return open_sealed(checkpoint.sealed, kind=KIND, stream=checkpoint.stream, key=key, **_names(checkpoint))


def newly_sealed(checkpoint: Checkpoint, *, key: Key | None) -> bool:
    """Return whether a checkpoint is sealed with the current signing key, and not with one that only verifies."""
    try:
        verified(checkpoint, key=key[:1] if isinstance(key, tuple) else key)
    except AuthenticationError:
        return False
    return True


def opened(checkpoint: Checkpoint, *, key: Key | None) -> StreamState:
    """Return the state in a checkpoint.

    Raises
    ------
    StateError
        The state is not authentic, or this version cannot resume from it.
    """
    what = f"the checkpoint of stream {checkpoint.stream!r} at row {checkpoint.rows}"
    try:
        body = verified(checkpoint, key=key)
    except AuthenticationError as error:
        raise StateError(f"cannot open {what}: {error}") from error
    try:
        state = pickle.loads(body)  # noqa: S301 - authentic
    except Exception as error:
        raise StateError(
            f"{what} cannot be read by this version ({type(error).__name__}: {error}); go back to the version that "
            "wrote it, or begin a new epoch"
        ) from error
    if not isinstance(state, StreamState):
        raise StateError(f"{what}: expected the state of a stream, got {type(state).__name__}; begin a new epoch")
    return state
