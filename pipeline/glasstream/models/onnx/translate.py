"""Translate ONNX models to kernels, if the result equals onnxruntime.

A file is read operator by operator. Each tensor is a list of columns of a row that grows by one with each step (see
`glasstream.models.predictors.kernels.transform.Steps`). At the end stand trees or linear forms.

Columns are compared and added as float32, as in onnxruntime. Trees give the same bits. Linear forms are added in
float64 and then rounded, because the order of onnxruntime's sums depends on the processor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

import numpy as np

from glasstream.base.errors import FrameError, NotCompilable
from glasstream.events.features import Kind
from glasstream.models.onnx.attributes import Attributes
from glasstream.models.onnx.file import OnnxFile, library
from glasstream.models.onnx.trees import all_scored, flattened
from glasstream.models.predictors.arrays import Array, sealed_tuple
from glasstream.models.predictors.compiled import Compiled
from glasstream.models.predictors.kernels import transform
from glasstream.models.predictors.kernels.scored import Ending
from glasstream.models.predictors.kernels.scored_forms import ScoredForms
from glasstream.models.predictors.kernels.scored_trees import ScoredTrees
from glasstream.models.predictors.kernels.transform import Steps, Transformed

_FLOAT: Final = 1
_SUMMED: Final = 1e30
"""Largest weight of a linear form that is translated, and largest number that its columns make of a feature up to 1."""
_EXACT: Final = 2**53
"""Bound of whole numbers that a float64 represents exactly."""
_TRANSFORMS: Final = {"NONE": "none", "LOGISTIC": "logistic", "SOFTMAX": "softmax"}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a tensor.

    Attributes
    ----------
    at
        Its place in the row.
    single
        Whether its numbers are float32.
    text
        Whether it is a text, of which the row holds the code.
    whole
        Whether it holds whole numbers only.
    """

    at: int
    single: bool = False
    text: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Scores:
    """The output of trees or linear forms.

    Attributes
    ----------
    make
        Function that makes the predictor from the names of its features and classes, and its ending.
    columns
        The columns that it takes.
    ending
        How the scores end.
    keys
        Texts of the class labels; empty for a regression.
    """

    make: Callable[[tuple[str, ...], tuple[str, ...], Ending], Compiled]
    columns: tuple[_Column, ...]
    ending: Ending
    keys: tuple[str, ...]


class _Label:
    """The label that belongs to scores."""


_Tensor = list[_Column] | _Scores | _Label


@dataclass(slots=True)
class _Translation:
    """What has been translated so far.

    Attributes
    ----------
    width
        Number of features.
    categories
        For each feature the codes of the texts that the model's encoders know.
    tensors
        The tensors by name.
    initializers
        The constants by name, as the file has them.
    steps
        The first seven fields of each step, in the order of `Steps`.
    known
        The tables of the steps: (known, code).
    numbers
        For features that are one-hot encoded, the numbers that the encoders know.
    """

    width: int
    categories: list[dict[str, int]]
    tensors: dict[str, _Tensor] = field(default_factory=dict)
    initializers: dict[str, Any] = field(default_factory=dict)
    steps: list[tuple[float, ...]] = field(default_factory=list)
    known: list[tuple[float, float]] = field(default_factory=list)
    numbers: dict[int, list[float]] = field(default_factory=dict)

    def step(self, kind: int, source: _Column, number: float = 0.0, divisor: float = 1.0, other: int = 0) -> _Column:
        """Add a step, and return the column that it appends."""
        end = len(self.known)
        self.steps.append((kind, source.at, other, number, divisor, end, end))
        return _Column(self.width + len(self.steps) - 1, single=True)

    def lookup(self, source: _Column, table: Mapping[float, float], default: float) -> _Column:
        """Add a step that looks a number up in a table."""
        begin = len(self.known)
        self.known += sorted(table.items())
        self.steps.append((transform.LOOKED_UP, source.at, 0, default, 1.0, begin, len(self.known)))
        return _Column(self.width + len(self.steps) - 1, single=True)

    def single(self, column: _Column) -> _Column:
        """Return a column of numbers rounded to float32."""
        if column.text:
            raise NotCompilable("it calculates with a text")
        return column if column.single else self.step(transform.SINGLE, column)

    def origin(self, column: _Column) -> int:
        """Return the feature from which a column follows step by step."""
        at = column.at
        while at >= self.width:
            at = int(self.steps[at - self.width][1])
        return at

    def code(self, column: _Column, text: str) -> float:
        """Return the code of a text of a feature."""
        codes = self.categories[column.at]
        return float(codes.setdefault(text, len(codes)))

    def columns(self, name: str) -> list[_Column]:
        """Return the columns of a tensor.

        Raises
        ------
        NotCompilable
            It is not a table of columns that follow from the features.
        """
        found = self.tensors.get(name)
        if not isinstance(found, list):
            raise NotCompilable(f"the tensor {name!r} does not follow column by column from the features")
        return found

    def array(self, name: str) -> Array | None:
        """Return a constant; None for any other tensor."""
        found = self.initializers.get(name)
        return None if found is None else np.asarray(library("onnx").numpy_helper.to_array(found))

    def constant(self, name: str, width: int) -> list[float]:
        """Return a constant number for each of so many columns."""
        values = self.array(name)
        if values is None or values.size not in (1, width) or values.dtype != np.float32:
            raise NotCompilable(f"{name!r} is not a constant float32 for each column")
        return [float(value) for value in np.broadcast_to(values.ravel(), (width,))]


