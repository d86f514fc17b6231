"""Translate ONNX models to kernels, if the result equals onnxruntime.

A file is read operator by operator. Each tensor is a list of columns of a row that grows by one with each step (see
`glasstream.models.kernels.transform.Steps`). At the end stand trees or linear forms.

Columns are compared and added as float32, as in onnxruntime. Trees give the same bits. Linear forms are added in
float64 and then rounded, because the order of onnxruntime's sums depends on the processor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from glasstream.errors import NotCompilable
from glasstream.ingest.features import Kind
from glasstream.models.contract.arrays import sealed_tuple
from glasstream.models.contract.compiled import Compiled
from glasstream.models.fixed.file import OnnxFile, library
from glasstream.models.kernels import transform
from glasstream.models.kernels.scored import Ending
from glasstream.models.kernels.scored_forms import ScoredForms
from glasstream.models.kernels.scored_trees import ScoredTrees
from glasstream.models.kernels.transform import Steps, Transformed
from glasstream.models.kernels.walk import LEAF, NUMERIC_BINARY

_FLOAT: Final = 1
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
    tensors, constants
        The tensors by name.
    steps
        The first seven fields of each step, in the order of `Steps`.
    known
        The tables of the steps: (known, code).
    """

    width: int
    categories: list[dict[str, int]]
    tensors: dict[str, _Tensor] = field(default_factory=dict)
    constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    steps: list[tuple[float, ...]] = field(default_factory=list)
    known: list[tuple[float, float]] = field(default_factory=list)

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

    def constant(self, name: str, width: int) -> list[float]:
        """Return a constant number for each of so many columns."""
        values = self.constants.get(name)
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
    if not translation.steps and columns == list(range(len(features))):
        return scores.make(features, file.classes, scores.ending)
    steps = np.array(translation.steps, np.float64).reshape(len(translation.steps), 7).T
    known = np.array(translation.known, np.float64).reshape(len(translation.known), 2).T
    inner = scores.make(tuple(f"column {place}" for place in range(len(columns))), file.classes, scores.ending)
    return Transformed(features, sealed_tuple(Steps, (*steps, *known, columns)), inner)


def _read(
    onnx: Any, file: OnnxFile, texts: Sequence[Sequence[str]] | None = None
) -> tuple[_Translation, NotCompilable | None]:
    """Translate as many operators as possible; return also the first reason why one could not be translated."""
    codes = [{text: code for code, text in enumerate(known)} for known in texts or [()] * len(file.features)]
    translation = _Translation(len(file.features), codes)
    graph = file.model.graph
    for one in graph.initializer:
        translation.constants[one.name] = onnx.numpy_helper.to_array(one)
    slot = 0
    problem: NotCompilable | None = None
    for given in file.inputs:
        columns = [_Column(slot + place, text=given.kind is Kind.TEXT) for place in range(len(given.features))]
        slot += len(given.features)
        if given.type == "float64":
            problem = NotCompilable("it calculates in float64")
            continue
        if given.whole:
            columns = [
                replace(translation.step(transform.ROUNDED, column), single=False, whole=True) for column in columns
            ]
        translation.tensors[given.name] = columns
    for node in graph.node:
        values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
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


