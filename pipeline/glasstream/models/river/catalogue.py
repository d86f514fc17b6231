"""The models that users select by name, and models of their own.

River is imported only when a model is made: the import takes two seconds, and every stage reads the settings, which
name a model.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from glasstream.base.changes import ChangesBoth, ChangesExplanations
from glasstream.base.errors import ModelError
from glasstream.events.admission import Task

RiverModel = Any
"""A River classifier or regressor, or a pipeline that ends in one."""

ModelFactory = Callable[[Task], RiverModel]


def takes_text(name: str) -> bool:
    """Return whether a model's input includes text features; a linear model gets numbers and booleans only."""
    return name != "linear"


class ClassesInOrder(dict[Any, None]):
    """The classes of a Hoeffding tree in order of first appearance.

    River keeps them in a set, and its adaptive tree returns classes in the set's order. When probabilities tie, the
    label would depend on PYTHONHASHSEED.
    """

    def add(self, label: Any) -> None:
        """Add a class, like `set.add`."""
        self[label] = None


def last_step(model: RiverModel) -> RiverModel:
    """Return the classifier or regressor at the end of a pipeline, or `model` itself."""
    from river import compose

    return model._last_step if isinstance(model, compose.Pipeline) else model


def task_of(model: RiverModel) -> Task | None:
    """Return the task of a model; None if it is neither a classifier nor a regressor."""
    from river import base

    kinds = {base.Classifier: Task.CLASSIFICATION, base.Regressor: Task.REGRESSION}
    return next((task for kind, task in kinds.items() if isinstance(last_step(model), kind)), None)


def label_from_votes(model: RiverModel) -> bool:
    """Return whether the label is River's default: the first of the largest probabilities."""
    from river import base

    return getattr(type(last_step(model)), "predict_one", None) is base.Classifier.predict_one


def one_vs_rest(model: RiverModel) -> RiverModel:
    """Return a model for any number of classes, of clones of a model for two."""
    from river import multiclass

    return multiclass.OneVsRestClassifier(model)


def _in_order(model: RiverModel) -> RiverModel:
    from river import tree

    if isinstance(last_step(model), tree.HoeffdingTreeClassifier):
        last_step(model).classes = ClassesInOrder()
    return model


def _forest(task: Task, seed: int) -> RiverModel:
    from river import forest

    if task is Task.CLASSIFICATION:
        return forest.ARFClassifier(n_models=10, seed=seed)
    return forest.ARFRegressor(n_models=10, **_leaves(), seed=seed)


def _tree(task: Task, seed: int) -> RiverModel:
    from river import tree

    if task is Task.CLASSIFICATION:
        return _in_order(tree.HoeffdingAdaptiveTreeClassifier(seed=seed))
    return tree.HoeffdingAdaptiveTreeRegressor(grace_period=100, delta=0.01, tau=0.1, **_leaves(), seed=seed)


def _leaves() -> dict[str, Any]:
    """Return parameters of trees for regression: leaves predict means, and thresholds have two decimal places.

    River's linear leaves learn from raw features, so that one row can ruin them, and they cannot use text. A mean lies
    among the targets, whatever the features are. River's thresholds have one decimal place, too few for shares; each
    further place makes leaves try up to ten times as many.
    """
    from river.tree.splitter import TEBSTSplitter

    return {"leaf_prediction": "mean", "splitter": TEBSTSplitter(2)}


def _linear(task: Task, seed: int) -> RiverModel:
    from river import compose, linear_model, optim, preprocessing

    if task is Task.CLASSIFICATION:
        return compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
    from glasstream.models.river.implicit import ImplicitRegression

    # The first label sets the intercept, which River's default approaches for hundreds of rows.
    rate = optim.schedulers.InverseScaling(0.5)
    return compose.Pipeline(preprocessing.StandardScaler(), ImplicitRegression(intercept_lr=rate))


BUNDLED: dict[str, Callable[[Task, int], RiverModel]] = {"forest": _forest, "tree": _tree, "linear": _linear}


