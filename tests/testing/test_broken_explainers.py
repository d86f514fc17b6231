"""Each check of explainers catches an explainer that breaks its law."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from glasstream.base.errors import CheckFailed, ModelError
from glasstream.testing.discover import all_checks
from glasstream.testing.explainers import Explaining
from tests.support import own_implementations as own


class GivesItsOwnNumbers(own.LeaveOut):
    """Floats of numpy are not JSON values."""

    @property
    def importance(self):
        return {name: np.float64(value) for name, value in super().importance.items()}


class NamesWhatNeverCame(own.LeaveOut):
    def differences(self, x, y):
        yield from super().differences(x, y)
        yield "intercept", 0.0


class BeginsWithNaN(own.LeaveOut):
    def differences(self, x, y):
        for name, difference in super().differences(x, y):
            yield name, difference if self.events else float("nan")


class NeverExplains(own.LeaveOut):
    def differences(self, x, y):
        return iter(())


class SharesACounter(own.LeaveOut):
    drawn = count()

    def differences(self, x, y):
        for name, difference in super().differences(x, y):
            yield name, difference + 1e-9 * next(self.drawn)


class Teaches(own.LeaveOut):
    def explain_one(self, x, y):
        self.model.learn_one(x, y)
        return super().explain_one(x, y)


class TakesFeaturesAway(own.LeaveOut):
    def explain_one(self, x, y):
        told = super().explain_one(x, y)
        x.pop("noise", None)
        return told


class FillsInPlace(own.LeaveOut):
    def explain_block(self, predictor, rows, targets):
        rows[np.isnan(rows)] = 0.0
        super().explain_block(predictor, rows, targets)


class MeetsNone(own.LeaveOut):
    def explain_one(self, x, y):
        told = super().explain_one(x, y)
        self.events += sum(value is None for value in x.values())
        return told


class BlamesTheNext(own.LeaveOut):
    """The importance of each feature is credited to the next feature."""

    def differences(self, x, y):
        names, found = list(x), dict(super().differences(x, y))
        yield from zip(names, [*found.values()][-1:] + [*found.values()][:-1], strict=True)


class TurnsTheSign(own.LeaveOut):
    def differences(self, x, y):
        for name, difference in super().differences(x, y):
            yield name, -difference


class KnowsTheFirstFeaturesOnly(own.LeaveOut):
    def differences(self, x, y):
        for name, difference in super().differences(x, y):
            if not self.events or name in self.sums:
                yield name, difference


class ForgetsWhatIsAbsent(own.LeaveOut):
    def explain_one(self, x, y):
        super().explain_one(x, y)
        self.sums = {name: total for name, total in self.sums.items() if name in x}
        return self.importance


class CountsWhatItRefuses(own.LeaveOut):
    def explain_one(self, x, y):
        try:
            return super().explain_one(x, y)
        except ModelError:
            self.events += 1
            raise


class RaisesWhatItLikes(own.LeaveOut):
    def explain_one(self, x, y):
        if y is None:
            raise TypeError("y")
        return super().explain_one(x, y)


class ForgetsInAPickle(own.LeaveOut):
    def __reduce__(self):
        return type(self), (self.model,)


class ForgetsInItsState(own.LeaveOut):
    def state(self):
        return {"sums": self.sums}, {}

    def restore(self, meta, arrays):
        self.sums = meta["sums"]


class CountsBlocks(own.LeaveOut):
    def explain_block(self, predictor, rows, targets):
        before = self.events
        super().explain_block(predictor, rows, targets)
        self.events = before + 1


BROKEN: dict[str, list[Callable]] = {
    "check_estimates_are_finite": [GivesItsOwnNumbers, NamesWhatNeverCame, BeginsWithNaN, NeverExplains],
    "check_the_same_events_give_the_same_bits": [SharesACounter],
    "check_the_model_is_not_taught": [Teaches],
    "check_events_are_not_changed": [TakesFeaturesAway, FillsInPlace],
    "check_none_is_the_same_as_absent": [MeetsNone],
    "check_a_feature_the_model_ignores_has_importance_zero": [BlamesTheNext],
    "check_the_feature_the_model_needs_counts_most": [TurnsTheSign],
    "check_a_feature_that_comes_late_is_explained_from_then_on": [KnowsTheFirstFeaturesOnly, ForgetsWhatIsAbsent],
    "check_a_refused_event_leaves_no_trace": [CountsWhatItRefuses, RaisesWhatItLikes],
    "check_state_goes_on_to_the_same_bits": [ForgetsInAPickle, ForgetsInItsState],
    "check_cutting_into_blocks_changes_no_bit": [CountsBlocks],
}


@pytest.mark.parametrize("check", all_checks("explainer"), ids=lambda check: check.__name__)
def test_a_check_of_explainers_catches_what_breaks_its_law(check: Callable) -> None:
    for broken in BROKEN[check.__name__]:
        with pytest.raises(CheckFailed, match=f"^{broken.__name__}: "):
            check(Explaining(make=broken, events=60))
