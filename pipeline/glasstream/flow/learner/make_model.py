"""Make the model of a stream from the settings."""

from glasstream.base.errors import ModelError
from glasstream.events.admission import Task
from glasstream.flow.settings import Settings
from glasstream.models.onnx.loading import load
from glasstream.models.onnx.model import FixedModel
from glasstream.models.stream_model import StreamModel

Model = StreamModel | FixedModel


def fixed_model(settings: Settings) -> FixedModel:
    """Return the model of an ONNX file.

    Raises
    ------
    ModelError
        The file cannot be used.
    """
    of = settings.model
    model = FixedModel(load(of.name, of.digest, of.named), settings.limits, of.absent)
    if of.task not in (None, model.task):
        raise ModelError(f"model.task: expected {model.task}, the task of {of.name}, got {of.task}; leave it unset")
    return model


def make_model(settings: Settings, task: Task) -> Model:
    """Return a new model for a stream of this task.

    Raises
    ------
    ModelError
        The model cannot be made, or is not one for this task.
    """
    if not settings.model.learns:
        model = fixed_model(settings)
        if model.task is not task:
            raise ModelError(
                f"model.name: {settings.model.name} is a model for {model.task.value}, but the labels of the stream "
                f"mean {task.value}; set model.task={model.task.value}"
            )
        return model
    return StreamModel(settings.model.factory(settings.seed), task, settings.model.many_classes)
