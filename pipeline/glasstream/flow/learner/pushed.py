"""Models that replace the one of a running stream.

A mark on `events` names the SHA-256 of a file, and the stream has this model from there on. Such a model fits if it
takes the same features and predicts the same classes as the one before; its encoders may know other texts. A model that
does not fit is refused, and the stream keeps the one that it has.

A model may be refused for reasons that are not on the log: its file was not there yet, or onnxruntime needs a key. What
was decided is therefore saved, and a worker that relearns the stream follows the decision (`Decisions`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from glasstream.base.errors import AuthenticationError, FrameError, ModelError, StateError
from glasstream.events.features import FeatureTable
from glasstream.flow.settings import Settings
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream.models.onnx.file import LARGEST, OnnxFile, parse
from glasstream.models.onnx.loading import loaded
from glasstream.models.onnx.model import FixedModel
from glasstream_topics import models

MOST_REFUSED: Final = 1_000
"""Number of refused marks of a stream and epoch from which on all further marks are refused."""

File = Callable[[str], bytes]
"""Function that returns the file with a SHA-256, or raises FrameError."""

Trial = Callable[[bytes, tuple[str | None, str | None, str | None]], object]
"""Function that tries a file, with the names that the settings give, in a process of its own, or raises ModelError."""


def file_of(name: str, records: Mapping[bytes, bytes]) -> bytes:
    """Return a file from records of the topic `models`; raise FrameError if it is not there or damaged."""
    return models.whole(name, records, LARGEST)


def no_files(name: str) -> bytes:
    """Raise FrameError, where there is no topic with files."""
    raise FrameError("expected its chunks, but this learner reads no topic of them")


def untried(data: bytes, named: tuple[str | None, str | None, str | None]) -> None:
    """Try nothing, where files are trusted."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a predecessor has decided about marks.

    Attributes
    ----------
    until
        Offset before which every mark has been decided.
    refused
        Offsets of the marks that were refused for reasons that need not be on the log, by stream, in order.
    """

    until: int = 0
    refused: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PushedModels:
    """The models that marks name.

    Parameters
    ----------
    file
        Where their files are.
    key
        HMAC key for models that onnxruntime evaluates.
    trial
        What tries a file before this process reads it.
    """

    file: File = no_files
    key: Key | None = None
    trial: Trial = untried

    def fitting(self, name: str, of: Settings, before: FixedModel, table: FeatureTable, stream: str) -> FixedModel:
        """Return the model that replaces another one.

        Parameters
        ----------
        name
            SHA-256 of its file.
        of
            Settings of the stream.
        before
            The model that it replaces.
        table
            The features of the stream.

        Raises
        ------
        ModelError
            It cannot be used. The message says why, and what to do.
        """
        data = self._bytes(name, of)
        self.trial(data, of.model.named)
        texts = [list(codes) for codes in table.categories[: len(before.features)]]
        try:
            model = _made(name, data, of, before, texts)
            model.predictor.evaluate(np.zeros((1, len(model.features))))  # compiles the kernels
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"expected a model that can be used, but {type(error).__name__}: {str(error)[:300]}; export it again"
            ) from error
        try:
            snapshot = codec.encode(model.predictor, stream=stream, epoch=of.epoch, version=0, key=self.key)
        except AuthenticationError as error:
            raise ModelError(
                f"onnxruntime evaluates the model ({model.generic}), so its snapshot must be sealed, and this learner "
                "has no key; give all workers the same GLASSTREAM_HMAC_KEY, and push the model again"
            ) from error
        if len(snapshot) > of.limits.snapshot_largest:
            raise ModelError(
                f"expected a snapshot of at most {of.limits.snapshot_largest:,} bytes (limits.snapshot_largest), got "
                f"{len(snapshot):,}; push a smaller model, or raise the limit and push it again"
            )
        return model

    def again(self, name: str, of: Settings, before: FixedModel, texts: Sequence[Sequence[str]]) -> FixedModel:
        """Return a model that a predecessor has used.

        Parameters
        ----------
        texts
            Texts of each feature, as the stream had them when the model came.

        Raises
        ------
        StateError
            It cannot be made again.
        """
        try:
            return _made(name, self._bytes(name, of), of, before, texts)
        except ModelError as error:
            raise StateError(
                f"the stream uses the pushed model {name}, which cannot be loaded again: {error}; store its file "
                "again (`glasstream model push FILE`), or start a new epoch"
            ) from error

    def _bytes(self, name: str, of: Settings) -> bytes:
        try:
            return self.file(name)
        except FrameError as error:
            raise ModelError(
                f"the file with the SHA-256 {name} is not on the topic {of.prefix}{models.TOPIC.name}, or is damaged: "
                f"{error}; push the file itself (`glasstream model push FILE`)"
            ) from error


def _made(name: str, data: bytes, of: Settings, before: FixedModel, texts: Sequence[Sequence[str]]) -> FixedModel:
    file = parse(data, *of.model.named)
    _expect_alike(file, before)
    return FixedModel(loaded(file, texts), of.limits, of.model.absent, name)


def _expect_alike(file: OnnxFile, before: FixedModel) -> None:
    """Raise ModelError if a model takes or predicts something else than the one that it replaces."""
    for what, now, then in (
        ("the task", [file.task.value], [before.task.value]),
        ("the features", list(file.features), list(before.features)),
        ("the kinds", [kind.name.lower() for kind in file.kinds], [kind.name.lower() for kind in before.kinds]),
        ("the classes", list(file.classes), list(before.classes)),
    ):
        if now != then:
            raise ModelError(
                f"expected {what} of the stream's model, {', '.join(then)[:300]}, got {', '.join(now)[:300]}; export "
                "the model with the same columns and classes in the same order, or start every stage with it and "
                "--new-epoch N"
            )
