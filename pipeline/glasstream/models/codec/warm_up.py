"""Compile the kernels ahead, so that the first block does not wait for them."""

from collections.abc import Iterator
from importlib.resources import files

import numpy as np
import orjson

from glasstream.models.codec import snapshot
from glasstream.models.predictors.kernels.games import HasGame
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import frames

SAMPLES = "samples.json"
"""A small model of every form that has kernels, as the content of its snapshot. A test holds it against models that
River has just learned: an explainer need not import River for this."""


def warm_up(*, games: bool = False) -> None:
    """Compile every kernel that evaluates a predictor, or load it from numba's cache on disk.

    With `games`, also those that play its game (see `glasstream.models.predictors.kernels.games`).
    """
    row = np.zeros((1, 1))
    for _, predictor in predictors():
        predictor.evaluate(row)
        game = predictor.game(row) if games and isinstance(predictor, HasGame) else None
        if game is not None:
            game.play(row, np.zeros(1, np.int64))


def predictors() -> Iterator[tuple[str, Predictor]]:
    """Yield a small model of each form that has kernels, and the name of the form.

    The models are read from the bytes of a snapshot, because numba recompiles for arrays of another kind. Explainers
    have arrays of snapshots, and a learner's arrays have the same form (see `arrays.sealed`).
    """
    for meta, arrays in orjson.loads(files(__package__).joinpath(SAMPLES).read_bytes()):
        given = {name: np.array(values, dtype).reshape(shape) for name, (dtype, shape, values) in arrays.items()}
        frame = frames.encode(snapshot.KIND, snapshot.VERSION, meta, given)
        yield meta["form"], snapshot.from_frame(frame, key=None).predictor
