"""The seals of the states that aggregator and novelty detector commit.

As with checkpoints (`glasstream.flow.learner.checkpoint`), a stage with an HMAC key seals what it saves and uses only
what a holder of the key has saved. The HMAC is verified before anything is decoded.
"""

from collections.abc import Mapping
from typing import Final

from glasstream.base.errors import AuthenticationError, StateError
from glasstream.base.form import NEW_EPOCH
from glasstream.models.codec.authentication import Key, Named, open_sealed, seal
from glasstream_topics.progress import Open, Seal, Setting
from glasstream_topics.progress_aggregator import AggregatorStreamProgress

AGGREGATOR: Final = "aggregator-state"
NOVELTY: Final = "novelty-anchor"
"""Kinds of sealed states."""


def named_by_aggregator(progress: AggregatorStreamProgress) -> dict[str, Named]:
    """Return what the record of a stream says of its aggregator's state. The seal covers all of it."""
    return {
        "epoch": progress.epoch,
        "next_row": progress.next_row,
        "published_row": progress.published_row,
        "failed": progress.failed,
        "cause": progress.cause,
    }


def named_by_novelty(epoch: int, seqs: int) -> dict[str, Named]:
    """Return what the record of a stream says of its anchor. The seal covers all of it."""
    return {"epoch": epoch, "seqs": seqs}


class Seals:
    """Seals and opens the states of one stage.

    Parameters
    ----------
    kind
        Kind of the state.
    key
        HMAC key, or several, of which the first seals; None if states are plain.
    fingerprint
        Settings and versions that the states belong to.
    """

    def __init__(self, kind: str, key: Key | None, fingerprint: Mapping[str, Setting]) -> None:
        self._kind = kind
        self._key = key
        self._fingerprint = dict(fingerprint)
        self.older: set[str] = set()
        """Streams whose state was opened, and is sealed with another key than the first."""

    def sealing(self, stream: str, **of: Named) -> Seal | None:
        """Return the function that seals a state; None if there is no key.

        Parameters
        ----------
        of
            What the record around the state says of it. The state is refused elsewhere.
        """
        if self._key is None:
            return None
        named: dict[str, Named] = {"fingerprint": self._fingerprint, **of}
        return lambda body: seal(body, kind=self._kind, stream=stream, key=self._key, **named)

    def opening(self, where: str, stream: str, **of: Named) -> Open:
        """Return the function that verifies and opens a state; it raises StateError for one that is not authentic.

        Parameters
        ----------
        where
            Position of the state, for errors.
        of
            As in `sealing`.
        """

        def opened(data: bytes, sealed: bool) -> bytes:
            try:
                return self._opened(data, sealed, stream, {"fingerprint": self._fingerprint, **of})
            except AuthenticationError as error:
                raise StateError(f"{where}: cannot open the state of stream {stream!r}: {error}") from error

        return opened

    def _opened(self, data: bytes, sealed: bool, stream: str, of: Mapping[str, Named]) -> bytes:
        if not sealed:
            if self._key is None:
                return data
            raise AuthenticationError(
                "it was saved without an HMAC key, and this worker has one; unset GLASSTREAM_HMAC_KEY (and "
                f"GLASSTREAM_HMAC_KEY_FILE) to use the state, or {NEW_EPOCH}"
            )
        body = open_sealed(data, kind=self._kind, stream=stream, key=self._key, **of)
        if isinstance(self._key, tuple) and len(self._key) > 1:
            try:
                open_sealed(data, kind=self._kind, stream=stream, key=self._key[0], **of)
            except AuthenticationError:
                self.older.add(stream)
        return body
