"""Check the model of the settings before anything starts.

The check needs no River for a bundled model, so that a command that only starts stages begins at once.
"""

from glasstream.events.admission import Task
from glasstream.flow.settings import Settings
from glasstream.models.river.catalogue import BUNDLED


def expect_model(settings: Settings, task: Task | None = None) -> None:
    """Check that the model can be made: a user's own, or that of a file. The bundled ones always can.

    Parameters
    ----------
    task
        Task of the stream; None if it is not known yet.

    Raises
    ------
    ModelError
        It cannot.
    """
    if settings.model.name in BUNDLED:
        return
    if settings.model.learns:
        factory = settings.model.factory(settings.seed)
        if task is not None:
            factory(task)
        return
    from glasstream.flow.learner.make_model import fixed_model, make_model

    fixed_model(settings) if task is None else make_model(settings, task)
