"""The state of a stream's learner as bytes under an HMAC, and the learner again.

The model is River's or the user's, so the state is a pickle; nothing of it is opened before the tag has been verified.
A checkpoint is taken right after a snapshot: no block is open then, and every later row is explained with that version
of the model or a later one, so that the state needs no earlier one. Taken elsewhere, when open blocks have been cut, it
holds the newest snapshot too; but not of a model that is not compiled, which stays on `snapshots` until later rows are
aggregated.
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
from glasstream.models.authentication import Key, Named, open_sealed, seal
from glasstream_topics.checkpoints import Checkpoint

KIND: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream goes on with.

    Attributes
    ----------
    task, target_kind
        What its admission has found out.
    first_offset
        Of the message that it began with.
    rejected
        Elements of the message it is in the middle of that were turned down after decoding.
    learner
        As of `StreamLearner.state`.
    classes
        The classes that accepted labels have named, in order of first appearance.
    """

    task: Task | None
    target_kind: type | None
    first_offset: int
    rejected: Sequence[Rejected]
    learner: dict[str, Any]
    classes: tuple[str, ...] = ()

    @property
    def features(self) -> FeatureTable:
        """The features that its learner has seen."""
        return self.learner["_features"]  # type: ignore[no-any-return]

    @property
    def tells_model(self) -> bool:
        """Whether who goes on from here makes the model that the next row is explained with, if there is one."""
        return tells_model(self.learner)

    @property
    def waiting(self) -> Waiting[Any]:
        """The events that wait for their labels."""
        return self.learner["waiting"]  # type: ignore[no-any-return]


def sealed(state: StreamState, place: Checkpoint, *, key: Key | None) -> Checkpoint:
    """Return the checkpoint at a place, with the state under an HMAC that holds for this place only.

    Parameters
    ----------
    state
        What a successor goes on with.
    place
        The checkpoint that is to be written; its own `sealed` is ignored.
    key
        The HMAC key, or several of which the first signs.

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
    """Return what a checkpoint says of its state in the clear; the seal covers all of it."""
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
        None of the keys made its HMAC, or it was made for another checkpoint.
    """
    return open_sealed(checkpoint.sealed, kind=KIND, stream=checkpoint.stream, key=key, **_names(checkpoint))


def newly_sealed(checkpoint: Checkpoint, *, key: Key | None) -> bool:
    """Return whether a checkpoint is sealed with the key that signs now, not with one that only verifies."""
    try:
        verified(checkpoint, key=key[:1] if isinstance(key, tuple) else key)
    except AuthenticationError:
        return False
    return True


def opened(checkpoint: Checkpoint, *, key: Key | None) -> StreamState:
    """The state in a checkpoint.

    Raises
    ------
    StateError
        It is not authentic, or not one that this version can go on with.
    """
    what = f"the checkpoint of stream {checkpoint.stream!r} at row {checkpoint.rows}"
    try:
        body = verified(checkpoint, key=key)
    except AuthenticationError as error:
        raise StateError(f"{what} is not opened: {error}") from error
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
