"""Laws that every sampler of background values from earlier rows keeps."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from glasstream.models.predictors.predictor import Floats
from glasstream.testing.expect import expect, expect_same_bits
from glasstream.testing.streams import mixed_rows, numbered_rows, random_cuts


@runtime_checkable
class Sampler(Protocol):
    """Keeps a sample or summary of a stream's rows, and draws background values for the explanation of each row.

    Contract:

    - Rows come in blocks, float64[n, d], with NaN for absent features. d may grow; rows from before a feature came lack
      it. The sampler does not change blocks.
    - A row draws first and then enters. What it draws for a feature does not depend on its own value of the feature or
      on later rows. It may depend on the row's other features.
    - The blocks into which rows are cut change no bit. All randomness is a function of a key and the row's number.
    - State is explicit: it can be pickled, or written and read, and the sampler continues with the same bits.
    """

    def pass_through(self, block: Any, *args: Any, **kwargs: Any) -> Any:
        """Let the rows of a block pass; one of the arguments is `first_row`, the number of the block's first row."""


Draw = Callable[[Any, Floats, int, int], Floats]


def in_order(sampler: Any, block: Floats, first_row: int, start: int) -> Floats:
    """Call ``pass_through(block, first_row, start)``, the signature of most samplers."""
    return np.asarray(sampler.pass_through(block, first_row, start))


def pickled(sampler: Any) -> Any:
    """Return the sampler from a pickle of itself."""
    return pickle.loads(pickle.dumps(sampler))  # noqa: S301 - made in the same line


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A sampler, and the way in which the checks use it.

    Attributes
    ----------
    make
        Function that returns an empty sampler, always with the same parameters and key.
    draw
        ``draw(sampler, block, first_row, start)`` lets a block pass and returns the draws of its rows from number
        `start` on: float64[rows, ..., d]. The last axis holds the features; NaN means that nothing was drawn.
    again
        Function that returns the same sampler from its written state.
    rows
        Rows that pass through; `glasstream.testing.streams.mixed_rows` by default, whose kinds are its `KINDS`.
    start
        Number of the first row that draws.
    """

    make: Callable[[], Any]
    draw: Draw = in_order
    again: Callable[[Any], Any] = pickled
    rows: Floats = field(default_factory=lambda: mixed_rows(160))
    start: int = 20


def check_sampler(make: Callable[[], Any], **how: Any) -> None:
    """Run every check on a sampler.

    Parameters
    ----------
    make
        Function that returns an empty sampler, always with the same parameters and key.
    how
        Further attributes of `Sampling`, if its defaults do not fit.

    Raises
    ------
    CheckFailed
        The sampler breaks a law; the message names the law and says what to do.

    Examples
    --------
    >>> from glasstream.explain.sampling.reservoir import Reservoir
    >>> from glasstream.base.draws import stream_key
    >>> check_sampler(
    ...     lambda: Reservoir.empty(10, "geometric", stream_key(1, "s")),
    ...     draw=lambda reservoir, block, first_row, start: reservoir.pass_through(block, first_row, start, draws=2),
    ... )
    """
    for check in CHECKS:
        check(Sampling(make=make, **how))


def check_rows_from_the_start_on_draw(case: Sampling) -> None:
    """Check for one result for each row from `start` on in every block, and none for the rows before."""
    sampler, width = case.make(), case.rows.shape[1]
    expect(isinstance(sampler, Sampler), sampler, "a method pass_through", "none", "see Sampler")
    for first, end in pairwise((0, case.start - 1, case.start + 1, case.start + 1, len(case.rows))):
        drawn = np.asarray(case.draw(sampler, case.rows[first:end].copy(), first, case.start))
        wanted = max(0, end - max(first, case.start))
        fits = drawn.dtype == np.float64 and drawn.ndim >= 2 and drawn.shape[0] == wanted and drawn.shape[-1] == width
        expect(
            fits, sampler, f"float64[{wanted}, ..., {width}] for the rows {first} to {end - 1}",
            f"{drawn.dtype}{list(drawn.shape)}", "give one result for each row from `start` on",
        )  # fmt: skip


def check_the_same_rows_draw_the_same_bits(case: Sampling) -> None:
    """Check that two samplers with the same key draw the same values."""
    one, other = (_whole(case, case.rows) for _ in range(2))
    expect_same_bits(case.make(), one, other, "the same draws again", "draw by glasstream.base.draws, share no state")


def check_rows_are_not_changed(case: Sampling) -> None:
    """Check that blocks are not changed, and that the sampler keeps copies of their rows."""
    block = case.rows.copy()
    sampler = case.make()
    before = case.draw(sampler, block, 0, case.start).copy()
    expect_same_bits(sampler, block, case.rows, "rows as they were", "copy the block before writing into it")
    block[:] = 1e9
    after = case.draw(sampler, case.rows.copy(), len(block), case.start)
    wanted = _parts(case, np.concatenate((case.rows, case.rows)), [0, len(block), 2 * len(block)])[len(before) :]
    cure = "keep copies of rows: the caller may use the block again"
    expect_same_bits(sampler, after, wanted, "draws that do not follow the caller's later use of a block", cure)


def check_cutting_into_blocks_changes_no_bit(case: Sampling) -> None:
    """Check that draws are equal for rows passed at once, one by one, and in random blocks, some of them empty."""
    whole = _whole(case, case.rows)
    count = len(case.rows)
    for cuts in (list(range(count + 1)), random_cuts(count, 1), random_cuts(count, 2)):
        said = _parts(case, case.rows, cuts)
        expected = f"the same draws when rows are cut at {', '.join(map(str, cuts[:8]))}, ..."
        expect_same_bits(case.make(), said, whole, expected, "let rows pass one by one, number them by first_row")


def check_a_row_draws_only_from_rows_before_it(case: Sampling) -> None:
    """Check with rows of their own numbers that each draw is an earlier number, or lies between earlier numbers."""
    drawn = _whole(case, numbered_rows(len(case.rows)))
    own = np.arange(case.start, len(case.rows), dtype=np.float64).reshape(-1, *[1] * (drawn.ndim - 1))
    outside = ~np.isnan(drawn) & ((drawn < 0.0) | (drawn > own - 1.0))
    got = "nothing" if not outside.any() else f"{drawn[outside][0]} for row {np.argwhere(outside)[0][0] + case.start}"
    expect(not outside.any(), case.make(), "only numbers of rows before", got, "draw first, then let the row enter")


def check_it_draws_what_it_has_seen(case: Sampling) -> None:
    """Check with rows of their own numbers that every feature gets draws, and that these vary."""
    drawn = _whole(case, numbered_rows(len(case.rows)))
    for slot in range(drawn.shape[-1]):
        there = drawn[..., slot][~np.isnan(drawn[..., slot])]
        expect(len({*there.tolist()}) > 1, case.make(), f"several values for feature {slot}", there[:3].tolist(),
               "let the rows enter after they have drawn")  # fmt: skip


def check_a_feature_is_drawn_without_its_own_value(case: Sampling) -> None:
    """Check that the draws for a feature do not depend on the row's own value of it, present or absent."""
    for row in (case.start + 3, min(case.start + 40, len(case.rows) - 1)):
        wanted = _whole(case, case.rows[: row + 1])[-1]
        for slot in range(case.rows.shape[1]):
            rows = case.rows[: row + 1].copy()
            expected = f"draws for feature {slot} of row {row} that do not depend on its own value"
            for value in (0.0, 3.0, np.nan):
                rows[row, slot] = value
                said = _parts(case, rows, [0, row, row + 1])[-1]
                expect_same_bits(case.make(), said[..., slot], wanted[..., slot], expected,
                                 "draw a feature from other rows, given other features only")  # fmt: skip


