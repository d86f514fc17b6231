"""Time of a GBMAP fit, beside the authors' own code on the same data in the same run. One JSON line each.

    python tests/benchmarks/gbmap.py [--sizes 1e3,1e4,1e5] [--learners 2,20] [--repeats 5] [--python PATH]

The data are the paper's synth-cos (003, 4.1) with 25 features: numbers for the quadratic loss, classes for the
logistic one; the settings those of its run times (`paper-scaling`: β = 1, λ = 1e-3, at most 100 iterations). Every fit
is the first of a process of its own, ours and theirs in turn, `repeats` times, each with other data and other random
starts. Times are of the wall without imports and without making the data; of times and losses the medians are shown.

- `ours`, `theirs`: seconds of the first fit of a process, with what it compiles: theirs compiles in every fit, ours
  finds its machine code on disk, where the first fit on a machine has left it
- `ratio`: ours over theirs (goal: at most 0.5)
- `ours_run`, `theirs_run`, `ratio_run`: the same without compiling: ours again in the same process, theirs less the
  time that JAX reports for tracing and compiling
- `ours_cold`, `ratio_cold`: with an empty cache, as in the first fit on a machine
- `loss`, `their_loss`: the mean training loss of the fitted functions, each evaluated in float64; `loss_ratio`: the
  median of ours over theirs on the same data (goal: at most 1). Theirs is fitted in float32; ours holds the rows in
  float32 and computes in float64.
- `ours_row_us`: `ours_run` a row; `growth`: the exponent of n from the size before to this one

Theirs is a checkout of edahelsinki/gbmap, a folder `gbmap` in the folder that `GLASSTREAM_PEERS` names. It needs JAX up
to 0.5 (`pip install jax==0.5.3 jaxlib==0.5.3 jaxopt==0.8.5`; of later ones it asks for a module that is gone), in this
Python or in the one that `--python` names. It computes on all processors, ours on one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from math import log
from pathlib import Path
from statistics import median

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np

FEATURES, SEED = 25, 1
LOSSES = ("quadratic", "logistic")
BETA, RIDGE, ITERATIONS = 1.0, 1e-3, 100


def synthetic(n: int, loss: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """synth-cos-r or synth-cos-c."""
    draws = np.random.Generator(np.random.PCG64([SEED, n, seed]))
    rows, direction = draws.normal(size=(n, FEATURES)), draws.normal(size=FEATURES)
    y = 5 * np.cos(rows) @ (direction / np.linalg.norm(direction))
    y -= y.mean()
    if loss == "logistic":
        y = np.where(draws.uniform(size=n) < 1 / (1 + np.exp(-y)), 1.0, -1.0)
    return rows, y


def mean_loss(loss: str, y: np.ndarray, f: np.ndarray) -> float:
    return float(np.mean((y - f) ** 2 if loss == "quadratic" else np.logaddexp(0, -y * f)))


def ours(n: int, m: int, loss: str, seed: int) -> dict[str, float]:
    """One fit of this process, and the same again."""
    from dataclasses import replace

    from glasstream.detect.gbmap.fit import fit_map
    from glasstream.detect.gbmap.settings import PAPER_SCALING

    rows, y = synthetic(n, loss, seed)
    settings = replace(PAPER_SCALING, learners=m, loss=loss, seed=seed)
    if (settings.beta, settings.ridge, settings.iterations) != (BETA, RIDGE, ITERATIONS):
        raise SystemExit("the preset is not what theirs is asked for")
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        fit = fit_map(rows, y, settings)
        seconds.append(time.perf_counter() - started)
    return {"first": seconds[0], "run": seconds[1], "loss": mean_loss(loss, y, fit.map.predict(rows))}


def theirs(n: int, m: int, loss: str, seed: int) -> dict[str, float]:
    """One fit of this process, and how much of it was tracing and compiling."""
    import jax

    sys.path.insert(0, str(checkout()))
    from gbmap.gbmap import GBMAP

    compiling: list[tuple[float, float]] = []

    def compiled(event: str, duration: float, **_: object) -> None:
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            compiling.append((now - duration, now))

    jax.monitoring.register_event_duration_secs_listener(compiled)
    rows, y = synthetic(n, loss, seed)
    model = GBMAP(
        n_boosts=m, optim_maxiter=ITERATIONS, penalty_ridge=RIDGE, softplus_scale=BETA,
        is_classifier=loss == "logistic", random_state=seed,
    )  # fmt: skip
    started = time.perf_counter()
    model.fit(rows, y)
    first = time.perf_counter() - started
    f = np.zeros(n)
    for a, b, w in model.params:
        w64 = np.asarray(w, np.float64)  # the weight of the constant comes last
        f += float(a) + float(b) * np.logaddexp(0, BETA * (rows @ w64[:-1] + w64[-1])) / BETA
    return {"first": first, "run": first - covered(compiling), "loss": mean_loss(loss, y, f)}


def covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that the spans cover together; one may lie in another."""
    total, end = 0.0, 0.0
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def checkout() -> Path:
    return Path(os.environ.get("GLASSTREAM_PEERS", "")) / "gbmap"


