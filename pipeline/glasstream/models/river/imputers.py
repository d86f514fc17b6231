"""Imputers of River: transformers that look for None in features, which other models never get."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Imputed(NamedTuple):
    """The features of which a model imputes missing values.

    Attributes
    ----------
    every
        Whether it imputes all features, as `PreviousImputer` does.
    names
        The features that a `StatImputer` names; it raises an error on an event without them.
    """

    every: bool
    names: tuple[str, ...]

    def fill(self, x: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
        """Give each of these features that `x` lacks the value None, and return `x`.

        Parameters
        ----------
        known
            The features of the stream that the model gets.
        """
        for name in (*known, *self.names) if self.every else self.names:
            x.setdefault(name, None)
        return x


def imputed(model: Any) -> Imputed | None:
    """Return the features of which a River model imputes missing values; None if it has no imputer."""
    from river import preprocessing  # see `glasstream.models.river.catalogue`

    every, names = False, dict[str, None]()
    found = False
    for part in _parts(model):
        if issubclass(type(part), preprocessing.PreviousImputer):
            found = every = True
        elif issubclass(type(part), preprocessing.StatImputer):
            found = True
            names.update(dict.fromkeys(part.stats))
    return Imputed(every, tuple(names)) if found else None


def _parts(model: Any) -> Iterator[Any]:
    """Yield a model, the steps of pipelines and unions in it, and the models that it wraps."""
    from river import base, compose

    waiting = [model]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, compose.Pipeline):
            waiting += part.steps.values()
        elif isinstance(part, compose.TransformerUnion | compose.TransformerProduct):
            waiting += part.transformers.values()
        elif isinstance(part, compose.Grouper):
            waiting.append(part.transformer)
        elif isinstance(part, base.Wrapper):
            waiting.append(part._wrapped_model)
        elif isinstance(part, base.Ensemble):
            waiting += part.models