def check_a_feature_that_comes_late_was_absent_before(case: Sampling) -> None:
    """Check that a new feature in a block counts as absent from the first row on."""
    at = len(case.rows) // 2
    rows = case.rows.copy()
    rows[:at, -1] = np.nan
    cure = "widen what is held by NaN"
    for before in (at, 0):
        sampler = case.make()
        if before:
            case.draw(sampler, rows[:before, :-1].copy(), 0, case.start)
        said = case.draw(sampler, rows[before:].copy(), before, case.start)
        wanted = _whole(case, rows)[-len(said) :]
        expect_same_bits(sampler, said, wanted, "a new feature to have been absent before", cure)
        if before:
            first = said[0, ..., -1]
            expect(np.isnan(first).all(), sampler, "a new feature to be drawn as absent (NaN)", first.ravel()[:3], cure)


def check_state_goes_on_to_the_same_bits(case: Sampling) -> None:
    """Check that a sampler that is written and read in the middle continues with the same draws."""
    whole = _whole(case, case.rows)
    for cut in (case.start // 2, len(case.rows) // 2, len(case.rows) - 1):
        sampler = case.make()
        before = case.draw(sampler, case.rows[:cut].copy(), 0, case.start)
        after = case.draw(case.again(sampler), case.rows[cut:].copy(), cut, case.start)
        expected = f"the same draws after the state was written and read at row {cut}"
        said = np.concatenate((before, after)) if len(before) else after
        expect_same_bits(sampler, said, whole, expected, "make all of the state part of what is written")


CHECKS: Final[tuple[Callable[[Sampling], None], ...]] = (
    check_rows_from_the_start_on_draw,
    check_the_same_rows_draw_the_same_bits,
    check_rows_are_not_changed,
    check_cutting_into_blocks_changes_no_bit,
    check_a_row_draws_only_from_rows_before_it,
    check_it_draws_what_it_has_seen,
    check_a_feature_is_drawn_without_its_own_value,
    check_a_feature_that_comes_late_was_absent_before,
    check_state_goes_on_to_the_same_bits,
)


def _whole(case: Sampling, rows: Floats) -> Floats:
    return np.asarray(case.draw(case.make(), rows.copy(), 0, case.start))


def _parts(case: Sampling, rows: Floats, cuts: list[int]) -> Floats:
    sampler = case.make()
    parts = [case.draw(sampler, rows[first:end].copy(), first, case.start) for first, end in pairwise(cuts)]
    return np.concatenate([part for part in parts if len(part)])
