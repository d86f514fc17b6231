"""Values of a checkpoint that no learning writes are refused; `tests.fuzz.live_model` mutates all that it holds."""

import numpy as np
import pytest
from river import tree

from glasstream.base.errors import FrameError
from glasstream.models.online import checkpoint
from glasstream.models.online.layout import BLOCK, COUNT, HEADER, ROOT
from glasstream.models.online.live import LiveModel
from glasstream.models.river.live import take
from glasstream_topics import frames
from tests.support.equality import learn_live


@pytest.mark.parametrize("count", [-1.0, -0.5, float("nan")])
def test_a_count_that_could_become_zero_again_is_refused(count: float) -> None:
    """A leaf would take the class for a new one, and enter it into its order a second time, beyond the order's end."""
    model = take(tree.HoeffdingTreeClassifier())
    learn_live(model, [({"a": float(number % 3)}, number % 2) for number in range(20)])
    frame = frames.decode(model.to_bytes(), checkpoint.KIND, checkpoint.VERSION)
    arena = frame.arrays["arena"].copy()
    slot = arena[frame.arrays["tree"][0, ROOT] + BLOCK]
    place = slot + HEADER + COUNT
    assert arena.view(np.float64)[place] == 10.0
    for value, sound in ((10.0, True), (count, False)):
        arena.view(np.float64)[place] = value
        data = frames.encode(checkpoint.KIND, checkpoint.VERSION, frame.meta, {**frame.arrays, "arena": arena})
        if sound:
            LiveModel.from_bytes(data)
        else:
            with pytest.raises(FrameError, match="trees that fill the arena"):
                LiveModel.from_bytes(data)
