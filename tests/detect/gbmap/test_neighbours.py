"""The nearest reference points, by comparison with all and over the tree."""

import numpy as np
import pytest

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.neighbours import LARGE, Neighbours
from tests.support.gbmap_examples import generator

METRICS = ("manhattan", "euclidean")


def references() -> dict[str, np.ndarray]:
    draws = generator(1)
    return {
        "random": draws.normal(size=(700, 3)),
        "a lattice, full of ties": draws.integers(0, 4, size=(700, 3)).astype(float),
        "one point many times": np.ones((700, 3)),
        "one coordinate constant": draws.normal(size=(700, 3)) * [1, 0, 1],
        "many dimensions": draws.normal(size=(300, 20)),
        "one dimension": np.sort(draws.normal(size=(700, 1)), axis=0),
        "of very different size": draws.normal(size=(700, 3)) * [1e-8, 1, 1e8],
        "few": draws.normal(size=(7, 3)),
    }


def plainly(points: np.ndarray, queries: np.ndarray, k: int, metric: str) -> tuple[np.ndarray, np.ndarray]:
    apart = queries[:, None, :] - points[None, :, :]
    each = np.abs(apart) if metric == "manhattan" else apart**2
    total = np.zeros(each.shape[:2])
    for column in range(each.shape[2]):
        total += each[:, :, column]
    order = np.argsort(total, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(total, order, axis=1)
    return order, np.sqrt(distances) if metric == "euclidean" else distances


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", references())
@pytest.mark.parametrize("index", [False, True])
def test_the_nearest_are_those_of_a_sorted_list_of_all_distances(metric: str, name: str, index: bool) -> None:
    points = references()[name]
    queries = np.concatenate((points[:20], points[:20] + 0.25, generator(2).normal(size=(60, points.shape[1])) * 2))
    neighbours = Neighbours.of(points, metric, index=index)  # type: ignore[arg-type]
    assert (neighbours._tree is not None) == index
    for k in (1, 5, len(points)):
        found, distances = neighbours.nearest(queries, k)
        expected, expected_distances = plainly(points, queries, k, metric)
        assert (found == expected).all()
        assert distances.tobytes() == expected_distances.tobytes()


def test_a_query_has_the_same_answer_whatever_queries_stand_beside_it() -> None:
    points, queries = generator(3).normal(size=(500, 4)), generator(4).normal(size=(90, 4))
    for index in (False, True):
        neighbours = Neighbours.of(points, "manhattan", index=index)
        whole = neighbours.nearest(queries, 5)
        part = neighbours.nearest(queries[31:57], 5)
        assert part[0].tobytes() == whole[0][31:57].tobytes()
        assert part[1].tobytes() == whole[1][31:57].tobytes()


def test_a_tree_is_built_for_large_references_only() -> None:
    points = generator(5).normal(size=(LARGE, 2))
    assert Neighbours.of(points, "manhattan")._tree is not None
    assert Neighbours.of(points[1:], "manhattan")._tree is None


@pytest.mark.parametrize("k", [0, 4, -1])
def test_more_neighbours_than_points_are_refused(k: int) -> None:
    with pytest.raises(InputError, match=f"expected k from 1 to the 3 reference points, got {k}"):
        Neighbours.of(np.zeros((3, 2)), "manhattan").nearest(np.zeros((1, 2)), k)


def test_another_metric_is_refused() -> None:
    with pytest.raises(InputError, match="expected the metric manhattan or euclidean, got 'cosine'"):
        Neighbours.of(np.zeros((3, 2)), "cosine")  # type: ignore[arg-type]