def known_texts(file: OnnxFile, before: Sequence[Sequence[str]] | None = None) -> list[list[str]]:
    """Return for each feature its texts by code: those of a stream so far, then others that the model's encoders know.

    Parameters
    ----------
    before
        Texts of the stream for each feature of the model; None before its first event.
    """
    onnx = library("onnx")
    return [list(codes) for codes in _read(onnx, file, before)[0].categories]


def known_numbers(file: OnnxFile) -> list[list[float]]:
    """Return for each feature the numbers that the model's one-hot encoders know; empty for any."""
    found = _read(library("onnx"), file)[0].numbers
    return [found.get(slot, []) for slot in range(len(file.features))]


def translate(file: OnnxFile, texts: Sequence[Sequence[str]] | None = None) -> Compiled:
    """Return the kernels of a model, over the model's features in their order.

    Parameters
    ----------
    texts
        Texts of each feature by code, from `known_texts`; None for those that its encoders know.

    Raises
    ------
    NotCompilable
        The model contains something that has no translation; the message says what.
    """
    onnx = library("onnx")
    translation, problem = _read(onnx, file, texts)
    if problem is not None:
        raise problem
    if file.table is None:
        raise NotCompilable("it gives a label without probabilities")
    scores = translation.tensors.get(file.table)
    if not isinstance(scores, _Scores):
        raise NotCompilable(f"its output {file.table!r} does not come from trees or linear forms")
    if file.label is not None and not isinstance(translation.tensors.get(file.label), _Label):
        raise NotCompilable(f"its output {file.label!r} does not come from trees or linear forms")
    if scores.keys != tuple(map(str, file.keys)):
        raise NotCompilable("its trees or linear forms have other class labels than its output")
    features, columns = file.features, [column.at for column in scores.columns]
    try:
        if not translation.steps and columns == list(range(len(features))):
            return scores.make(features, file.classes, scores.ending)
        inner = scores.make(tuple(f"column {place}" for place in range(len(columns))), file.classes, scores.ending)
    except FrameError as error:
        raise NotCompilable(f"its trees or linear forms do not fit its input: {error}") from error
    steps = np.array(translation.steps, np.float64).reshape(len(translation.steps), 7).T
    known = np.array(translation.known, np.float64).reshape(len(translation.known), 2).T
    return Transformed(features, sealed_tuple(Steps, (*steps, *known, columns)), inner)