def in_a_process(python: str, side: str, n: int, m: int, loss: str, seed: int, **more: str) -> dict[str, float]:
    """Run one side in a process of its own, and return its result.

    Raises
    ------
    SystemExit
        It failed.
    """
    command = [python, __file__, "--one", side, str(n), str(m), loss, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more}, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise SystemExit(f"{side} failed with n = {n}, m = {m}, {loss} loss: {last}")
    return {key: float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def middle(found: list[dict[str, float]], key: str) -> float:
    return median(one[key] for one in found)


def compared(
    n: int, m: int, loss: str, repeats: int, python: str | None, before: tuple[int, float] | None
) -> dict[str, object]:
    """The line of a size; `before` is the size before and its `ours_run`."""
    here: list[dict[str, float]] = []
    there: list[dict[str, float]] = []
    for seed in range(repeats):
        say(f"n = {n:,}, m = {m}, {loss} loss: {seed + 1} of {repeats}")
        here.append(in_a_process(sys.executable, "ours", n, m, loss, seed))
        if python is not None:
            there.append(in_a_process(python, "theirs", n, m, loss, seed))
    with tempfile.TemporaryDirectory() as empty:
        cold = in_a_process(sys.executable, "ours", n, m, loss, 0, NUMBA_CACHE_DIR=empty)["first"]
    run = middle(here, "run")
    line: dict[str, object] = {"loss_of": loss, "n": n, "p": FEATURES, "m": m, "ours": middle(here, "first")}
    line |= {"ours_run": run, "ours_cold": cold, "ours_row_us": 1e6 * run / n}
    if before is not None:
        line["growth"] = log(run / before[1]) / log(n / before[0])
    line["loss"] = middle(here, "loss")
    if there:
        first, alone = middle(there, "first"), middle(there, "run")
        line |= {"theirs": first, "theirs_run": alone, "their_loss": middle(there, "loss")}
        line["loss_ratio"] = median(one["loss"] / other["loss"] for one, other in zip(here, there, strict=True))
        line |= {"ratio": middle(here, "first") / first, "ratio_run": run / alone, "ratio_cold": cold / first}
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e3,1e4,1e5", help="rows, with commas between them")
    parser.add_argument("--learners", default="2,20")
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--theirs-up-to", type=float, default=1e5, help="rows; larger sizes are ours alone")
    parser.add_argument("--python", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--one", nargs=5, metavar=("SIDE", "N", "M", "LOSS", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        side, n, m, loss, seed = arguments.one
        print(json.dumps({"ours": ours, "theirs": theirs}[side](int(n), int(m), loss, int(seed))))
        return
    python = arguments.python if (checkout() / "gbmap" / "gbmap.py").is_file() else None
    if python is None:
        say("nothing is compared: check edahelsinki/gbmap out as a folder gbmap, and name the folder around it in "
            "GLASSTREAM_PEERS")  # fmt: skip
    for loss in arguments.losses.split(","):
        for m in map(int, arguments.learners.split(",")):
            before = None
            for n in (int(float(size)) for size in arguments.sizes.split(",")):
                other = python if n <= arguments.theirs_up_to else None
                line = compared(n, m, loss, arguments.repeats, other, before)
                before = n, float(str(line["ours_run"]))
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
