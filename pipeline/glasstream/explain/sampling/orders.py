"""Order in which iSAGE adds the features of each row: a random permutation (paper 002, Algorithm 1, line 3)."""

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, permute
from glasstream.base.jit import kernel

_ISAGE_ORDER = int(Purpose.ISAGE_ORDER)


def orders(key: NDArray[np.uint64], first_row: int, count: int, width: int) -> NDArray[np.int64]:
    """Return a permutation of the features for each of `count` consecutive rows.

    Parameters
    ----------
    key
        Key words of the stream, from `glasstream.base.draws.stream_key`.
    first_row
        Number of the first row. A row's permutation depends only on its number and on `width`.
    count, width
        Number of rows, and number of features per row.

    Returns
    -------
    (count, width) permutations.

    Examples
    --------
    >>> from glasstream.base.draws import stream_key
    >>> orders(stream_key(1, "s"), 8, 2, 4).tolist()
    [[0, 3, 1, 2], [3, 1, 0, 2]]
    """
    out = np.empty((count, width), np.int64)
    _permute(key, first_row, out)
    return out


@kernel
def _permute(key, first_row, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        permute(key, first_row + i, _ISAGE_ORDER, out[i])
