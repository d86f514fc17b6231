"""Each check of samplers catches a sampler that breaks its law."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from glasstream.base.errors import CheckFailed
from glasstream.testing.discover import all_checks
from glasstream.testing.samplers import Sampling
from tests.support import own_implementations as own


class DrawsFromTheFirst(own.RowBefore):
    def pass_through(self, block, first_row, start):
        return super().pass_through(block, first_row, 0)


class LosesTheLast(own.RowBefore):
    def pass_through(self, block, first_row, start):
        return super().pass_through(block, first_row, start)[:-1]


class SharesACounter(own.RowBefore):
    drawn = count()

    def pass_through(self, block, first_row, start):
        return super().pass_through(block, first_row, start) + 1e-9 * next(self.drawn)


class FillsInPlace(own.RowBefore):
    def pass_through(self, block, first_row, start):
        block[np.isnan(block)] = 0.0
        return super().pass_through(block, first_row, start)


class KeepsTheCallersRow(own.RowBefore):
    def pass_through(self, block, first_row, start):
        drawn = super().pass_through(block, first_row, start)
        self.last = block[-1] if len(block) else self.last
        return drawn


class BeginsAnewWithEveryBlock(own.RowBefore):
    def pass_through(self, block, first_row, start):
        self.last = np.empty(0)
        return super().pass_through(block, first_row, start)


class DrawsItself(own.RowBefore):
    def pass_through(self, block, first_row, start):
        return block[max(0, start - first_row) :].copy()


class DrawsNothing(own.RowBefore):
    def pass_through(self, block, first_row, start):
        return np.full_like(super().pass_through(block, first_row, start), np.nan)


class DrawsTheFirstRow(own.RowBefore):
    def pass_through(self, block, first_row, start):
        self.first = block[0].copy() if first_row == 0 and len(block) else self.first
        drawn = super().pass_through(block, first_row, start)
        drawn[:, : len(self.first)] = self.first
        return drawn


class LooksAtTheRowItself(own.RowBefore):
    def pass_through(self, block, first_row, start):
        drawn = super().pass_through(block, first_row, start)
        return np.where(np.isnan(block[len(block) - len(drawn) :]), np.nan, drawn)


class FillsWithZero(own.RowBefore):
    def pass_through(self, block, first_row, start):
        if first_row:
            self.last = np.pad(self.last, (0, block.shape[1] - len(self.last)))
        return super().pass_through(block, first_row, start)


class ForgetsInAPickle(own.RowBefore):
    def __reduce__(self):
        return type(self), ()


BROKEN: dict[str, list[Callable]] = {
    "check_rows_from_the_start_on_draw": [DrawsFromTheFirst, LosesTheLast],
    "check_the_same_rows_draw_the_same_bits": [SharesACounter],
    "check_rows_are_not_changed": [FillsInPlace, KeepsTheCallersRow],
    "check_cutting_into_blocks_changes_no_bit": [BeginsAnewWithEveryBlock],
    "check_a_row_draws_only_from_rows_before_it": [DrawsItself],
    "check_it_draws_what_it_has_seen": [DrawsNothing, DrawsTheFirstRow],
    "check_a_feature_is_drawn_without_its_own_value": [LooksAtTheRowItself],
    "check_a_feature_that_comes_late_was_absent_before": [FillsWithZero],
    "check_state_goes_on_to_the_same_bits": [ForgetsInAPickle],
}


@pytest.mark.parametrize("check", all_checks("sampler"), ids=lambda check: check.__name__)
def test_a_check_of_samplers_catches_what_breaks_its_law(check: Callable) -> None:
    for broken in BROKEN[check.__name__]:
        with pytest.raises(CheckFailed, match=f"^{broken.__name__}: "):
            check(Sampling(make=broken))
