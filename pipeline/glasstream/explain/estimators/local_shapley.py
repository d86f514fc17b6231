"""Why a River model predicts an event as it does: exact interventional Shapley values for single events."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, NotCompilable, SettingsError
from glasstream.events.features import decoded
from glasstream.explain.attributions.game import Attributor, Scale
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.models.predictors.predictor import CLASSIFICATION, NO_LABEL, Floats, Predictor
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor
from glasstream_topics.attributions import Attribution, Background, Contribution, Interaction
from glasstream_topics.methods import MOST_ROWS

_SCALES: Final = ("additive", "prediction")


@runtime_checkable
class HasRecords(Protocol):
    """A data frame of pandas or the like."""

    def to_dict(self, orient: Literal["records"]) -> list[dict[Any, Any]]:
        """Return the rows, by column."""


class LocalShapley:
    """Contributions of the features to single predictions of a River model, as it is at the moment of each call.

    The value of a coalition of features is the mean prediction over the background rows with the coalition's features
    from the event (interventional Shapley values; Janzing et al. 2020). So the contributions of an event add up to the
    difference between its prediction and the mean prediction of the background rows.

    They are exact for trees and forests, for linear models, and wherever an event differs from each background row in
    at most ten features. Otherwise they are estimated from random orders of the features, with standard errors.

    Parameters
    ----------
    model
        A River classifier or regressor, or a `LiveModel` over one.
    background
        1 to 1,000 events with which events are compared, for example the last 100: features by name, or a data frame.
    scale
        ``"additive"`` explains the scale on which the model adds, if it has one: log odds for a logistic regression.
        ``"prediction"`` always explains probabilities or numbers.
    seed
        Random seed of estimates.
    pairs
        Number of pairs of features whose interactions are computed: the largest ones, if they can be computed exactly.

    Raises
    ------
    SettingsError
        The scale is unknown, or there are no background rows or too many.
    ModelError
        `model` is not a River classifier or regressor, or the pipeline would reject a background row.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression(intercept_lr=0.1)
    >>> events = [{"used": t % 5, "noise": t % 3} for t in range(500)]
    >>> for x in events:
    ...     model.learn_one(x, 2.0 * x["used"])
    >>> why = LocalShapley(model, events[-100:]).explain_one({"used": 4, "noise": 1})
    >>> why.contributions[0].feature, round(why.contributions[0].contribution)
    ('used', 4)
    >>> abs(why.base + sum(one.contribution for one in why.contributions) + why.others - why.explained) < 1e-9
    True
    """

    def __init__(
        self,
        model: Any,
        background: "Iterable[Mapping[str, Any]] | HasRecords",
        *,
        scale: Scale = "additive",
        seed: int = 0,
        pairs: int = 0,
    ) -> None:
        self.live = model if isinstance(model, LiveModel) else LiveModel(model)
        if isinstance(background, HasRecords):
            background = background.to_dict("records")
        rows = list(background)
        findings = []
        if scale not in _SCALES:
            findings.append(f"local Shapley scale: expected one of {', '.join(_SCALES)}, got {scale!r}")
        if not 1 <= len(rows) <= MOST_ROWS:
            findings.append(f"local Shapley background: expected 1 to {MOST_ROWS:,} events, got {len(rows):,}")
        if pairs < 0:
            findings.append(f"local Shapley pairs: expected 0 or more, got {pairs}")
        if findings:
            raise SettingsError(findings)
        self._pairs = pairs
        self._scale: Scale = scale
        self._key = stream_key(seed, "")
        self._rows = [self.live.row(x)[0] for x in rows]
        self._explained = 0

    def explain_one(self, x: Mapping[str, Any], *, output: Any = None) -> Attribution:
        """Explain the prediction for one event.

        Parameters
        ----------
        x
            Features by name.
        output
            The class whose probability is explained, or its text; None for the predicted class.

        Returns
        -------
        The record that the pipeline publishes for an event, with the contributions of all features. A notebook shows it
        as a table, and `sentence()` and `waterfall()` return texts. Its `seq` counts the calls.

        Raises
        ------
        ModelError
            The pipeline would reject the event, the model predicts no class for it, or it has no such class.
        """
        live = self.live
        row = live.row(x)
        width = row.shape[1]
        background = np.full((len(self._rows), width), np.nan)
        for place, one in enumerate(self._rows):
            background[place, : one.size] = one
        predictor = self._predictor()
        answer = predictor.evaluate(row)
        place = self._output(predictor, int(answer.labels[0]), output)
        attributor = Attributor(predictor, background, self._scale, key=self._key)
        made = attributor.explain(row, np.array([place]), np.array([self._explained]))
        self._explained += 1
        values, error = made.values[0], made.error[0]
        if not np.isfinite(values).all():
            raise ModelError("expected finite contributions, got one that is not; scale the features")
        order = np.argsort(-np.abs(values), kind="stable").tolist()
        return Attribution(
            schema_version=2,
            epoch=0,
            stream="",
            seq=self._explained - 1,
            model_version=0,
            output=predictor.classes[place] if predictor.classes else None,
            prediction=float(answer.values[0, place]),
            link=made.link,
            explained=float(made.total[0]),
            base=float(made.base[0]),
            background=Background(len(background), 0, "given"),
            exact=not error.any(),
            contributions=[
                Contribution(
                    live.names[slot],
                    decoded(row[0, slot], live.kinds[slot], live.categories(slot)),
                    float(values[slot]),
                    float(error[slot]),
                )
                for slot in order
            ],
            others=0.0,
            pairs=self._interactions(attributor, row[0], place),
        )

    def _interactions(self, attributor: Attributor, row: Floats, output: int) -> list[Interaction] | None:
        if not self._pairs:
            return None
        names = self.live.names
        largest = attributor.largest_pairs(row, output, self._pairs)
        return [Interaction(names[one], names[other], amount) for one, other, amount in largest] or None

    def _predictor(self) -> Predictor:
        """Return the model as it is now, compiled if it can be."""
        live = self.live
        if live.task == CLASSIFICATION:
            live.meet_classes()
        try:
            return compile_model(live.model, live.table, live.labels)
        except NotCompilable:
            return GenericPredictor(live.model, live.table, live.labels)

    def _output(self, predictor: Predictor, label: int, output: Any) -> int:
        if not predictor.classes:
            return 0
        if output is None:
            if label == NO_LABEL:
                raise ModelError("expected a model that predicts a class, got none; let it learn first")
            return label
        texts = [self.live.labels.get(output) if self.live.labels else None, str(output)]
        for text in texts:
            if text in predictor.classes:
                return predictor.classes.index(text)
        raise ModelError(f"expected a class of {', '.join(predictor.classes)}, got {output!r}")
