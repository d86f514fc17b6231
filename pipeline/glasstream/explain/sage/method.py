"""The method iSAGE (paper 002). See `glasstream.explain.sage.contributions` and `glasstream.explain.sage.smoothing`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glasstream.base.form import LARGEST
from glasstream.events.features import FeatureTable
from glasstream.explain.importance import ImportanceAggregator
from glasstream.explain.intervals import Interval
from glasstream.explain.method import Arrays, Drawing, Method, Passing, Signals
from glasstream.explain.sage import contributions as isage
from glasstream.explain.sage.smoothing import SageAggregator
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.reservoir import Drawn, Wanted
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.settings import IsageSettings, MethodSettings
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import LARGEST_SQUARED, SQUARES
from glasstream_topics.requests import ExplainRequest

if TYPE_CHECKING:
    from glasstream.explain.sampling.storage import ConditionalStorage


class _Drawing(Drawing):
    """Draw an order of the features for each row, and background rows from the reservoir or from storage trees."""

    def __init__(self, settings: IsageSettings, key: NDArray[np.uint64]) -> None:
        conditional = settings.removal == "conditional"
        self.settings, self.key = settings, key
        self.storage: ConditionalStorage | None = None
        if conditional:
            from glasstream.explain.sampling import storage  # imports River, which only learners need

            self.storage = storage.ConditionalStorage.empty(StorageSettings(), key)
        self.wanted = Wanted(rows=0 if conditional else settings.inner_samples, fresh=settings.fresh)

    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        block, kinds, first_row, start, _ = rows
        order = orders(self.key, max(first_row, start), rows.explained, block.shape[1])
        background = drawn.rows
        if self.storage is not None:
            background = self.storage.pass_through(block, first_row, start, order, self.settings.inner_samples, kinds)
        return {"isage.order": order, "isage": background}

    def numbers(self, width: int) -> int:
        steps = max(1, width - 1) if self.settings.fresh or self.storage is not None else 1
        return width * (1 + steps * self.settings.inner_samples)

    def fields(self, draws: Arrays, rows: NDArray[np.float64], features: FeatureTable, width: int) -> dict[str, Any]:
        return {"corrected": self.settings.corrected}

    def state(self) -> dict[str, NDArray[Any]] | None:
        return {} if self.storage is None else None  # storage trees are River's


class _Aggregator(ImportanceAggregator):
    """Complete the first difference of each row before smoothing the contributions."""

    name: ClassVar[str] = "isage"

    def __init__(self, settings: MethodSettings, draws: int) -> None:
        super().__init__(settings, draws)
        self._use(SageAggregator.empty(settings.explain.alpha, self.overlap))

    def _use(self, sage: SageAggregator) -> None:
        self.sage, self.smoothing = sage, sage.smoothing

    @property
    def totals(self) -> Mapping[str, float]:
        sage = self.sage
        return {"marginal_loss": sage.marginal_loss, "model_loss": sage.model_loss, "total": sage.total}

    def biased(self, loss: str) -> bool:
        sage, explain = self.settings.isage, self.settings.explain
        if not (sage.corrected and sage.removal == "marginal"):
            return True
        rows = sage.inner_samples
        return not isage.correctable(loss, rows) or rows > min(explain.reservoir, explain.first_row)

    def interval(self, level: float) -> Interval | None:
        return self.sage.interval(level)

    def update(self, block: Contributions, rows: slice) -> Signals:
        values = block.values
        contributions = isage.OpenContributions(
            contributions=values["isage"][rows],
            first=values["isage.first"][rows],
            model_losses=values["isage.model_loss"][rows],
            predictions=values["isage.prediction"][rows],
            targets=values["isage.target"][rows],
            remainders=values.get("isage.remainder", np.empty((block.count, 0)))[rows],
        )
        return {"importance": self.sage.update(block.loss, contributions)}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.sage.state()

    def restore(self, meta: Mapping[str, Any], arrays: Arrays, kinds: Sequence[int]) -> None:
        loss = self.settings.explain.loss
        most = 2 * LARGEST_SQUARED if loss is None or loss in SQUARES else LARGEST
        self._use(SageAggregator.restore(self.smoothing.alpha, meta, arrays, self.overlap, most))
        self._check_width(kinds)


class Isage(Method):
    """Shapley additive global importance."""

    name = "isage"

    def drawing(self, settings: MethodSettings, key: NDArray[np.uint64]) -> _Drawing:
        return _Drawing(settings.isage, key)

    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        order, background = block.draws["isage.order"], block.draws["isage"]

        def explain(rows: slice) -> dict[str, NDArray[Any]]:
            sage = isage.contributions(
                predictor, block.loss, block.x[rows], targets[rows], order[rows], background[rows], block.corrected
            )
            remainders = {"isage.remainder": sage.remainders} if sage.remainders.shape[1] else {}
            return remainders | {
                "isage": sage.contributions,
                "isage.first": sage.first,
                "isage.model_loss": sage.model_losses,
                "isage.prediction": sage.predictions,
                "isage.target": sage.targets,
            }

        return explain

    def aggregator(self, settings: MethodSettings) -> _Aggregator:
        return _Aggregator(settings, settings.isage.inner_samples * (2 if settings.isage.fresh else 1))
