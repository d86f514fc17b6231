"""Compare models from ONNX files in our kernels with onnxruntime: largest difference, and time of an evaluation.

    python tests/benchmarks/trained_models.py

For each model of `tests/support/onnx_exports.py` the script prints whether it is translated, the largest difference of
a probability or number from onnxruntime's, and the microseconds of one evaluation: of a row of a large block in each
way, and of a variant with one replaced feature, as explanations need them. onnxruntime runs on one thread.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np

from glasstream.base.errors import NotCompilable
from glasstream.explain.variants import replaced
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.onnx.translate import known_texts, translate
from glasstream.models.predictors.predictor import Predictor
from tests.support.onnx_exports import NAMES, described, rows_for

ROWS = 2_000
VARIANTS = 5


def microseconds(work: Callable[[], object], evaluations: int) -> float:
    """Return the CPU time of an evaluation: the shortest of five runs after one that compiles."""
    work()
    best = np.inf
    for _ in range(5):
        begin = process_time()
        work()
        best = min(best, process_time() - begin)
    return float(1e6 * best / evaluations)


def main() -> None:
    """Print a line for each model."""
    print("| model | in | largest difference | µs a row | µs a variant | onnxruntime, µs a row |")
    print("|---|---|---|---|---|---|")
    for name in NAMES:
        file = described(name)
        rows = rows_for(file, ROWS)
        called = OnnxPredictor.of(file, known_texts(file))
        theirs = called.evaluate(rows)
        predictor: Predictor = called
        way, difference = "onnxruntime", "–"
        try:
            predictor = translate(file)
            off = np.abs(predictor.evaluate(rows).values - theirs.values)
            way, difference = "kernels", f"{np.nanmax(off):.1e}" if np.nanmax(off) else "0"
        except NotCompilable:
            pass
        values = np.repeat(rows[:100, np.newaxis], VARIANTS, axis=1)[:, ::-1][np.random.default_rng(1).permutation(100)]
        variants = 100 * VARIANTS * rows.shape[1]
        a_row = microseconds(lambda of=predictor, rows=rows: of.evaluate(rows), ROWS)
        a_variant = microseconds(lambda of=predictor, rows=rows, to=values: replaced(of, rows[:100], to), variants)
        runtime = microseconds(lambda of=called, rows=rows: of.evaluate(rows), ROWS)
        print(f"| {name} | {way} | {difference} | {a_row:.2f} | {a_variant:.2f} | {runtime:.2f} |", flush=True)


if __name__ == "__main__":
    main()
