"""Laws that every explainer of a model keeps, checked with a model whose importances are known."""

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import numpy as np

from glasstream.base.errors import CheckFailed, GlasstreamError, StateError
from glasstream.explain.estimators.explainer import Explainer
from glasstream.models.predictors.predictor import REGRESSION, Floats, Predictor, Task
from glasstream.testing.expect import expect, expect_same_bits
from glasstream.testing.streams import KnownPredictor, known_events, known_model, known_rows, random_cuts

Estimates = list[dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Explaining:
    """An explainer, and the way in which the checks use it.

    Attributes
    ----------
    make
        ``make(model)`` returns an explainer of a River model, always with the same parameters and seed.
    task
        Task of the known model, which predicts its target without error.
    events
        Number of events; enough for more than a hundred explained ones.
    tolerance
        Largest importance of an unused feature, as a share of the importance of the one used feature. An estimator
        whose noise or bias affects every feature needs more than rounding.
    """

    make: Callable[[Any], Any]
    task: Task = REGRESSION
    events: int = 240
    tolerance: float = 1e-9

    def beside(self, model: Any = None) -> Any:
        """Return a new explainer of a model, by default of the known one."""
        return self.make(known_model(self.task) if model is None else model)

    def stream(self) -> list[tuple[dict[str, Any], Any]]:
        """Return the known events."""
        return list(known_events(self.task, self.events))

    @cached_property
    def told(self) -> Estimates:
        """Return the estimates after each event, from an explainer that is only fed with events."""
        return _told(self.beside(), self.stream())


def check_explainer(make: Callable[[Any], Any], **how: Any) -> None:
    """Run every check on an explainer.

    Parameters
    ----------
    make
        ``make(model)`` returns an explainer of a River model, always with the same parameters and seed.
    how
        Further attributes of `Explaining`, if its defaults do not fit.

    Raises
    ------
    CheckFailed
        The explainer breaks a law; the message names the law and says what to do.

    Examples
    --------
    >>> from glasstream.explain.estimators.ipfi import IncrementalPFI
    >>> check_explainer(lambda model: IncrementalPFI(model, alpha=0.01, reservoir=20), events=100)
    """
    for check in CHECKS:
        check(Explaining(make=make, **how))


def check_estimates_are_finite(case: Explaining) -> None:
    """Check for finite numbers, keyed by known features, equal to `importance`; none at first, some in the end."""
    explainer = case.beside()
    expect(isinstance(explainer, Explainer), explainer, "explain_one and importance", "not both", "see Explainer")
    expect(not explainer.importance, explainer, "no estimate before the first event", explainer.importance,
           "begin with an empty dict")  # fmt: skip
    known: set[str] = set()
    estimates: Mapping[str, float] = {}
    for number, (x, y) in enumerate(case.stream()):
        known |= set(x)
        estimates = explainer.explain_one(x, y)
        fits = all(name in known and type(value) is float and isfinite(value) for name, value in estimates.items())
        expect(fits, explainer, f"finite numbers for features among {sorted(known)}", f"{estimates} at event {number}",
               "name estimates by feature, give Python's own floats")  # fmt: skip
        expect(estimates == explainer.importance, explainer, "explain_one to give what `importance` is",
               f"{estimates} and {explainer.importance}", "give the newest estimates")  # fmt: skip
    after = f"estimates after {case.events} events"
    expect(bool(estimates), explainer, after, "none", "explain, or ask for more events")


def check_the_same_events_give_the_same_bits(case: Explaining) -> None:
    """Check that two explainers give the same estimates for the same events."""
    told = _told(case.beside(), case.stream())
    _same(case, told, case.told, "the same estimates again", "draw by glasstream.base.draws, share no state")


def check_the_model_is_not_taught(case: Explaining) -> None:
    """Check that explaining does not teach the model."""
    model = known_model(case.task)
    explainer = case.beside(model)
    _told(explainer, case.stream())
    expect(
        model.taught == 0,
        explainer,
        "the model not to be trained",
        f"{model.taught} times",
        "only predict with the model",
    )


def check_events_are_not_changed(case: Explaining) -> None:
    """Check that events, and the rows and targets of a block, are not changed."""
    events = case.stream()
    explainer = case.beside()
    for x, y in events:
        before = dict(x)
        explainer.explain_one(x, y)
        expect(list(x.items()) == list(before.items()), explainer, f"the event {before} as it was", x, "copy it first")
    if hasattr(explainer, "explain_block"):
        rows, targets = known_rows(case.task, case.events)
        given = rows.copy(), targets.copy()
        _explain_block(case.beside(), KnownPredictor(case.task, BLOCK), *given)
        expect_same_bits(explainer, given[0], rows, "the rows of a block as they were", "copy them first")
        expect_same_bits(explainer, given[1], targets, "the targets of a block as they were", "copy them first")


def check_none_is_the_same_as_absent(case: Explaining) -> None:
    """Check that a feature with the value None counts as absent."""
    met: dict[str, None] = {}
    written_out = []
    for x, y in case.stream():
        met |= dict.fromkeys(x)
        written_out.append((x | {name: None for name in met if name not in x}, y))
    told = _told(case.beside(), written_out)
    _same(
        case, told, case.told, "None to have the same effect as a feature left out", "leave None out before explaining"
    )


def check_a_feature_the_model_ignores_has_importance_zero(case: Explaining) -> None:
    """Check that numbers, texts and booleans that the known model does not use have importance zero."""
    estimates = case.told[-1]
    largest = max(map(abs, estimates.values()), default=0.0)
    for name in sorted(estimates.keys() - {"used"}):
        expect(
            abs(estimates[name]) <= case.tolerance * largest,
            case.beside(), f"nothing for {name!r}, which the model ignores (within {case.tolerance} of {largest:.4g})",
            estimates[name], "compare predictions that differ in this feature only",
        )  # fmt: skip


def check_the_feature_the_model_needs_counts_most(case: Explaining) -> None:
    """Check that the one used feature is more important than all others together."""
    estimates = case.told[-1]
    others = sum(abs(value) for name, value in estimates.items() if name != "used")
    expect(estimates.get("used", 0.0) > others, case.beside(), "'used' to count more than all others together",
           estimates, "see whether the loss rises, and by how much")  # fmt: skip


def check_a_feature_that_comes_late_is_explained_from_then_on(case: Explaining) -> None:
    """Check that a late feature has an estimate in the end, and that earlier features keep theirs."""
    before = set[str]()
    for estimates in case.told:
        expect(before <= set(estimates), case.beside(), f"estimates of {sorted(before)} to stay", sorted(estimates),
               "keep a feature that is absent for a while")  # fmt: skip
        before |= set(estimates)
    expect("late" in before, case.beside(), "an estimate of 'late', which came in the middle", sorted(before),
           "widen the state by features that are new")  # fmt: skip


def check_a_refused_event_leaves_no_trace(case: Explaining) -> None:
    """Check that invalid events raise an error of the tree, and that later estimates are the same as without them.

    The invalid events have a value that is no number, boolean or text; no target; or a list as the target. An event
    that the explainer accepts is skipped, for example a wrong target for an explainer that does not read targets.
    """
    events = case.stream()
    (x, y), probe = events[0], case.beside()
    odd = ((x | {"never": 1.0, "noise": object()}, y), (x | {"never": 1.0}, None), (x | {"never": 1.0}, [y]))
    unusable = [event for event in odd if _refuses(probe, event)]
    explainer, told = case.beside(), Estimates()
    for number, event in enumerate(events):
        if number in (1, case.events // 4, case.events - 2):
            for refused in unusable:
                _refuses(explainer, refused)
        told += _told(explainer, [event])
    expected = "refused events to leave no trace"
    _same(case, told, case.told, expected, "change nothing before the event and its target are known to be usable")


def check_state_goes_on_to_the_same_bits(case: Explaining) -> None:
    """Check that a pickled explainer, or one restored from its `state`, continues with the same estimates."""
    events = case.stream()
    span = case.events // 4
    explainer = case.beside()
    for number, event in enumerate(events):
        if number in (case.events // 8, case.events // 2 + 1, case.events - 2):
            for again in (_pickled, _restored):
                other = again(explainer, case)
                if other is not None:
                    told = _told(other, events[number : number + span])
                    expected = f"the same estimates after{again.__name__.replace('_', ' ')} at event {number}"
                    wanted = case.told[number : number + span]
                    _same(case, told, wanted, expected, "make all of the state part of it")
        _told(explainer, [event])


def check_cutting_into_blocks_changes_no_bit(case: Explaining) -> None:
    """Check that `explain_block` gives the same estimates for one block, random blocks and single events.

    The check passes if there is no `explain_block`.
    """
    if not hasattr(case.beside(), "explain_block"):
        return
    rows, targets = known_rows(case.task, case.events)
    predictor = KnownPredictor(case.task, BLOCK)
    texts = targets.tolist() if case.task == REGRESSION else [predictor.classes[int(target)] for target in targets]
    single = case.beside()
    for row, y in zip(rows.tolist(), texts, strict=True):
        single.explain_one({name: value for name, value in zip(BLOCK, row, strict=True) if value == value}, y)
    for cuts in ([0, len(rows)], random_cuts(len(rows), 1), random_cuts(len(rows), 2)):
        explainer = case.beside()
        for first, end in pairwise(cuts):
            _explain_block(explainer, predictor, rows[first:end].copy(), targets[first:end].copy())
        expected = f"what single events give from blocks cut at {cuts}"
        _same(case, [explainer.importance], [single.importance], expected, "number events, carry all state")


CHECKS: Final[tuple[Callable[[Explaining], None], ...]] = (
    check_estimates_are_finite,
    check_the_same_events_give_the_same_bits,
    check_the_model_is_not_taught,
    check_events_are_not_changed,
    check_none_is_the_same_as_absent,
    check_a_feature_the_model_ignores_has_importance_zero,
    check_the_feature_the_model_needs_counts_most,
    check_a_feature_that_comes_late_is_explained_from_then_on,
    check_a_refused_event_leaves_no_trace,
    check_state_goes_on_to_the_same_bits,
    check_cutting_into_blocks_changes_no_bit,
)


BLOCK = ("used", "noise", "more")
"""Features of the rows in blocks."""


def _explain_block(explainer: Any, predictor: Predictor, rows: Floats, targets: Floats) -> None:
    """Explain a block, with targets if the explainer reads any."""
    reads = "targets" in signature(explainer.explain_block).parameters
    explainer.explain_block(predictor, rows, *((targets,) if reads else ()))


def _told(explainer: Any, events: list[tuple[dict[str, Any], Any]]) -> Estimates:
    return [dict(explainer.explain_one(x, y)) for x, y in events]


def _same(case: Explaining, told: Estimates, wanted: Estimates, expected: str, cure: str) -> None:
    for number, (one, other) in enumerate(zip(told, wanted, strict=True)):
        same = one.keys() == other.keys() and all(one[name].hex() == other[name].hex() for name in one)
        expect(same, case.beside(), expected, f"{one} instead of {other} at event {number}", cure)


def _refuses(explainer: Any, event: tuple[Mapping[str, Any], Any]) -> bool:
    try:
        explainer.explain_one(*event)
    except GlasstreamError:
        return True
    except Exception as error:
        raise CheckFailed(
            f"{type(explainer).__name__}: expected an event that cannot be used to be refused by an error of "
            f"glasstream.base.errors, got {type(error).__name__}: {error}; state what was expected and what was found"
        ) from error
    return False


def _pickled(explainer: Any, case: Explaining) -> Any:
    return pickle.loads(pickle.dumps(explainer))  # noqa: S301 - made in the same line


def _restored(explainer: Any, case: Explaining) -> Any:
    """Return the explainer restored from its `state` through JSON and copied arrays; None if there is no such state."""
    if not (hasattr(explainer, "state") and hasattr(explainer, "restore")):
        return None
    try:
        meta, arrays = explainer.state()
    except StateError:
        return None
    again = case.beside()
    again.restore(json.loads(json.dumps(meta)), {name: np.array(array) for name, array in arrays.items()})
    return again
