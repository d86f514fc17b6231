"""Save the state of a stream's learner in a checkpoint, and restore it.

A state is plain data if its model learns in compiled code (`glasstream.flow.learner.stream_state`). Otherwise it is a
pickle, because the model comes from River or from the user. A pickle needs an HMAC key, and is opened only after its
HMAC has been verified. With a key, plain data are sealed and verified, too.

A checkpoint is normally taken right after a snapshot. At that point no block is open, and every later row is explained
with this version of the model or a later one, so the state needs no earlier version. A checkpoint at another point,
after open blocks have been cut, also holds the newest snapshot if the model is compiled. The snapshot of any other
model stays on `snapshots` until later rows are aggregated.
"""

import pickle
from dataclasses import replace
from typing import Final

from glasstream.base.errors import AuthenticationError, GlasstreamError, ModelError, StateError
from glasstream.flow.learner import stream_state
from glasstream.flow.learner.pushed import PushedModels
from glasstream.flow.learner.state import LearnerState
from glasstream.flow.learner.stream_state import StreamState
from glasstream.flow.settings import Settings
from glasstream.models.codec.authentication import Key, Named, open_sealed, seal
from glasstream_topics.checkpoints import PICKLE, PLAIN, SEALED, Checkpoint

KIND: Final = "checkpoint"


def saved(state: StreamState, place: Checkpoint, *, key: Key | None) -> Checkpoint:
    """Return the checkpoint with a state, sealed by an HMAC that is valid for this checkpoint only if there is a key.

    Parameters
    ----------
    state
        State from which a successor resumes.
    place
        Checkpoint to be written; its own `form` and `state` are ignored.
    key
        The HMAC key, or several keys of which the first signs; None is enough for plain data.

    Raises
    ------
    ModelError
        The model cannot be pickled.
    AuthenticationError
        The state is a pickle, and there is no key.
    """
    data = stream_state.encode(state)
    if data is not None and key is None:
        return replace(place, form=PLAIN, state=data)
    try:
        body = pickle.dumps(state, protocol=5) if data is None else data
    except Exception as error:
        raise ModelError(
            f"stream {place.stream!r}: its model cannot be pickled ({type(error).__name__}: {error}), so it "
            "cannot be checkpointed; define its parts at the top level of a module, or set checkpoint.seconds = 0 "
            "(a restart then relearns the whole log)"
        ) from error
    place = replace(place, form=PICKLE if data is None else SEALED)
    return replace(place, state=seal(body, kind=KIND, stream=place.stream, key=key, **_names(place)))


def _names(checkpoint: Checkpoint) -> dict[str, Named]:
    """Return the metadata that a checkpoint holds in the clear. The seal covers all of it."""
    return {
        "epoch": checkpoint.epoch,
        "rows": checkpoint.rows,
        "seqs": checkpoint.seqs,
        "offset": checkpoint.offset,
        "used": checkpoint.used,
        "fingerprint": checkpoint.fingerprint,
        "form": checkpoint.form,
    }


def verified(checkpoint: Checkpoint, *, key: Key | None) -> bytes:
    """Return the bytes of the state in a checkpoint, unopened.

    Raises
    ------
    AuthenticationError
        None of the keys made its HMAC, or the HMAC belongs to another checkpoint; or it has none although there is a
        key.
    """
    if checkpoint.form == PLAIN:
        if key is None:
            return checkpoint.state
        raise AuthenticationError(
            f"the state of stream {checkpoint.stream!r} was saved without an HMAC key, and this worker has one; unset "
            "GLASSTREAM_HMAC_KEY (and GLASSTREAM_HMAC_KEY_FILE) to use the state, or begin a new epoch"
        )
    return open_sealed(checkpoint.state, kind=KIND, stream=checkpoint.stream, key=key, **_names(checkpoint))


def newly_sealed(checkpoint: Checkpoint, *, key: Key | None) -> bool:
    """Return whether a checkpoint needs no other seal: it has one of the signing key, or there is no key."""
    try:
        verified(checkpoint, key=key[:1] if isinstance(key, tuple) else key)
    except AuthenticationError:
        return False
    return True


def opened(
    checkpoint: Checkpoint, settings: Settings, *, key: Key | None, models: PushedModels | None = None
) -> StreamState:
    """Return the state in a checkpoint.

    Parameters
    ----------
    settings
        All settings, as the fingerprint of the checkpoint demands.
    models
        The models that marks name.

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
    if checkpoint.form == PICKLE:
        return _unpickled(body, what)
    stream, rows, seqs = checkpoint.stream, checkpoint.rows, checkpoint.seqs
    try:
        return stream_state.decode(body, stream=stream, rows=rows, seqs=seqs, settings=settings, models=models)
    except GlasstreamError as error:
        raise StateError(f"{what} cannot be used: {error}; start a new epoch") from error


def _unpickled(body: bytes, what: str) -> StreamState:
    try:
        state = pickle.loads(body)  # noqa: S301 - authentic
    except Exception as error:
        raise StateError(
            f"{what} cannot be read by this version ({type(error).__name__}: {error}); go back to the version that "
            "wrote it, or start a new epoch"
        ) from error
    if not isinstance(state, StreamState) or not isinstance(state.learner, LearnerState):
        raise StateError(f"{what}: expected the state of a stream, got {type(state).__name__}; start a new epoch")
    return state
