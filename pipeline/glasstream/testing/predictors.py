"""Laws that every predictor keeps: `glasstream.models.predictors.predictor.Predictor` is their contract."""

from collections.abc import Callable
from typing import Final

import numpy as np

from glasstream.base.errors import CheckFailed, ModelError
from glasstream.explain import variants
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Output, Predictor
from glasstream.testing.expect import expect, expect_same_bits


def check_predictor(predictor: Predictor, rows: Floats) -> None:
    """Run every check on a predictor.

    Parameters
    ----------
    predictor
        Any predictor.
    rows
        float64[n, d], a few dozen typical rows of the stream; d is the number of the predictor's features.

    Raises
    ------
    CheckFailed
        The predictor breaks a law; the message names the law and says what to do.

    Examples
    --------
    >>> from glasstream.testing.streams import KnownPredictor
    >>> rows = np.array([[0.5, 1.0], [np.nan, 2.0], [-0.5, np.nan]])
    >>> check_predictor(KnownPredictor("regression", ("used", "noise")), rows)
    """
    for check in CHECKS:
        check(predictor, rows)


def check_it_says_what_it_is(predictor: Predictor, rows: Floats) -> None:
    """Check the task, and that features and classes are tuples of distinct texts; regression has no class."""
    cure = "see glasstream.models.predictors.predictor.Predictor"
    expect(
        predictor.task in (CLASSIFICATION, REGRESSION),
        predictor, f"the task {CLASSIFICATION} or {REGRESSION}", repr(predictor.task), cure,
    )  # fmt: skip
    for what, names in (("features", predictor.features), ("classes", predictor.classes)):
        fits = isinstance(names, tuple) and all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        expect(fits, predictor, f"{what} as a tuple of different texts", repr(names), cure)
    expect(
        predictor.task == CLASSIFICATION or not predictor.classes,
        predictor, "no classes for regression", predictor.classes, cure,
    )  # fmt: skip
    expect(
        isinstance(predictor.compiled, bool),
        predictor, "True or False for whether it is compiled", repr(predictor.compiled), cure,
    )  # fmt: skip


def check_the_same_bits_in_random_splits(predictor: Predictor, rows: Floats) -> None:
    """Check that a row's result does not depend on the other rows, their order or the number of calls."""
    try:
        check_splits(predictor, rows)
    except ModelError as error:
        raise CheckFailed(str(error)) from error


def check_rows_are_not_changed(predictor: Predictor, rows: Floats) -> None:
    """Check that `evaluate` does not change the rows."""
    asked = rows.copy()
    _ask(predictor, asked)
    expect_same_bits(predictor, asked, rows, "rows as they were", "copy the rows before writing into them")


def check_an_answer_stays_as_it_was(predictor: Predictor, rows: Floats) -> None:
    """Check that a later call does not change an earlier result."""
    said = _ask(predictor, rows)
    values, labels = said.values.copy(), said.labels.copy()
    _ask(predictor, rows[::-1].copy())
    cure = "give every answer arrays of its own"
    expect_same_bits(predictor, said.values, values, "values that stay as they were given", cure)
    expect_same_bits(predictor, said.labels, labels, "labels that stay as they were given", cure)


def check_probabilities_lie_between_zero_and_one(predictor: Predictor, rows: Floats) -> None:
    """Check that probabilities are NaN or in [0, 1], up to rounding."""
    if predictor.task == REGRESSION:
        return
    values = _ask(predictor, rows).values
    outside = values[(values < 0.0) | (values > 1.0 + 1e-9)]
    expect(len(outside) == 0, predictor, "probabilities from 0 to 1", outside[:3].tolist(), "normalise the votes")


def check_no_rows_give_no_answers(predictor: Predictor, rows: Floats) -> None:
    """Check that a block without rows gives an empty result."""
    _same(predictor, _ask(predictor, rows[:0]), _none(predictor), "an empty answer to no rows", "treat n = 0")


def check_what_is_no_matrix_is_refused(predictor: Predictor, rows: Floats) -> None:
    """Check that an array that is not a matrix raises ModelError."""
    for shape in ((rows.shape[1],), (1, 1, rows.shape[1])):
        try:
            predictor.evaluate(np.zeros(shape))
        except ModelError:
            continue
        except Exception as error:
            raise _unrefused(predictor, shape, type(error).__name__) from error
        raise _unrefused(predictor, shape, "an answer")


