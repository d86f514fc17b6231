"""How many rows more than a paired t-test does a comparison need that holds at every row?

    python tests/benchmarks/comparison.py [--runs 200] [--rows 20000] [--gaps 0,0.01,0.02,0.05]

Two models predict the same events. Their losses are labels (0 or 1), or numbers with a part in common, as Brier losses
are. The expected loss of the second model is smaller by `gap`. One JSON line for each kind of losses and gap:

- `known`: share of runs in which the comparison names the better model by the last row
- `row`: median row since which it is known (the last row if it is not)
- `wrong`: share of runs in which it ever names the other model, or, without a gap, any
- `horizon`: number of rows for which a paired t-test at 5 %, if it looks only once, has a power of one half, as the
  median of `row` has, and of 0.8
- `peeking`: share of runs in which a t-test at 5 % that looks every 100 rows ever names the other model, or, without a
  gap, any
"""

import argparse
import json
import sys
from math import ceil

sys.path.pop(0)  # this folder: in it another file may have the name of a package

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from glasstream.detect.comparison import Comparison

Floats = NDArray[np.float64]
EVERY = 100
"""Rows between two looks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--gaps", default="0,0.01,0.02,0.05")
    given = parser.parse_args()
    for kind in ("labels", "numbers"):
        for gap in map(float, given.gaps.split(",")):
            print(json.dumps({"kind": kind, "gap": gap, **measured(kind, gap, given.runs, given.rows)}), flush=True)


def losses(kind: str, gap: float, rows: int, seed: int) -> tuple[Floats, Floats]:
    """Return the losses of both models."""
    draws = np.random.default_rng(seed)
    if kind == "labels":
        errors = draws.random((2, rows)) < np.array([[0.3], [0.3 - gap]])
        return errors[0].astype(float), errors[1].astype(float)
    common = draws.uniform(0.2, 0.6, rows)
    own = draws.uniform(-0.1, 0.1, (2, rows))
    return common + own[0] + gap / 2, common + own[1] - gap / 2


def measured(kind: str, gap: float, runs: int, rows: int) -> dict[str, object]:
    wrong = peeking = known = 0
    found, deviations = list[int](), list[float]()
    for seed in range(runs):
        first, second = losses(kind, gap, rows, seed)
        comparison, misled = Comparison(), False
        for begin in range(0, rows, EVERY):
            comparison.add(first[begin : begin + EVERY], second[begin : begin + EVERY])
            misled |= comparison.standing().better in ((1,) if gap else (1, 2))
        last = comparison.standing()
        known += last.better == 2
        found.append(last.since if last.since and last.better == 2 else rows)
        wrong += misled
        differences = first - second
        peeking += looked_often(differences, one_sided=bool(gap))
        deviations.append(float(differences.std()))
    deviation = float(np.mean(deviations))
    result: dict[str, object] = {"known": known / runs, "row": int(np.median(found)), "wrong": wrong / runs}
    if gap:
        result["horizon"] = {power: ceil(((1.96 + ndtri(power)) * deviation / gap) ** 2) for power in (0.5, 0.8)}
    return {**result, "peeking": peeking / runs}


def looked_often(differences: Floats, *, one_sided: bool) -> bool:
    """Return whether a t-test names a wrong model at any of the looks."""
    places = np.arange(EVERY, len(differences) + 1, EVERY)
    sums, squares = (np.cumsum(one)[places - 1] for one in (differences, np.square(differences)))
    means = sums / places
    errors = np.sqrt((squares / places - np.square(means)) / (places - 1))
    t = means / errors
    critical = stdtrit(places - 1, 0.975)
    return bool((t < -critical).any() or (not one_sided and (t > critical).any()))


if __name__ == "__main__":
    main()
