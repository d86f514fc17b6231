"""How well is a model's performance known before its labels come? Our estimates beside those of NannyML's CBPE.

    python tests/benchmarks/performance_estimate.py make OUT [--data adult,elec2] [--model tree] [--rows 20000]
    PYTHON-WITH-NANNYML tests/benchmarks/performance_estimate.py compare OUT    # pip install nannyml statsmodels plotly

`make` runs the learner over each data set, in the order of its file. The events of the first half come with their
labels. Those of the second half come without, and half of their labels, drawn by chance, come 2,000 events later; the
others never come. Only here are all labels known, so the estimates are held against all of them.

`compare` needs NannyML, which needs Python below 3.13: give it an environment of its own. The reference of CBPE is the
first half without its first 1,000 events; its chunks are our windows. It prints one JSON line for each data set: the
mean absolute errors of accuracy of both and of the probabilities as they are, the share of windows whose accuracy lies
inside the interval, and the mean width of the interval. CBPE's interval is its value ± three of its sampling errors,
here scaled to 95 %.
"""

import argparse
import csv
import gzip
import json
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it another file may have the name of a package

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LATE = 2_000
BEGIN = 1_000
Z = 1.959963984540054


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def make(out: Path, name: str, model: str, most: int, data: Path) -> None:
    from glasstream.app.configuration import load
    from glasstream.events.message import Message
    from glasstream.flow.learner.partition import PartitionLearner
    from glasstream_topics import predictions

    with gzip.open(data / f"{name}.csv.gz", "rt", newline="") as file:
        header, *rows = list(islice(csv.reader(file), most + 1))
    half, chance = len(rows) // 2, random.Random(7)
    targets = ["is " + row[-1] for row in rows]
    comes = [chance.random() < 0.5 for _ in rows]
    assignments = [f"model.name={model}", "explain.start=1000000", "topics.events=1", "labels.estimate=500"]
    learner = PartitionLearner(0, load(assignments=assignments))
    sent: list[Any] = []
    for place, row in enumerate(rows):
        event = {"id": place, "x": dict(zip(header[:-1], map(number, row), strict=False))}
        sent.append(event | {"y": targets[place]} if place < half else event)
        late = place - LATE
        if late >= half and comes[late]:
            sent.append({"id": late, "y": targets[late]})
    for offset, element in enumerate(sent):
        for _ in learner.consume(Message("events", 0, offset, b"s", json.dumps(element).encode())):
            pass
    learner.cut()
    records = [predictions.decode(record) for _, record in learner.take_outbox()[0].predictions]
    classes = sorted(set(targets))
    windows = [
        {"first": one.first, "last": one.last, "value": one.accuracy.value, "low": one.accuracy.low,
         "high": one.accuracy.high}
        for record in records for one in record.estimates or () if one.labels is None
    ]  # fmt: skip
    said = [
        {"seq": record.seq, "prediction": record.prediction, "target": targets[int(record.id)],
         "p": [(record.probabilities or {}).get(label, 0.0) for label in classes]}
        for record in records
    ]  # fmt: skip
    found = {"classes": classes, "half": half, "windows": windows, "said": said}
    (out / f"{name}.json").write_text(json.dumps(found))


def compare(out: Path, name: str) -> dict[str, Any]:
    import nannyml
    import numpy as np
    import pandas

    found = json.loads((out / f"{name}.json").read_text())
    said, windows, half, positive = found["said"], found["windows"], found["half"], found["classes"][-1]
    table = pandas.DataFrame({
        "p": [one["p"][-1] for one in said],
        "y_pred": [int(one["prediction"] == positive) for one in said],
        "y": [int(one["target"] == positive) for one in said],
    })  # fmt: skip
    first, end = windows[0]["first"], windows[-1]["last"] + 1
    size = (end - first) // len(windows)
    cbpe = nannyml.CBPE(
        y_pred_proba="p", y_pred="y_pred", y_true="y", metrics=["accuracy"], chunk_size=size,
        problem_type="classification_binary",
    )  # fmt: skip
    cbpe.fit(table[BEGIN:half].reset_index(drop=True))
    estimates = cbpe.estimate(table[first:end].drop(columns="y").reset_index(drop=True))
    theirs = estimates.filter(period="analysis").to_df()["accuracy"]
    value, error = theirs["value"].to_numpy(), theirs["sampling_error"].to_numpy()
    real = np.array([(table.y == table.y_pred)[one["first"] : one["last"] + 1].mean() for one in windows])
    ours = np.array([[one["value"], one["low"], one["high"]] for one in windows])
    top = np.maximum(table.p, 1 - table.p)
    plain = np.array([top[one["first"] : one["last"] + 1].mean() for one in windows])
    return {
        "data": name,
        "windows": len(windows),
        "accuracy": round(float(real.mean()), 4),
        "ours": round(float(abs(ours[:, 0] - real).mean()), 4),
        "cbpe": round(float(abs(value - real).mean()), 4),
        "uncalibrated": round(float(abs(plain - real).mean()), 4),
        "ours_inside": round(float(((ours[:, 1] <= real) & (real <= ours[:, 2])).mean()), 3),
        "cbpe_inside": round(float((abs(value - real) <= Z * error).mean()), 3),
        "ours_width": round(float((ours[:, 2] - ours[:, 1]).mean()), 4),
        "cbpe_width": round(float(2 * Z * error.mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["make", "compare"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="adult,elec2")
    parser.add_argument("--folder", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--model", default="tree")
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    for name in given.data.split(","):
        if given.step == "make":
            make(given.out, name, given.model, given.rows, given.folder)
        else:
            print(json.dumps(compare(given.out, name)), flush=True)


if __name__ == "__main__":
    main()
