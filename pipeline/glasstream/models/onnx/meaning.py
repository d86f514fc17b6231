"""Check on a few rows that a model's answers mean what its file and the settings say.

A row that the model does not take refuses no file: the domain of a model is its own. So these checks see only rows for
which the model has answered.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.events.sources.listing import listed
from glasstream.models.onnx.file import OnnxFile
from glasstream.models.onnx.remedies import ARRAY, TARGETS
from glasstream.models.predictors.predictor import NO_LABEL, Floats, Output

OUTSIDE: Final = 1e-3
"""How far a probability may be outside 0..1 by rounding."""
_SUM: Final = 0.05
"""How far the sum of a row's probabilities may be from 1 by rounding, also to numbers of eight bits."""
_PROBED: Final = 37
"""Number of rows on which a model is examined once."""
MUCH: Final = 1e-3
"""Relative difference of results that is more than rounding."""
NEIGHBOURS: Final = (
    "the result of a row depends on the other rows of a call, so the model evaluates each row alone; was it exported "
    "while it trained (PyTorch: call model.eval() before the export), or does it quantize its numbers dynamically "
    "(quantize it statically)?"
)
UNANSWERED: Final = (
    "the model answers none of the rows on which it was tried, with numbers between -2 and 2; if it answers no event, "
    "compare the file with the original model"
)


def unread(file: OnnxFile) -> str | None:
    """Return the notice about features that no operator of a file reads."""
    if not (names := file.unread):
        return None
    return (
        f"no operator of the file reads {listed(names)}; unless the original model leaves them out, too, the exporter "
        "has lost them, as for some transformers of a data frame (SelectKBest, PowerTransformer), and the predictions "
        f"are wrong: {ARRAY}"
    )


def trial_rows(width: int, categories: Sequence[Sequence[str]], numbers: Sequence[Sequence[float]]) -> Floats:
    """Return rows of the texts and numbers that a model's encoders know, and of numbers between -2 and 2."""
    steps = np.arange(_PROBED * width, dtype=np.float64).reshape(_PROBED, width) * 0.6180339887498949 % 1.0
    rows: Floats = np.asarray(steps * 4.0 - 2.0, np.float64)
    for slot, texts in enumerate(categories):
        if texts:
            rows[:, slot] = np.floor(steps[:, slot] * len(texts))
    for slot, known in enumerate(numbers):
        if known:
            rows[:, slot] = np.array(known)[(steps[:, slot] * len(known)).astype(np.int64)]
    return rows


def expect_meaning(file: OnnxFile, output: Output, labels: Sequence[int | str]) -> None:
    """Check what a model answered for at least one row.

    Parameters
    ----------
    labels
        Its label for each row, as the output has it; empty without one.

    Raises
    ------
    ModelError
        It does not mean what the file and the settings say.
    """
    if file.classes and file.table is not None:
        _expect_probabilities(file, output.values)
    if labels:
        _expect_labels(file, output, labels)


def label_remedy(file: OnnxFile) -> str:
    """Return what to do about a label that is not one of the classes."""
    own = "train it with the classes 0, 1, 2 and so on, which one-vs-one models need"
    ways = [own if file.own_keys else "list the values of the label with model.classes, all of them"]
    if file.table is not None:
        ways.append(f"use the probabilities alone with model.outputs={file.table}")
    return ", or ".join([*ways, "export a model whose label is one of its classes"])


def probability_remedy(classes: Sequence[str], label: str | None) -> str:
    """Return what to do about numbers that are no probabilities."""
    if not classes:
        return f"if they are probabilities of classes, list the classes with model.classes; {TARGETS}"
    if label is None:
        return "export the model with a softmax (for a single column: a sigmoid) at its end"
    return (
        "export a model with calibrated probabilities (a net: with a softmax or sigmoid at its end), or use its labels "
        f"alone with model.outputs={label}"
    )


def _expect_probabilities(file: OnnxFile, values: np.ndarray) -> None:
    """Refuse a classifier that gives no probabilities for most of the rows."""
    outside = np.any((values < -OUTSIDE) | (values > 1.0 + OUTSIDE), axis=1)
    if 2 * outside.sum() > len(values):
        raise ModelError(
            f"model.outputs: expected probabilities between 0 and 1 in the model's output {file.table!r}, got "
            f"scores, such as {_shown(values[outside][0])}; {probability_remedy(file.classes, file.label)}"
        )
    sums = values.sum(axis=1)
    apart = np.abs(sums - 1.0) > _SUM
    if file.label is None and 2 * apart.sum() > len(values):
        raise ModelError(
            f"model.classes: expected probabilities with the sum 1 in the model's output {file.table!r}, got "
            f"{_shown(values[apart][0])} with the sum {sums[apart][0]:.4g}; if several classes may be right for one "
            "event, export one model for each class; otherwise, export the model with a softmax at its end"
        )


def _expect_labels(file: OnnxFile, output: Output, labels: Sequence[int | str]) -> None:
    """Refuse a classifier that gives labels beyond its classes, or always another one than its probabilities."""
    unknown = output.labels == NO_LABEL
    several = sorted(set(labels), key=lambda one: (str(type(one)), one))
    got = ", ".join(map(str, several))[:200]
    if np.any(unknown):
        positions = not file.own_keys and file.classes != tuple(map(str, file.keys))
        raise ModelError(
            f"model.classes: expected labels among {', '.join(map(str, file.keys))[:200]} in the model's output "
            f"{file.label!r}, {_SOURCES[file.own_keys, positions]}, got {got}; {label_remedy(file)}"
        )
    best = output.values.argmax(axis=1)
    if file.table is not None and not file.own_keys and len(several) > 1 and not np.any(best == output.labels):
        raise ModelError(
            f"model.classes: expected the classes in the order of the probabilities, but the model's output "
            f"{file.label!r}, which gives {got}, never names the class whose probability in {file.table!r} is largest; "
            f"list them in another order, or use the probabilities alone with model.outputs={file.table}"
        )


_SOURCES: Final = {
    (True, False): "which are the classes of the file",
    (False, False): "which are those of model.classes",
    (False, True): "because names that are no whole numbers stand for the labels from 0 on",
}
"""Where the keys come from: whether they are the file's, and whether they are positions."""


def _shown(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
