"""Local attributions: how much each feature contributes to a prediction, row by row (003, 5.2).

`ops/docs/deviations.md` lists where this differs from the papers.
"""

import numpy.typing as npt

from glasstream.detect.gbmap.map import BoostedMap
from glasstream.detect.gbmap.rows import Floats


def local_attributions(map: BoostedMap, rows: npt.ArrayLike) -> Floats:
    """Return the slopes of f - f_0 at each row, float64[n, p]: Σ_j b_j g'(w_j·x + v_j) w_j.

    On standardised features, a slope is the change of the prediction (of the score, for the logistic loss) for one
    standard deviation, so features can be compared. The paper counts a learner fully on one side of its hyperplane and
    not at all on the other, as with ReLU. This function returns the gradient for softplus as well.

    Raises
    ------
    InputError
        `rows` is not float64[n, p] of finite numbers.
    """
    return map.gradients(rows)