def check_a_shorter_row_has_its_last_features_absent(predictor: Predictor, rows: Floats) -> None:
    """Check that a row from before a feature came counts as a row without this feature."""
    for width in {max(0, rows.shape[1] - 1), rows.shape[1] // 2}:
        written_out = rows.copy()
        written_out[:, width:] = np.nan
        wanted = _ask(predictor, written_out)
        cure = "fill rows up with NaN"
        _same(predictor, _ask(predictor, rows[:, :width].copy()), wanted, "shorter rows filled up with NaN", cure)


def check_features_beyond_its_own_are_ignored(predictor: Predictor, rows: Floats) -> None:
    """Check that a feature that came after the model was frozen changes nothing."""
    missing = max(0, len(predictor.features) - rows.shape[1])
    whole = np.column_stack((rows, np.full((len(rows), missing), np.nan)))
    beyond = np.column_stack((whole, np.arange(len(rows)) + 0.5, np.full(len(rows), np.nan)))
    cure = "read the columns of its own features only"
    _same(predictor, _ask(predictor, beyond), _ask(predictor, whole), "later features to be ignored", cure)


def check_odd_values_disturb_no_other_row(predictor: Predictor, rows: Floats) -> None:
    """Check that infinities, the largest numbers, unseen codes and empty rows get results and do not affect other rows.

    A predictor that calls a model may raise ModelError where the model raises; the check skips such rows.
    """
    width = rows.shape[1]
    odd = []
    for value in (np.inf, -np.inf, 1.7e308, -1e300, 5e-324, -0.0, 12_345.0, 0.5, -3.0, np.nan):
        row = np.full((1, width), value)
        try:
            predictor.evaluate(row)
        except Exception as error:
            if predictor.compiled or not isinstance(error, ModelError):
                raise CheckFailed(
                    f"{type(predictor).__name__}: expected an answer to a row of {value}, got {type(error).__name__}: "
                    f"{error}; answer something or nothing (all 0, label -1), or raise ModelError if not compiled"
                ) from error
        else:
            odd.append(row)
    cure = "evaluate row by row"
    for row in odd:
        both = _ask(predictor, np.concatenate((rows[:5], row, rows[5:10])))
        others = np.delete(np.arange(len(both.labels)), len(rows[:5]))
        said = Output(both.values[others], both.labels[others])
        _same(predictor, said, _ask(predictor, rows[:10]), "answers that an odd row leaves alone", cure)


def check_variants_equal_rows_written_out(predictor: Predictor, rows: Floats) -> None:
    """Check that `replaced` and `built_up` equal `evaluate` on the rows written out, to the last bit."""
    random = np.random.Generator(np.random.PCG64(4))
    rows = rows[:20]
    count, width = rows.shape
    if count == 0:
        return
    values = np.take_along_axis(rows, random.integers(0, count, size=(count * 3, width)), 0).reshape(count, 3, width)
    cure = "share work between variants only where it changes no bit"
    said = variants.replaced(predictor, rows, values)
    wanted = variants.written_out_replaced(predictor, rows, values)
    _same(predictor, said[0], wanted[0], "`replaced` to predict the rows as `evaluate` does", cure)
    _same(predictor, said[1], wanted[1], "`replaced` to predict variants as `evaluate` does", cure)
    order = random.permuted(np.repeat(np.arange(width)[np.newaxis], count, axis=0), axis=1)
    for steps in {1, max(1, width - 1)}:
        background = rows[random.integers(0, count, size=(count, steps, 4))]
        built = variants.built_up(predictor, rows, order, background)
        wanted_built = variants.written_out_built_up(predictor, rows, order, background)
        _same(predictor, built, wanted_built, "`built_up` to predict variants as `evaluate` does", cure)


CHECKS: Final[tuple[Callable[[Predictor, Floats], None], ...]] = (
    check_it_says_what_it_is,
    check_the_same_bits_in_random_splits,
    check_rows_are_not_changed,
    check_an_answer_stays_as_it_was,
    check_probabilities_lie_between_zero_and_one,
    check_no_rows_give_no_answers,
    check_what_is_no_matrix_is_refused,
    check_a_shorter_row_has_its_last_features_absent,
    check_features_beyond_its_own_are_ignored,
    check_odd_values_disturb_no_other_row,
    check_variants_equal_rows_written_out,
)


def _ask(predictor: Predictor, rows: Floats) -> Output:
    try:
        return predictor.evaluate(rows)
    except Exception as error:
        raise CheckFailed(
            f"{type(predictor).__name__}: expected an answer to rows of shape {rows.shape}, got "
            f"{type(error).__name__}: {error}; every row that its stream can have must be answered"
        ) from error


def _unrefused(predictor: Predictor, shape: tuple[int, ...], got: str) -> CheckFailed:
    return CheckFailed(
        f"{type(predictor).__name__}: expected a ModelError for rows of shape {list(shape)}, got {got}; "
        "look at rows.ndim before anything else"
    )


def _same(predictor: Predictor, said: Output, wanted: Output, expected: str, cure: str) -> None:
    expect_same_bits(predictor, said.values, wanted.values, expected, cure)
    expect_same_bits(predictor, said.labels, wanted.labels, expected, cure)


def _none(predictor: Predictor) -> Output:
    columns = 1 if predictor.task == REGRESSION else len(predictor.classes)
    return Output(np.empty((0, columns)), np.full(0, NO_LABEL, np.int64))
