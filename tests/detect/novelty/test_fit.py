"""The fit of a window: what the indicators of its classes share."""

import numpy as np
import pytest

from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.novelty.fit import Request, fit
from glasstream.detect.novelty.scorer import Scorer, decode
from tests.support.novelty_logs import watch


def test_the_maps_of_several_classes_share_their_euclidean_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.Generator(np.random.PCG64(1)).normal(size=(60, 2))
    data = fit(Request("s", 59, rows, np.arange(60.0) % 3, ("a", "b", "c"), ()), watch().novelty, watch().seed)
    built = []
    make = Neighbours.of
    monkeypatch.setattr(
        Neighbours, "of", lambda points, metric, **more: built.append(metric) or make(points, metric, **more)
    )
    scorer = decode(data, watch().novelty)
    assert isinstance(scorer, Scorer) and sorted(built) == ["euclidean", *["manhattan"] * 3]
    for other in scorer.indicators[1:]:
        assert other.baseline(rows).tobytes() == scorer.indicators[0].baseline(rows).tobytes()