def _read(
    onnx: Any, file: OnnxFile, texts: Sequence[Sequence[str]] | None = None
) -> tuple[_Translation, NotCompilable | None]:
    """Translate as many operators as possible; return also the first reason why one could not be translated."""
    codes = [{text: code for code, text in enumerate(known)} for known in texts or [()] * len(file.features)]
    translation = _Translation(len(file.features), codes)
    graph = file.model.graph
    for one in graph.initializer:
        translation.initializers[one.name] = one
    slot = 0
    problem: NotCompilable | None = None
    for given in file.inputs:
        columns = [_Column(slot + place, text=given.kind is Kind.TEXT) for place in range(len(given.features))]
        slot += len(given.features)
        if given.type == "float64":
            rounds = [node.op_type for node in graph.node if _rounds(node)]
            problem = NotCompilable(
                f"it takes float64, which its operator {rounds[0]} rounds to float32"
                if rounds
                else "it calculates in float64"
            )
            continue
        if given.whole:
            columns = [
                replace(translation.step(transform.ROUNDED, column), single=False, whole=True) for column in columns
            ]
        translation.tensors[given.name] = columns
    for node in graph.node:
        values = Attributes(onnx, node)
        operator = _OPERATORS.get(node.op_type)
        try:
            if operator is None:
                raise NotCompilable(f"the operator {node.op_type} has no translation")
            outputs = operator(translation, node, values)
        except NotCompilable as reason:
            problem = problem or NotCompilable(f"{node.op_type}: {reason}" if operator else str(reason))
            continue
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            # onnxruntime says what is wrong with the operator, if it is.
            problem = problem or NotCompilable(f"{node.op_type}: unexpected inputs or attributes ({error!r})")
            continue
        translation.tensors.update(zip(node.output, outputs, strict=False))
    return translation, problem


def _rounds(node: Any) -> bool:
    """Return whether an operator gives float32 whatever it takes."""
    to_single = node.op_type == "Cast" and any(one.name == "to" and one.i == _FLOAT for one in node.attribute)
    return to_single or node.op_type == "FeatureVectorizer"


