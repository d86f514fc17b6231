"""The method iPFI (paper 004). See `glasstream.explain.ipfi`."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glasstream.background.reservoir import Drawn, Wanted
from glasstream.explain import ipfi
from glasstream.methods.importance import ImportanceAggregator
from glasstream.methods.method import Drawing, Method, Passing
from glasstream.models.contract.predictor import Predictor
from glasstream.settings import Settings
from glasstream_topics.requests import ExplainRequest


class _Drawing(Drawing):
    """Draw values for each feature of each row."""

    def __init__(self, draws: int) -> None:
        self.wanted = Wanted(values=draws)

    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        return {"ipfi": drawn.values}

    def numbers(self, width: int) -> int:
        return width * self.wanted.values


class _Aggregator(ImportanceAggregator):
    name: ClassVar[str] = "ipfi"


class Ipfi(Method):
    """Permutation feature importance."""

    name = "ipfi"

    def drawing(self, settings: Settings, key: NDArray[np.uint64]) -> _Drawing:
        return _Drawing(settings.explain.draws)

    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        draws = block.draws["ipfi"]
        return lambda rows: {
            "ipfi": ipfi.contributions(predictor, block.loss, block.x[rows], targets[rows], draws[rows])
        }

    def aggregator(self, settings: Settings) -> _Aggregator:
        return _Aggregator(settings, settings.explain.draws)