ONNX: Final = ".onnx"
"""Ending of the name of a model in an ONNX file."""


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that each stream learns.

    Attributes
    ----------
    name
        ``forest``, ``tree``, ``linear``, ``PACKAGE.MODULE:FACTORY``, your function that returns a River model, or
        ``FILE.onnx``, a model that is already trained and learns nothing.
    task
        What the model predicts: a class or a number. If unset, an ONNX file decides, or the first label of a stream:
        text and booleans mean classification, numbers regression.
    many_classes
        Wrap a model for two classes in one-vs-rest from the start, because more than two classes are expected.
    features
        Names of the features of an ONNX model, in the order of its columns, separated by commas. If unset, the file's
        metadata `features`, or the names of its inputs.
    classes
        Names of the classes of an ONNX model, in the order of its probabilities, separated by commas. If unset, the
        file's metadata `classes`, or its class labels. If the file has labels and does not list them, whole numbers are
        the values of the labels, and other names stand for the labels 0, 1 and so on.
    outputs
        Names of the outputs of an ONNX file to use, separated by commas: the one with the label, the ones with the
        probabilities, or the one with the number. If unset, the file's metadata `outputs`, or all outputs.
    absent
        Treatment of events that lack a feature of an ONNX model. If unset, they become dead letters. With ``missing``,
        the feature is treated as if its value were null.
    digest
        SHA-256 of the ONNX file. If unset, it is computed from the file. The learner refuses any other file.
    """

    name: ChangesExplanations[str] = "forest"
    task: ChangesBoth[Literal["classification", "regression"] | None] = None
    many_classes: ChangesExplanations[bool] = False
    features: ChangesExplanations[str | None] = None
    classes: ChangesExplanations[str | None] = None
    outputs: ChangesExplanations[str | None] = None
    absent: ChangesExplanations[Literal["missing"] | None] = None
    digest: ChangesExplanations[str | None] = None

    @property
    def named(self) -> tuple[str | None, str | None, str | None]:
        """What the settings say about the features, classes and outputs of an ONNX file."""
        return self.features, self.classes, self.outputs

    @property
    def learns(self) -> bool:
        """Whether the model learns; the model of an ONNX file does not."""
        return not self.name.endswith(ONNX)

    @property
    def chosen_task(self) -> Task | None:
        """The task that is set; None if the first labelled event decides."""
        return Task(self.task) if self.task else None

    def factory(self, seed: int) -> ModelFactory:
        """Return the factory of a model that learns.

        Raises
        ------
        ModelError
            The model cannot be made.
        """
        return model_factory(self.name, seed)


def model_factory(name: str, seed: int) -> ModelFactory:
    """Return a factory of the model ``forest``, ``tree`` or ``linear``, or of a ``PACKAGE.MODULE:FACTORY``.

    Raises
    ------
    ModelError
        There is no such model, or what FACTORY returns is not a River model for the stream's task.
    """
    if name in BUNDLED:
        named = BUNDLED[name]
        return lambda task: named(task, seed)
    return _own_model(name)


def _own_model(name: str) -> ModelFactory:
    """Return a user's factory, with a check of what it returns."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ModelError(
            f"model.name: expected one of {', '.join(BUNDLED)}, PACKAGE.MODULE:FACTORY or FILE.onnx, got {name!r}"
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ModelError(
            f"model.name: cannot import {module_name!r} of {name!r}: {error}; "
            "the module must be importable by every learner and explainer (set PYTHONPATH, or install it)"
        ) from error
    except (Exception, SystemExit) as error:  # a module of the user's can raise anything
        raise ModelError(
            f"model.name: cannot import {module_name!r} of {name!r}: it raised {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        raise ModelError(f"model.name: expected {attribute!r} in {module_name!r} ({module.__file__}), got no such name")
    factory = getattr(module, attribute)
    if not callable(factory):
        raise ModelError(
            f"model.name: expected {attribute!r} in {module_name!r} to be callable, got an object of the type "
            f"{type(factory).__name__}; name a function or a class that makes the model"
        )

    def make(task: Task) -> RiverModel:
        from river import base

        try:
            model = factory()
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"model.name: expected {name}, called without arguments, to return a River model, but it raised "
                f"{type(error).__name__}: {error}"
            ) from error
        learner = last_step(model)
        wanted = base.Classifier if task is Task.CLASSIFICATION else base.Regressor
        if not isinstance(learner, wanted) and not isinstance(getattr(learner, "regressor", None), wanted):
            what, todo = type(learner).__name__, "choose another model or set the task"
            if isinstance(learner, type):
                what, todo = f"the class {learner.__name__}", "return a model, not its class"
            raise ModelError(
                f"model.name: {name} must return a River {wanted.__name__.lower()} for a {task.value} stream, "
                f"got {what}; {todo}"
            )
        return _in_order(model)

    return make