def _same(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    found = translation.tensors.get(node.input[0])
    if found is None:
        raise NotCompilable(f"the tensor {node.input[0]!r} does not follow column by column from the features")
    return [found]


def _cast(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    (found,) = _same(translation, node, values)
    if isinstance(found, _Label):
        return [found]
    if values["to"] != _FLOAT:
        raise NotCompilable("only a conversion to float32 has a translation")
    if isinstance(found, list) and any(column.text for column in found):
        raise NotCompilable("a conversion of texts has no translation")
    return [found]


def _reshape(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    (found,) = _same(translation, node, values)
    if isinstance(found, _Label):
        return [found]
    shape = translation.constants.get(node.input[1])
    width = len(found) if isinstance(found, list) else len(found.keys) or 1
    if shape is None or shape.ravel().tolist() not in ([-1, width], [0, width]):
        raise NotCompilable("columns are put into another shape")
    return [found]


def _concat(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    if values.get("axis") not in (1, -1):
        raise NotCompilable("only columns can be put beside each other")
    return [[column for name in node.input for column in translation.columns(name)]]


def _gather(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    if node.op_type == "Gather" and values.get("axis", 0) != 1:
        raise NotCompilable("only columns can be selected")
    columns, places = translation.columns(node.input[0]), translation.constants.get(node.input[1])
    if places is None or not all(0 <= place < len(columns) for place in places.ravel().tolist()):
        raise NotCompilable("the selected columns are not constant")
    return [[columns[place] for place in places.ravel().tolist()]]


def _imputer(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    if "imputed_value_floats" not in values or not np.isnan(values.get("replaced_value_float", 0.0)):
        raise NotCompilable("only missing numbers can be replaced")
    numbers = _each(values["imputed_value_floats"], len(columns))
    found: list[_Column] = []
    for column, number in zip(columns, numbers, strict=True):
        constant = translation.step(transform.CONSTANT, _Column(0), number)
        found.append(translation.step(transform.FIRST_OF, translation.single(column), other=constant.at))
    return [found]


def _scaler(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    offsets = _each(values.get("offset", [0.0]), len(columns))
    scales = _each(values.get("scale", [1.0]), len(columns))
    return [
        [
            translation.step(transform.SCALED_SINGLE, translation.single(column), offset, scale)
            for column, offset, scale in zip(columns, offsets, scales, strict=True)
        ]
    ]


def _arithmetic(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    first, second = node.input
    if first in translation.constants and node.op_type in ("Add", "Mul"):
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


def _one_hot(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    columns = translation.columns(node.input[0])
    if len(columns) != 1:
        raise NotCompilable("it takes one column at a time")
    if not values.get("zeros", 1):
        raise NotCompilable("it fails for unknown categories")
    (column,) = columns
    texts, numbers = values.get("cats_strings"), values.get("cats_int64s")
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
    return [[translation.step(transform.IS, column, one) for one in kinds]]


def _label_encoder(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    keys = values.get("keys_strings")
    results = values.get("values_int64s") or values.get("values_floats")
    if not keys or results is None or len(keys) != len(results):
        raise NotCompilable("only a table from texts to numbers has a translation")
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


def _normalizer(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    found = translation.tensors.get(node.input[0])
    if not isinstance(found, _Scores) or values.get("norm") != b"L1":
        raise NotCompilable("only probabilities can be divided by their sum")
    return [replace(found, ending=found.ending._replace(shares=True))]


def _linear(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    columns = _numbers(translation, node)
    classifies = node.op_type == "LinearClassifier"
    weights = np.array(values["coefficients"], np.float64)
    scores = weights.size // max(1, len(columns))
    classes = _names(values) if classifies else ()
    if scores * len(columns) != weights.size or scores != (len(classes) if classifies else 1):
        raise NotCompilable("it has another number of scores than of classes")
    intercepts = values.get("intercepts") or [0.0] * scores
    ending = Ending(_post_transform(values))
    if not classifies and ending.transform != "none":
        raise NotCompilable(f"a regression that ends with {ending.transform} has no translation")

    def make(features: tuple[str, ...], classes: tuple[str, ...], ending: Ending) -> Compiled:
        return ScoredForms(features, classes, ending, (weights.reshape(scores, len(columns)), intercepts))

    return _ended(_Scores(make, tuple(columns), ending, classes))


def _trees(translation: _Translation, node: Any, values: Mapping[str, Any]) -> list[_Tensor]:
    columns = _numbers(translation, node)
    classifies = node.op_type == "TreeEnsembleClassifier"
    if any(name.endswith("_as_tensor") for name in values):
        raise NotCompilable("it calculates in float64")
    prefix = "class" if classifies else "target"
    weights = np.array(values.get(f"{prefix}_weights", []), np.float64)
    targets = np.array(values.get(f"{prefix}_ids", []), np.int64)
    base = [float(one) for one in values.get("base_values", [])]
    how = values.get("aggregate_function", b"SUM").decode()
    if how not in ("SUM", "AVERAGE"):
        raise NotCompilable(f"the aggregation {how} has no translation")
    ending = Ending(_post_transform(values))
    classes = _names(values) if classifies else ()
    scores = len(classes) or int(values.get("n_targets", 1))
    if not classifies and (scores != 1 or ending.transform != "none"):
        raise NotCompilable("only a regression of one number, without a transformation, has a translation")
    if len(classes) == 2:
        if len(set(targets.tolist())) != 1 or len(base) > 1:
            raise NotCompilable("two classes with weights of their own have no translation")
        targets, scores = np.zeros_like(targets), 1
        positive = bool(np.all(weights >= 0))
        if (ending.transform == "logistic") == positive or ending.transform == "softmax":
            raise NotCompilable("scores of two classes that are neither probabilities nor logits have no translation")
        ending = Ending(label="above half" if positive else "above zero")
    base = base or [0.0] * scores
    arrays = _flattened(values, prefix, weights, targets)
    if len(base) != scores:
        raise NotCompilable(f"it has {len(base)} base values for {scores} scores")
    if len(classes) > 2 and "base_values" not in values and not (np.all(weights >= 0) or _all_scored(arrays, scores)):
        raise NotCompilable("rows without a score for some classes have no translation")
    divisor = [float(arrays[9].size if how == "AVERAGE" else 1)]
    if arrays[1].size and int(arrays[1].max()) >= len(columns):
        raise NotCompilable("it tests a column that its input does not have")

    def make(features: tuple[str, ...], classes: tuple[str, ...], ending: Ending) -> Compiled:
        return ScoredTrees(features, classes, ending, (*arrays, base, divisor))

    return _ended(_Scores(make, tuple(columns), ending, classes))


def _flattened(values: Mapping[str, Any], prefix: str, weights: Any, targets: Any) -> tuple[Any, ...]:
    """Return the arrays of branches and leaves; a node's descendants come after it."""
    trees, numbers = values["nodes_treeids"], values["nodes_nodeids"]
    place = {key: at for at, key in enumerate(zip(trees, numbers, strict=True))}
    entries: dict[tuple[int, int], list[int]] = {}
    owners = zip(values.get(f"{prefix}_treeids", []), values.get(f"{prefix}_nodeids", []), strict=True)
    for entry, owner in enumerate(owners):
        entries.setdefault(owner, []).append(entry)
    tracks = values.get("nodes_missing_value_tracks_true") or [0] * len(trees)
    rows: list[tuple[float, ...]] = []
    roots: list[int] = []
    starts, order = [0], list[int]()
    for tree in dict.fromkeys(trees):
        root = next(number for owner, number in zip(trees, numbers, strict=True) if owner == tree)
        roots.append(len(rows))
        begin, found = len(rows), [root]
        for number in found:  # grows during the loop
            at = place.get((tree, number))
            if at is None or len(found) > len(trees):
                raise NotCompilable("its nodes do not form trees")
            mode = values["nodes_modes"][at].decode()
            if mode == "LEAF":
                rows.append((LEAF, 0, 0.0, len(starts) - 1, 0, 0, -1))
                order += entries.pop((tree, number), [])
                starts.append(len(order))
                continue
            threshold, swapped = _threshold(mode, float(values["nodes_values"][at]))
            children = [values["nodes_truenodeids"][at], values["nodes_falsenodeids"][at]]
            first = begin + len(found)
            missing = bool(tracks[at]) == swapped  # the child for absent values: the second, unless they follow `true`
            found += children[::-1] if swapped else children
            rows.append(
                (NUMERIC_BINARY, values["nodes_featureids"][at], threshold, first, first + 1, first + missing, -1)
            )
    if entries:
        raise NotCompilable("it has weights at nodes that are not leaves")
    branches = np.array(rows, np.float64).reshape(len(rows), 7).T
    return (*branches, [], [], np.array(roots), np.array(starts), targets[order], weights[order])


def _all_scored(arrays: tuple[Any, ...], scores: int) -> bool:
    """Return whether every row gets each score, because all leaves of some tree have it.

    onnxruntime does not choose a class without a score, even if the scores of the others are negative.
    """
    kinds, firsts, roots, starts, targets = arrays[0], arrays[3], arrays[9], arrays[10], arrays[11]
    scored: set[int] = set()
    for begin, end in pairwise([*roots.tolist(), kinds.size]):
        leaves = firsts[begin:end][kinds[begin:end] == LEAF].astype(np.int64).tolist()
        scored |= set.intersection(*(set(targets[starts[leaf] : starts[leaf + 1]].tolist()) for leaf in leaves))
    return len(scored) == scores


def _threshold(mode: str, value: float) -> tuple[float, bool]:
    """Return t such that float32(x) passes the test if x <= t, and whether the test is the opposite of that."""
    single = np.float32(value)
    if mode in ("BRANCH_LT", "BRANCH_GTE"):
        single = np.nextafter(single, np.float32(-np.inf))
    elif mode not in ("BRANCH_LEQ", "BRANCH_GT"):
        raise NotCompilable(f"the test {mode} has no translation")
    if np.isnan(single):
        raise NotCompilable("a threshold is not a number")
    return largest_double(single), mode in ("BRANCH_GT", "BRANCH_GTE")


def largest_double(single: np.float32) -> float:
    """Return the largest float64 that rounds to a float32 of at most `single`.

    >>> largest_double(np.float32(1.0)), largest_double(np.float32(np.inf))
    (1.0000000596046448, inf)
    """
    if np.isinf(single):
        return float(single) if single > 0 else -np.finfo(np.float64).max
    above = np.nextafter(single, np.float32(np.inf))
    above_exact = 2.0**128 if np.isinf(above) else float(above)
    middle = (float(single) + above_exact) / 2.0
    with np.errstate(over="ignore"):
        return middle if np.float32(middle) <= single else float(np.nextafter(middle, -np.inf))


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


def _post_transform(values: Mapping[str, Any]) -> str:
    name = values.get("post_transform", b"NONE").decode()
    if name not in _TRANSFORMS:
        raise NotCompilable(f"the transformation {name} has no translation")
    return _TRANSFORMS[name]


def _names(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the class labels of an operator as texts."""
    names = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
    found = next((values[name] for name in names if values.get(name)), ())
    return tuple(one.decode() if isinstance(one, bytes) else str(one) for one in found)


_OPERATORS: Final[Mapping[str, Callable[[_Translation, Any, Mapping[str, Any]], list[_Tensor]]]] = {
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
