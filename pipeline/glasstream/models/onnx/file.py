"""Read and check an ONNX file: which features the model takes, what it predicts, and the names of its classes."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from glasstream.base.errors import ModelError
from glasstream.events.admission import Task
from glasstream.events.features import Kind
from glasstream.events.limits import IngestLimits
from glasstream.models.onnx.outputs import expect_order, outputs_of, type_of
from glasstream.models.onnx.remedies import INPUTS, LARGE, way_out
from glasstream.models.onnx.safety import expect_safe

LARGEST: Final = 64 * 1024 * 1024
"""Largest file that is read, in bytes. The snapshot for the explainers may hold the whole file."""
_WHOLE: Final = frozenset({"int32", "int64"})


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the model.

    Attributes
    ----------
    name
        Name in the file.
    type
        float32, float64, int32, int64, bool or text.
    features
        Names of the features that are its columns.
    flat
        Whether it has no second dimension.
    """

    name: str
    type: str
    features: tuple[str, ...]
    flat: bool = False

    @property
    def kind(self) -> Kind:
        """Kind of its features."""
        return Kind.TEXT if self.type == "text" else Kind.NUMBER

    @property
    def whole(self) -> bool:
        """Whether its features are whole numbers, which cannot be missing."""
        return self.type in _WHOLE or self.type == "bool"


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model as its file describes it.

    Attributes
    ----------
    model
        The file's content, without the operators that turn probabilities into dicts.
    inputs
        Inputs in their order.
    task
        Task of the model.
    label, table
        Names of the outputs with the labels, and with the probabilities or numbers; None for a missing one. Without
        labels, the label is the class with the largest probability. A single column is the probability of the second of
        two classes.
    keys
        Values of the output `label`, in the order of the columns of `table`; empty without one.
    classes
        Texts of the classes, in the same order.
    own_keys
        Whether the keys are in the file; otherwise they follow from `model.classes`.
    """

    model: Any
    inputs: tuple[Input, ...]
    task: Task
    label: str | None
    table: str | None
    keys: tuple[int | str, ...]
    classes: tuple[str, ...]
    own_keys: bool = True

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in the order of the inputs."""
        return tuple(name for one in self.inputs for name in one.features)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of the features."""
        return [one.kind for one in self.inputs for _ in one.features]

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the features whose input no operator reads."""
        read = {*_read(self.model.graph)}
        return tuple(name for one in self.inputs if one.name not in read for name in one.features)


