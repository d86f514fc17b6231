"""Contributions to a stream of sixty rows, as explainers send them."""

import numpy as np

from glasstream_topics.contributions import Contributions

START, ROWS = 5, 60
RANDOM = np.random.Generator(np.random.PCG64(7))
POINTS = RANDOM.normal(size=(ROWS, 4, 3))
POINTS[:, 2:, 1] = np.nan  # "a" is text: it has two categories
POINTS[:, :2, 1] = [0.0, 1.0]
VALUES = {
    "ipfi": RANDOM.normal(size=(ROWS, 3)),
    "isage": RANDOM.normal(size=(ROWS, 3)),
    "isage.first": RANDOM.integers(0, 3, ROWS),
    "loss": RANDOM.random(ROWS),
    "isage.prediction": RANDOM.random((ROWS, 2)),
    "isage.target": RANDOM.integers(-1, 2, ROWS).astype(float),
    "ipdp": np.where(np.isnan(POINTS.transpose(0, 2, 1)), np.nan, RANDOM.random((ROWS, 3, 4)))[:, :, :, np.newaxis],
    "ipdp.points": POINTS,
}
VALUES["inputs"], VALUES["target"] = RANDOM.normal(size=(ROWS, 3)), np.arange(ROWS) % 2.0
# Whatever a row's contributions are, with the first loss "before" they add up to it minus the model's.
VALUES["isage.model_loss"] = VALUES["loss"]
VALUES["isage"][:, 2] = -VALUES["loss"] - VALUES["isage"][:, 0] - VALUES["isage"][:, 1]


def block(first: int, end: int, *, kind: str = "ok", flush_before: bool = False) -> Contributions:
    return Contributions(
        stream="s",
        epoch=0,
        partition=0,
        first_row=first,
        version=first,
        seqs=np.arange(first, end) * 2,
        kind=kind,
        names=["c", "a", "b"],
        kinds=[0, 2, 0],
        classes=["no", "yes"],
        outputs=["yes"],
        texts={1: {0: "zero", 1: "one"}},
        values={name: values[first:end] for name, values in VALUES.items()} if kind == "ok" else {},
        loss="zero_one",
        flush_before=flush_before,
    )
