"""The families of live models: code that serves all of them finds them here."""

from collections.abc import Mapping
from typing import Final

from glasstream.models.online.linear.live import LiveLinear
from glasstream.models.online.live import LiveModel, LiveRegressor
from glasstream.models.predictors.arrays import require

Live = LiveModel | LiveRegressor | LiveLinear

FAMILIES: Final[Mapping[str, type[LiveModel] | type[LiveRegressor] | type[LiveLinear]]] = {
    "trees": LiveModel,
    "regressors": LiveRegressor,
    "linear": LiveLinear,
}


def write(live: Live) -> tuple[str, bytes]:
    """Return the name of a model's family and its checkpoint."""
    return next(name for name, family in FAMILIES.items() if type(live) is family), live.to_bytes()


def read(family: str, data: bytes) -> Live:
    """Return the model of a checkpoint of a family, as `write` returns them.

    Raises
    ------
    FrameError
        The bytes are damaged, forged, of another family or of another release.
    """
    require(family in FAMILIES, f"one of the families {', '.join(FAMILIES)}", "checkpoint of a model")
    return FAMILIES[family].from_bytes(data)


def alike(one: Live, other: Live) -> bool:
    """Return whether two models are of one family, with as many trees."""
    return type(one) is type(other) and one.kind == other.kind