def _read(graph: Any) -> Iterator[str]:
    """Yield the names of the tensors that a graph and those inside of it read or return."""
    yield from (one.name for one in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _read(inner)


def library(name: str) -> ModuleType:
    """Return the package `name` of the extra `onnx`.

    Raises
    ------
    ModelError
        It is not installed.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(
            f"a model in an ONNX file needs the package {name}: run `pip install 'glasstream[onnx]'`, or build the "
            f"image with `--build-arg EXTRAS='registry onnx'` ({error})"
        ) from error


def content(path: str, sha256: str | None) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    ModelError
        The file cannot be read, is too large, or has another SHA-256.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pure folders import no pathlib
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ModelError(f"model.name: cannot read {path!r}: {error.strerror or error}") from error
    if len(data) > LARGEST:
        raise ModelError(
            f"model.name: expected a file of at most {LARGEST:,} bytes, got a larger one: {path!r}; {LARGE}"
        )
    found = digest(data)
    if sha256 is not None and found != sha256.lower():
        raise ModelError(
            f"model.digest: expected {path!r} to have the SHA-256 {sha256}, got {found}; restore the file, or set the "
            "new one and start every stage with --new-epoch N"
        )
    return data


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes, names: str | None = None, classes: str | None = None, outputs: str | None = None) -> OnnxFile:
    """Return what a file describes.

    Parameters
    ----------
    data
        Content of the file.
    names, classes, outputs
        The settings `model.features`, `model.classes` and `model.outputs`.

    Raises
    ------
    ModelError
        The file is not an ONNX model that can be used, or names are missing.
    """
    onnx = library("onnx")
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise ModelError(
            f"model.name: expected an ONNX file, got one that cannot be read ({error}); export the model again"
        ) from error
    model.DiscardUnknownFields()  # no check would see them, and a newer onnxruntime might know them
    if not model.graph.node:
        raise ModelError("model.name: expected an ONNX file with operators, got none")
    try:
        expect_safe(onnx, model)
        return _described(onnx, model, names, classes, outputs)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelError(
            "model.name: expected an ONNX file whose operators and tensors are as the standard describes them, got one "
            f"that is damaged ({type(error).__name__}: {error!s:.200}); export the model again"
        ) from error


def _described(onnx: Any, model: Any, names: str | None, classes: str | None, outputs: str | None) -> OnnxFile:
    notes = {one.key: one.value for one in model.metadata_props}

    def listed(given: str | None, what: str) -> list[str]:
        noted = _listed(notes.get(what), f"metadata `{what}`")
        names = _listed(given, f"model.{what}")
        if what != "outputs":
            expect_order(f"model.{what}", names, noted)
        return names or noted

    inputs = _inputs(onnx, model.graph, listed(names, "features"))
    found = outputs_of(onnx, model.graph, listed(outputs, "outputs"), listed(classes, "classes"))
    task = Task.CLASSIFICATION if found.classes else Task.REGRESSION
    return OnnxFile(model, inputs, task, *found)


def expect_within(file: OnnxFile, texts: Sequence[Sequence[str]], limits: IngestLimits) -> None:
    """Check that a stream may have the features and classes of a model, and the texts that its encoders know.

    Raises
    ------
    ModelError
        They exceed a limit, which the message names.
    """
    for setting, what, count, most in (
        ("limits.features", "features", len(file.features), limits.features),
        ("limits.classes", "classes", len(file.classes), limits.classes),
        ("limits.categories", "texts of a feature", max(map(len, texts)), limits.categories),
    ):
        if count > most:
            raise ModelError(f"{setting}: the model has {count} {what}, and a stream may have {most}; raise {setting}")
    longest = max(file.features, key=len)
    if len(longest) > limits.text:
        raise ModelError(f"limits.text: a feature of the model has a name of {len(longest)} characters; raise it")


def _listed(text: str | None, where: str) -> list[str]:
    """Return the names in a JSON list, or in a text separated by commas."""
    if text is None or not text.strip():
        return []
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{where}: expected a JSON list of names, or names separated by commas: {error}") from error
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ModelError(f"{where}: expected a list of texts, got {text!r:.200}")
    return found


def input_type(onnx: Any, value: Any) -> str:
    """Return the type of an input and its dimensions for a message, such as FLOAT16[n, 4]."""
    if not value.type.HasField("tensor_type"):
        return f"a {(value.type.WhichOneof('value') or 'thing without a type').removesuffix('_type')}"
    of = value.type.tensor_type
    sizes = ", ".join(str(size.dim_value or "n") for size in of.shape.dim)
    return f"{onnx.TensorProto.DataType.Name(of.elem_type)}[{sizes}]"


def _inputs(onnx: Any, graph: Any, names: Sequence[str]) -> tuple[Input, ...]:
    """Return the inputs, with names for their columns."""
    constant = {one.name for one in graph.initializer}
    found: list[tuple[str, str, int, bool]] = []
    for one in graph.input:
        if one.name in constant:
            continue
        kind, sizes = type_of(one), [size.dim_value for size in one.type.tensor_type.shape.dim]
        if kind is None or len(sizes) not in (1, 2):
            what = input_type(onnx, one)
            raise ModelError(
                f"model.name: expected inputs that are tables of numbers or texts with a row for each event, but the "
                f"input {one.name!r} is {what}; {way_out(INPUTS, 'dimensions' if kind else what)}"
            )
        if sizes[0] > 0:
            raise ModelError(
                f"model.name: expected inputs for any number of rows, but {one.name!r} takes exactly {sizes[0]}; "
                "export the model with None as the first dimension, or, if the input is no feature, with a "
                "constant in its place"
            )
        found.append((one.name, kind, sizes[1] if len(sizes) == 2 else 1, len(sizes) == 1))
    if not found:
        raise ModelError("model.name: expected a model with inputs, got none")
    if len(found) == 1 and found[0][2] == 0 and names:
        found = [(*found[0][:2], len(names), False)]
    width = sum(columns for _, _, columns, _ in found)
    if not names and any(columns != 1 for _, _, columns, _ in found):
        many = next(one for one in found if one[2] != 1)
        raise ModelError(
            f"model.features: expected the names of the model's features, because its input {many[0]!r} has "
            f"{many[2] or 'any number of'} columns without names; list them in the order of the columns, separated by "
            "commas, or store them in the file as metadata `features`"
        )
    if names and len(names) != width:
        raise ModelError(f"model.features: expected {width} names, one for each column of the inputs, got {len(names)}")
    if all(columns == 1 for _, _, columns, _ in found):
        expect_order("model.features", names, [name for name, _, _, _ in found])
    rest = iter(names or [name for name, _, _, _ in found])
    inputs = tuple(
        Input(name, kind, tuple(next(rest) for _ in range(columns)), flat) for name, kind, columns, flat in found
    )
    own = [name for one in inputs for name in one.features]
    if len(set(own)) != len(own) or "" in own:
        raise ModelError(f"model.features: expected different names that are not empty, got {', '.join(own)}")
    return inputs
