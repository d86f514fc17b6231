"""Every data set with every model: does `glasstream run` end on the embedded broker, with the output of `none`?

    python tests/chaos/matrix.py [--part 2/9] [--data-sets outdoor,elec2] [--models tree,linear] [--rows 2000]
        [--again results.jsonl] [--beside-load 4] [--times 20]

A cell is a data set and a model; it runs the first rows of the data set with all methods once with `--broker none` and
once with `--broker embedded`, and compares what `--out` holds, byte for byte. One JSON line a cell goes to stdout:

- `data_set`, `model`, `rows`
- `identical`: every file; `differs` names those that are not
- `exit`: the exit codes, `none` first; -9 where a run did not end within `--deadline` and was killed
- `seconds`: how long each took; `cpu`: the seconds of processors that both took together

With `--again` the lines go to a file as well, and cells that it has already are left out: a long run can be broken off
and gone on with. `--part 2/9` takes every ninth cell, beginning with the second. The exit code is 0 if all cells that
were run ended and were identical.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MODELS = ("forest", "tree", "linear")
METHODS = "ipfi,isage,ipdp"
DEADLINE = 900.0
KILLED = -signal.SIGKILL


def data_folder() -> Path:
    given = os.environ.get("GLASSTREAM_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


def cells(data_sets: list[str], models: list[str], part: tuple[int, int]) -> list[tuple[str, str]]:
    """Return the cells of a part, by data set; neighbouring parts get other models of the same data set."""
    every = [(data_set, model) for data_set in data_sets for model in models]
    number, of = part
    return every[number - 1 :: of]


def run_cell(data_set: Path, model: str, rows: int, deadline: float) -> dict[str, object]:
    """Run one cell and return its line."""
    with tempfile.TemporaryDirectory(prefix="glasstream-matrix-") as folder:
        codes, seconds, cpu = [], [], _cpu()
        for broker in ("none", "embedded"):
            started = time.monotonic()
            codes.append(_run(data_set, model, rows, broker, Path(folder), deadline))
            seconds.append(round(time.monotonic() - started, 1))
        differs = sorted(_differing(Path(folder) / "none", Path(folder) / "embedded"))
        if any(codes):
            for broker in ("none", "embedded"):
                say((Path(folder) / f"{broker}.log").read_text()[-2_000:])
    return {
        "data_set": data_set.name.removesuffix(".csv.gz"),
        "model": model,
        "rows": rows,
        "identical": codes == [0, 0] and not differs,
        "differs": differs,
        "exit": codes,
        "seconds": seconds,
        "cpu": round(_cpu() - cpu, 1),
    }


def _cpu() -> float:
    """Return the processor seconds of child processes that have been waited for, directly or by a child."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(data_set: Path, model: str, rows: int, broker: str, folder: Path, deadline: float) -> int:
    command = [sys.executable, "-m", "glasstream.app.command.main", "run", "--csv", str(data_set), "--target", "target",
               "--model", model, "--explain", METHODS, "--rows", str(rows), "--broker", broker,
               "--out", str(folder / broker)]  # fmt: skip
    with (folder / f"{broker}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            return process.wait(deadline)
        except subprocess.TimeoutExpired:
            process.kill()  # its stages end when it is gone
            process.wait()
            return KILLED


def _differing(expected: Path, got: Path) -> Iterator[str]:
    names = {path.name for folder in (expected, got) if folder.is_dir() for path in folder.iterdir()}
    if not names:
        yield "nothing was written"
    for name in names:
        files = [folder / name for folder in (expected, got)]
        if not all(path.exists() for path in files) or files[0].read_bytes() != files[1].read_bytes():
            yield name


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Run processes that keep processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="1/1", help="of the cells, K/N")
    parser.add_argument("--data-sets", help="only these, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=1, help="run each cell so often")
    parser.add_argument("--again", type=Path, help="a file with results: go on with what it lacks")
    parser.add_argument("--beside-load", type=int, default=0, help="busy processes beside")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="seconds after which a run is killed")
    options = parser.parse_args()
    folder = data_folder()
    known = sorted(path.name.removesuffix(".csv.gz") for path in folder.glob("*.csv.gz"))
    chosen = options.data_sets.split(",") if options.data_sets else known
    if unknown := sorted(set(chosen) - set(known)):
        parser.error(f"--data-sets: expected some of {', '.join(known) or 'none'} in {folder}, got {unknown}")
    number, of = map(int, options.part.split("/"))
    if not 1 <= number <= of:
        parser.error(f"--part: expected K/N with 1 <= K <= N, got {options.part}")
    done: dict[tuple[str, str, int], int] = {}
    if options.again and options.again.exists():
        for line in options.again.read_text().splitlines():
            one = json.loads(line)
            place = one["data_set"], one["model"], one["rows"]
            done[place] = done.get(place, 0) + 1
    bad = 0
    with load(options.beside_load):
        for data_set, model in cells(chosen, options.models.split(","), (number, of)):
            for _ in range(done.get((data_set, model, options.rows), 0), options.times):
                outcome = run_cell(folder / f"{data_set}.csv.gz", model, options.rows, options.deadline)
                bad += not outcome["identical"]
                line = json.dumps(outcome)
                print(line, flush=True)
                if options.again:
                    with options.again.open("a") as file:
                        file.write(line + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
