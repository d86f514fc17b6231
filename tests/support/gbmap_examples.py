"""Data and maps that several tests use."""

from typing import Literal

import numpy as np

from glasstream.detect.gbmap.map import BoostedMap


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def cosines(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synth-cos-r (003, 4.1)."""
    draws = generator(seed)
    rows, u = draws.normal(size=(n, p)), draws.normal(size=p)
    y = 5 * np.cos(rows) @ (u / np.linalg.norm(u))
    return rows, y - y.mean()


def classes(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synth-cos-c, as -1 and +1."""
    rows, y = cosines(n, p, seed)
    return rows, np.where(generator(seed + 1).uniform(size=n) < 1 / (1 + np.exp(-y)), 1.0, -1.0)


def random_map(
    m: int,
    p: int,
    seed: int = 0,
    unit: Literal["softplus", "relu", "linear"] = "softplus",
    beta: float = 5.0,
    loss: Literal["quadratic", "logistic"] = "quadratic",
) -> BoostedMap:
    draws = generator(seed)
    return BoostedMap(
        weights=draws.normal(size=(m, p)),
        constants=draws.normal(size=m),
        offsets=draws.normal(size=m),
        signs=np.where(draws.uniform(size=m) < 0.5, -1.0, 1.0),
        unit=unit,
        beta=beta,
        loss=loss,
    )


def plain_embedding(map: BoostedMap, rows: np.ndarray) -> np.ndarray:
    """Equation 5 written down with numpy."""
    z = rows @ map.weights.T + map.constants
    g = {"softplus": np.logaddexp(0, map.beta * z) / map.beta, "relu": np.maximum(z, 0), "linear": z}[map.unit]
    return map.offsets + map.signs * g