def _same(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    found = translation.tensors.get(node.input[0])
    if found is None:
        raise NotCompilable(f"the tensor {node.input[0]!r} does not follow column by column from the features")
    return [found]


def _cast(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    (found,) = _same(translation, node, values)
    if isinstance(found, _Label):
        return [found]
    if values["to"] != _FLOAT:
        raise NotCompilable("only a conversion to float32 has a translation")
    if isinstance(found, list) and any(column.text for column in found):
        raise NotCompilable("a conversion of texts has no translation")
    return [found]


def _reshape(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    (found,) = _same(translation, node, values)
    if isinstance(found, _Label):
        return [found]
    shape = translation.array(node.input[1])
    width = len(found) if isinstance(found, list) else len(found.keys) or 1
    if shape is None or shape.ravel().tolist() not in ([-1, width], [0, width]):
        raise NotCompilable("columns are put into another shape")
    return [found]


def _concat(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    if values.get("axis") not in (1, -1):
        raise NotCompilable("only columns can be concatenated")
    return [[column for name in node.input for column in translation.columns(name)]]


def _gather(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    if node.op_type == "Gather" and values.get("axis", 0) != 1:
        raise NotCompilable("only columns can be selected")
    columns, places = translation.columns(node.input[0]), translation.array(node.input[1])
    if places is None or not all(0 <= place < len(columns) for place in places.ravel().tolist()):
        raise NotCompilable("the selected columns are not constant")
    return [[columns[place] for place in places.ravel().tolist()]]


def _imputer(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    if "imputed_value_floats" not in values or not np.isnan(values.get("replaced_value_float", 0.0)):
        raise NotCompilable("only missing numbers can be replaced")
    numbers = _each(values["imputed_value_floats"], len(columns))
    found: list[_Column] = []
    for column, number in zip(columns, numbers, strict=True):
        constant = translation.step(transform.CONSTANT, _Column(0), number)
        found.append(translation.step(transform.FIRST_OF, translation.single(column), other=constant.at))
    return [found]


def _scaler(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    offsets = _each(values.get("offset", [0.0]), len(columns))
    scales = _each(values.get("scale", [1.0]), len(columns))
    return [
        [
            translation.step(transform.SCALED_SINGLE, translation.single(column), offset, scale)
            for column, offset, scale in zip(columns, offsets, scales, strict=True)
        ]
    ]


def _arithmetic(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    first, second = node.input
    if first in translation.initializers and node.op_type in ("Add", "Mul"):
        first, second = second, first
    columns = translation.columns(first)
    numbers = translation.constant(second, len(columns))
    found: list[_Column] = []
    for column, number in zip(columns, numbers, strict=True):
        of = translation.single(column)
        if node.op_type == "Div":
            found.append(translation.step(transform.DIVIDED_SINGLE, of, divisor=number))
        elif node.op_type == "Mul":
            found.append(translation.step(transform.SCALED_SINGLE, of, 0.0, number))
        else:
            found.append(translation.step(transform.SCALED_SINGLE, of, number if node.op_type == "Sub" else -number))
    return [found]


def _one_hot(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    if len(columns) != 1:
        raise NotCompilable("it takes one column at a time")
    (column,) = columns
    texts, numbers = values.get("cats_strings"), values.get("cats_int64s")
    if numbers and not column.text:
        translation.numbers[translation.origin(column)] = [float(one) for one in numbers]
    if texts:
        if not column.text:
            raise NotCompilable("it takes texts")
        kinds = [translation.code(column, one.decode()) for one in texts]
        absent = b"" in texts
    elif numbers and column.whole:
        kinds, absent = [float(one) for one in numbers], False
    else:
        raise NotCompilable("it takes whole numbers")
    if absent:
        raise NotCompilable("an empty text is one of its categories")
    if len(set(kinds)) != len(kinds) or any(abs(one) > _EXACT for one in kinds):
        raise NotCompilable("its categories are not distinct")
    if not values.get("zeros", 1):
        raise NotCompilable("it fails for unknown categories")
    return [[translation.step(transform.IS, column, one) for one in kinds]]


def _label_encoder(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    keys = values.get("keys_strings")
    results = values.get("values_int64s") or values.get("values_floats")
    if not keys or results is None or len(keys) != len(results):
        raise NotCompilable("only a table from texts to numbers has a translation")
    if len(set(keys)) != len(keys):
        raise NotCompilable("its keys are not distinct")
    default = values.get("default_int64", -1) if "values_int64s" in values else values.get("default_float", -0.0)
    found: list[_Column] = []
    for column in translation.columns(node.input[0]):
        if not column.text:
            raise NotCompilable("it takes texts")
        table = {
            translation.code(column, key.decode()): float(result) for key, result in zip(keys, results, strict=True)
        }
        missing = float(dict(zip(keys, results, strict=True)).get(b"", default))
        filled = translation.step(transform.CONSTANT, _Column(0), missing)
        looked_up = translation.lookup(column, table, float(default))
        joined = translation.step(transform.FIRST_OF, looked_up, other=filled.at)
        found.append(replace(joined, single="values_floats" in values))
    return [found]


def _normalizer(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    found = translation.tensors.get(node.input[0])
    if not isinstance(found, _Scores) or values.get("norm") != b"L1":
        raise NotCompilable("only probabilities can be divided by their sum")
    return [replace(found, ending=found.ending._replace(shares=True))]


def _linear(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    columns = _numbers(translation, node)
    classifies = node.op_type == "LinearClassifier"
    weights = values.single("coefficients").astype(np.float64)
    scores = weights.size // max(1, len(columns))
    classes = _names(values) if classifies else ()
    if scores * len(columns) != weights.size or scores != (len(classes) if classifies else 1):
        raise NotCompilable("it has another number of scores than of classes")
    intercepts = values.get("intercepts") or [0.0] * scores
    if not all(abs(one) <= _SUMMED for one in (*weights.tolist(), *intercepts, *_reaches(translation))):
        raise NotCompilable("its sums may leave float32, in an order that is onnxruntime's own")
    ending = Ending(_post_transform(values))
    if not classifies and ending.transform != "none":
        raise NotCompilable(f"a regression that ends with {ending.transform} has no translation")

    def make(features: tuple[str, ...], classes: tuple[str, ...], ending: Ending) -> Compiled:
        return ScoredForms(features, classes, ending, (weights.reshape(scores, len(columns)), intercepts))

    return _ended(_Scores(make, tuple(columns), ending, classes))


def _reaches(translation: _Translation) -> list[float]:
    """Return for each column a bound of its numbers, if those of the features were at most 1; NaN if one is NaN."""
    found = [1.0] * translation.width
    for kind, source, other, number, divisor, first, last in translation.steps:
        reach = found[int(source)]
        if kind in (transform.CONSTANT, transform.LOOKED_UP):
            table = translation.known[int(first) : int(last)]
            reach = float(np.max(np.abs([number, *(code for _, code in table)])))
        elif kind == transform.SCALED_SINGLE:
            reach = (reach + abs(number)) * abs(divisor)
        elif kind == transform.DIVIDED_SINGLE:
            reach = reach / abs(divisor) if divisor else inf
        elif kind == transform.FIRST_OF:
            reach = float(np.maximum(reach, found[int(other)]))
        found.append(reach)
    return found


def _trees(translation: _Translation, node: Any, values: Attributes) -> list[_Tensor]:
    columns = _numbers(translation, node)
    classifies = node.op_type == "TreeEnsembleClassifier"
    if any(name.endswith("_as_tensor") for name in values):
        raise NotCompilable("it calculates in float64")
    prefix = "class" if classifies else "target"
    weights = values.single(f"{prefix}_weights").astype(np.float64)
    targets = values.whole(f"{prefix}_ids")
    base = [float(one) for one in values.get("base_values", [])]
    how = values.get("aggregate_function", b"SUM").decode()
    if how not in ("SUM", "AVERAGE"):
        raise NotCompilable(f"the aggregation {how} has no translation")
    ending = Ending(_post_transform(values))
    classes = _names(values) if classifies else ()
    scores = len(classes) or int(values.get("n_targets", 1))
    if not classifies and (scores != 1 or ending.transform != "none"):
        raise NotCompilable("only a regression of one number, without a transformation, has a translation")
    if targets.size and not (targets.min() >= 0 and targets.max() < scores):
        raise NotCompilable("its leaves name a class or number that it does not have")
    if len(classes) == 2:
        if len(set(targets.tolist())) != 1 or len(base) > 1:
            raise NotCompilable("two classes with weights of their own have no translation")
        targets, scores = np.zeros_like(targets), 1
        positive = bool(np.all(weights >= 0))
        if (ending.transform == "logistic") == positive or ending.transform == "softmax":
            raise NotCompilable("scores of two classes that are neither probabilities nor logits have no translation")
        ending = Ending(label="above half" if positive else "above zero")
    base = base or [0.0] * scores
    if len(base) != scores:
        raise NotCompilable(f"it has {len(base)} base values for {scores} scores")
    uncertain = len(classes) > 2 and "base_values" not in values and not np.all(weights >= 0)

    def make(features: tuple[str, ...], classes: tuple[str, ...], ending: Ending) -> Compiled:
        try:
            arrays = flattened(values, prefix, targets, weights, len(columns), scores)
        except NotCompilable as reason:
            raise NotCompilable(f"{node.op_type}: {reason}") from reason
        if uncertain and not all_scored(arrays, scores):
            raise NotCompilable("rows without a score for some classes have no translation")
        divisor = [float(arrays[9].size if how == "AVERAGE" else 1)]
        return ScoredTrees(features, classes, ending, (*arrays, base, divisor))

    return _ended(_Scores(make, tuple(columns), ending, classes))


def _numbers(translation: _Translation, node: Any) -> list[_Column]:
    """Return the columns of an operator's input, which must be numbers; it rounds them to float32 itself."""
    columns = translation.columns(node.input[0])
    if any(column.text for column in columns):
        raise NotCompilable("it takes numbers")
    return columns


def _ended(scores: _Scores) -> list[_Tensor]:
    """Return the outputs of an operator: of a classifier also the label."""
    return [_Label(), scores] if scores.keys else [scores]


def _each(numbers: Sequence[float], count: int) -> list[float]:
    """Return a number for each of so many columns, of a list that has one for each or one for all."""
    if len(numbers) not in (1, count):
        raise NotCompilable(f"it has {len(numbers)} numbers for {count} columns")
    return list(numbers) * (count if len(numbers) == 1 else 1)


def _post_transform(values: Attributes) -> str:
    name = values.get("post_transform", b"NONE").decode()
    if name not in _TRANSFORMS:
        raise NotCompilable(f"the transformation {name} has no translation")
    return _TRANSFORMS[name]


def _names(values: Attributes) -> tuple[str, ...]:
    """Return the class labels of an operator as texts."""
    names = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
    found = next((values[name] for name in names if values.get(name)), ())
    return tuple(one.decode() if isinstance(one, bytes) else str(one) for one in found)


_OPERATORS: Final[Mapping[str, Callable[[_Translation, Any, Attributes], list[_Tensor]]]] = {
    "Add": _arithmetic,
    "ArrayFeatureExtractor": _gather,
    "Cast": _cast,
    "Concat": _concat,
    "Div": _arithmetic,
    "Gather": _gather,
    "Identity": _same,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear,
    "LinearRegressor": _linear,
    "Mul": _arithmetic,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot,
    "Reshape": _reshape,
    "Scaler": _scaler,
    "Sub": _arithmetic,
    "TreeEnsembleClassifier": _trees,
    "TreeEnsembleRegressor": _trees,
}
"""Operators that have a translation."""
