"""A River model that is explained with every event that it learns, before or after it learns the event.

`ops/decisions/0014-the-pipeline-explains-before-learning.md` says why only programs can choose the order.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from glasstream.base.errors import GlasstreamError, SettingsError
from glasstream.explain.estimators.live_model import LiveModel

if TYPE_CHECKING:
    from glasstream.explain.estimators.explainer import Explainer

Order = Literal["before", "after"]
ORDERS: Final = get_args(Order)


class ExplainedModel:
    """River model and the explainers that follow it, in a chosen order of explaining and learning.

    Parameters
    ----------
    model
        A River model, or a `LiveModel` over one.
    explainers
        Explainers of this model, called in the order given here. None of them changes what another one sees.
    order
        ``"before"`` explains an event with the model that has not learned it yet, as the algorithms of the papers and
        the pipeline do. ``"after"`` explains it with the model that has just learned it and nothing later, as the
        published experiments of Fumagalli et al. (2023) do.

    Raises
    ------
    SettingsError
        There are no explainers, one of them explains another model, or the order is unknown. Or the order is
        ``"after"``, and an explainer is a `ModelMonitor`, or renews its copy of the model less often than with every
        event: the copy has not learned most of the events that it explains.
    ModelError
        `model` is not a River classifier or regressor.

    Examples
    --------
    >>> from glasstream import IncrementalPFI
    >>> from river import neighbors
    >>> importance = []
    >>> for order in ("before", "after"):
    ...     model = neighbors.KNNRegressor(n_neighbors=1)
    ...     pfi = IncrementalPFI(model, reservoir=20)
    ...     explained = ExplainedModel(model, pfi, order=order)
    ...     for t in range(100):
    ...         explained.learn_one({"t": t}, t % 7)
    ...     importance.append(round(pfi.importance["t"], 1))
    >>> importance  # the nearest neighbour of an event that the model has learned is the event itself
    [1.1, 7.3]
    """

    def __init__(self, model: Any, *explainers: "Explainer", order: Order = "before") -> None:
        given = model if isinstance(model, LiveModel) else LiveModel(model)
        self.model = given.model
        """The River model."""
        self.explainers = explainers
        self.order: Final[Order] = order
        # An adapter of its own, so that checking an event changes nothing that the explainers see.
        self._checked = LiveModel(given.model, given.task, limits=given.limits)
        findings = [] if explainers else ["explained model: expected one explainer or more, got none"]
        if order not in ORDERS:
            findings.append(f"explained model order: expected one of {', '.join(ORDERS)}, got {order!r}")
        for explainer in explainers:
            live = getattr(explainer, "live", None)  # an explainer of the user's own need not have it
            if not isinstance(live, LiveModel):
                continue
            kind = type(explainer).__name__
            if live.model is not self.model:
                findings.append(f"explained model: expected explainers of this model, got {kind} of another one")
            if order == "after" and getattr(explainer, "needs_unlearned", False):
                findings.append(
                    f"explained model: expected the order before for {kind}, got after: the loss of events that the "
                    "model has just learned shows no change"
                )
            if order == "after" and live.snapshot_every not in (None, 1):
                findings.append(
                    "explained model: expected snapshot_every=1 or none for the order after, got "
                    f"{live.snapshot_every} for {kind}: its copy has not learned most of the events that it explains"
                )
        if findings:
            raise SettingsError(findings)

    def _repr_html_(self) -> str:
        """Show the explainers in a notebook, one below the other."""
        return "".join(shown() for one in self.explainers if (shown := getattr(one, "_repr_html_", None)))

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Explain and learn one event, in the chosen order.

        Parameters
        ----------
        x
            Numbers, booleans and texts by feature name, which the model learns as they are. For the explainers, a
            feature that is None or missing is absent.
        y
            True class or number.

        Raises
        ------
        ModelError
            The event or its target is invalid; then it is neither learned nor explained. Or an explainer failed; then
            the event is learned, the other explainers have explained it, and the error of the first one that failed is
            raised.
        Exception
            Any exception that the model raises when it learns. In the order ``"after"``, the event is then not
            explained.
        """
        self._checked.check(x, y)
        if self.order == "after":
            self.model.learn_one(x, y)
        errors = []
        for explainer in self.explainers:
            try:
                explainer.explain_one(x, y)
            except GlasstreamError as error:
                errors.append(error)
        if self.order == "before":
            self.model.learn_one(x, y)
        if errors:
            raise errors[0]
