"""Load the model of an ONNX file, into kernels or into onnxruntime. This imports no River."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from glasstream.base.errors import NotCompilable
from glasstream.models.onnx.file import OnnxFile, content, parse
from glasstream.models.onnx.meaning import unread
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.onnx.translate import known_numbers, known_texts, translate
from glasstream.models.predictors.predictor import Predictor


class Loaded(NamedTuple):
    """A file, its predictor, the texts that its encoders know, and why it is not translated (None if it is).

    The notices are lines for the user about the trial of the model.
    """

    file: OnnxFile
    predictor: Predictor
    texts: list[list[str]]
    generic: str | None
    notices: tuple[str, ...] = ()


def loaded(file: OnnxFile, texts: Sequence[Sequence[str]] | None = None) -> Loaded:
    """Return the model of a file for a stream.

    Parameters
    ----------
    texts
        Texts of each feature that the stream has had; None before its first event.

    Raises
    ------
    ModelError
        The file cannot be used.
    """
    known = known_texts(file, texts)
    # First, because nothing that onnxruntime refuses may be translated.
    called = OnnxPredictor.of(file, known, known_numbers(file))
    lost = unread(file)
    notices = () if lost is None else (lost,)
    if not called.answers:
        return Loaded(file, called, known, "onnxruntime has evaluated no row yet", (*called.notices, *notices))
    try:
        return Loaded(file, translate(file, known), known, None, notices)
    except NotCompilable as reason:
        return Loaded(file, called, known, str(reason), (*called.notices, *notices))


@lru_cache(maxsize=4)
def load(path: str, sha256: str | None, named: tuple[str | None, str | None, str | None]) -> Loaded:
    """Return the model of a file; parameters are settings of the section `model`, and its `named`.

    Raises
    ------
    ModelError
        The file cannot be used.
    """
    return loaded(parse(content(path, sha256), *named))
