"""Permutation feature importance of a fixed data set and a fixed model (paper 004, equation 3; Breiman 2001)."""

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, permute, stream_key
from glasstream.base.errors import SettingsError
from glasstream.base.jit import kernel
from glasstream.explain.losses import Loss
from glasstream.explain.pfi import contributions
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]
_IPFI = int(Purpose.IPFI)


def batch_pfi(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    *,
    permutations: int | NDArray[np.int64] = 10,
    seed: int = 0,
    first_permutation: int = 0,
) -> Floats:
    """Return the mean rise of the loss when a feature's column is permuted, times N/(N-1).

    On average, a permutation leaves one row in N its own value. The factor corrects for this, so that the estimate is
    unbiased (004, Theorem 1).

    Parameters
    ----------
    predictor, loss
        Model, and the name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`.
    rows, targets
        (N, d) and (N,), as for `glasstream.explain.pfi.contributions`; N is at least 2.
    permutations
        Number M of permutations drawn for each feature; or an (M, N) array of permutations for all features.
    seed, first_permutation
        Random seed, and number of the first permutation. Calls with different numbers draw independently.

    Returns
    -------
    (d,) importances.

    Raises
    ------
    SettingsError
        There are fewer than 2 rows or no permutation.
    """
    count, width = rows.shape
    given = None if isinstance(permutations, int) else permutations
    times = permutations if isinstance(permutations, int) else len(permutations)
    if count < 2 or times < 1:
        raise SettingsError([f"batch PFI: expected 2 rows and 1 permutation or more, got {count} and {times}"])
    key = stream_key(seed, "batch PFI")
    total = np.zeros(width)
    draws = np.empty((count, 1, width))
    for m in range(times):
        if given is None:
            _shuffle(rows, key, (first_permutation + m) * width, draws)
        else:
            draws[:, 0] = rows[given[m]]
        total += contributions(predictor, loss, rows, targets, draws).mean(axis=0)
    return np.asarray(total / times * (count / (count - 1)))


@kernel
def _shuffle(rows, key, first, draws):  # type: ignore[no-untyped-def]
    order = np.empty(rows.shape[0], np.int64)
    for j in range(rows.shape[1]):
        permute(key, first + j, _IPFI, order)
        for i in range(rows.shape[0]):
            draws[i, 0, j] = rows[order[i], j]
