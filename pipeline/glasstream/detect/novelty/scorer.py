"""Score events with a fitted map, and encode the map for transfer from the process that fitted it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.errors import FrameError, InputError, ModelError
from glasstream.base.form import Count, Field
from glasstream.detect.gbmap import storage
from glasstream.detect.gbmap.attributions import local_attributions
from glasstream.detect.gbmap.encoding import LIMIT, Encoding
from glasstream.detect.gbmap.indicator import DriftIndicator
from glasstream.detect.gbmap.map import BoostedMap
from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.gbmap.rows import LARGEST, Floats
from glasstream.detect.gbmap.storage import StoredMaps
from glasstream.detect.novelty.settings import NoveltySettings
from glasstream_topics import frames

KIND: Final = "novelty-map"
VERSION: Final = 1
_OF: Final = f"a {KIND} frame"
_FORM: Final = {
    "maps": Field("u1", ("bytes",), 0, 255),
    "numbers": Field("f8", (2,), 0.0, LARGEST),
    "reference": Field("f8", ("events", "columns"), -LIMIT, LIMIT),
    "targets": Field("f8", ("events",), -LARGEST, LARGEST),
}


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of a map, or of the reason why there is none."""

    version: Count
    neighbours: Annotated[int, msgspec.Meta(ge=1)] = 1
    reason: str | None = None


class Scores(NamedTuple):
    """Scores of n rows, in their order."""

    indicators: Floats
    """float64[n] indicators in units of the target or in log-odds; the largest one if there are several maps."""
    baselines: Floats
    """float64[n] baseline indicators."""
    maps: NDArray[np.int64]
    """int64[n] index of the map with the largest indicator; 0 if there is one map."""


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Novelty scores from a fitted map.

    Attributes
    ----------
    version
        seq of the newest event in the window.
    encoding
        Encoding learned from the window's reference rows.
    indicators
        One indicator, or one for each class against the rest.
    unit
        Factor of the indicators: the target's standard deviation; 1 for classes.
    threshold
        Threshold of the indicators for events like the window, in that unit.
    """

    version: int
    encoding: Encoding
    indicators: tuple[DriftIndicator, ...]
    unit: float
    threshold: float

    @property
    def features(self) -> int:
        """Number of features of a row; later features are ignored."""
        return len(self.encoding.means)

    def score(self, rows: Floats) -> Scores:
        """Score rows float64[n, d] with at least `features` columns. A row's scores do not depend on other rows."""
        encoded = self.encoding.encode(rows[:, : self.features])
        all_scores = measured(self.indicators, encoded, self.unit)
        highest = all_scores.argmax(axis=0)
        indicators = all_scores.max(axis=0)
        baselines = self.indicators[0].baseline(encoded)
        return Scores(indicators, baselines, highest)

    def attributions(self, rows: Floats, maps: Sequence[int]) -> list[list[float]]:
        """Return the slopes of the given map at each row, per feature.

        A slope is that for one standard deviation of a number, or for having the category. It is 0 if the value is
        missing or the map does not know the category.
        """
        encoded = self.encoding.encode(rows[:, : self.features])
        columns = self.encoding.columns
        found = []
        for place, number in enumerate(maps):
            row = encoded[place : place + 1]
            slopes = (local_attributions(self.indicators[number].map, row)[0] * self.unit).tolist()
            given = [0.0] * self.features
            for slope, feature, value in zip(slopes, columns, row[0].tolist(), strict=True):
                if self.encoding.categorical[feature]:
                    given[feature] += slope * value  # 1 in the column of its own category
                else:
                    given[feature] = slope
            found.append(given)
        return found


def held_against(
    maps: Sequence[BoostedMap], reference: Floats, targets: Floats, neighbours: int
) -> tuple[DriftIndicator, ...]:
    """Return an indicator for each map. All indicators share the Euclidean neighbours.

    Parameters
    ----------
    maps
        Fitted maps.
    reference
        float64[n, p] encoded reference rows.
    targets
        float64[n] targets of the reference rows; not used for classes.
    neighbours
        Number of neighbours.
    """
    plain = Neighbours.of(reference, "euclidean")
    return tuple(DriftIndicator.of(one, reference, targets, k=neighbours, plain=plain) for one in maps)


def measured(indicators: Sequence[DriftIndicator], encoded: Floats, unit: float) -> Floats:
    """Return float64[maps, n], the indicators of each map, scaled by `unit`."""
    return np.array([one.indicator(encoded) * unit for one in indicators])


def encode(scorer: Scorer, reference: Floats, targets: Floats) -> bytes:
    """Return the bytes of a scorer.

    Parameters
    ----------
    reference, targets
        float64[n, p], the encoded reference rows, and float64[n], their targets as used in the fit.
    """
    maps = storage.encode(StoredMaps(tuple(one.map for one in scorer.indicators), scorer.encoding))
    meta = {"version": scorer.version, "neighbours": scorer.indicators[0].k}
    arrays = {
        "maps": np.frombuffer(maps, np.uint8),
        "numbers": np.array([scorer.unit, scorer.threshold]),
        "reference": reference,
        "targets": targets,
    }
    return frames.encode(KIND, VERSION, meta, arrays)


def no_map(version: int, reason: str) -> bytes:
    """Return the bytes that take the place of a map if none can be fitted to the window."""
    return frames.encode(KIND, VERSION, {"version": version, "reason": reason}, {})


def decode(data: bytes | memoryview, settings: NoveltySettings) -> Scorer | str:
    """Return the scorer that `encode` wrote, with bit-identical scores, or the reason why there is no map.

    Raises
    ------
    FrameError
        The bytes are neither, or the map is larger than one that is fitted under these settings.
    """
    frame = frames.decode(data, KIND, VERSION)
    saved = form.values(frame.meta, _Meta, _OF)
    if saved.reason is not None:
        return saved.reason
    found = form.read(_FORM, frame.arrays, _OF)
    stored = storage.decode(found["maps"].tobytes())
    if stored.encoding is None:
        raise FrameError(f"{_OF}: expected an encoding, got none")
    sizes = len(found["reference"]), len(stored.maps), max(one.learners for one in stored.maps), saved.neighbours
    most = settings.window, settings.classes, settings.learners, settings.neighbours
    fits = all(size <= largest for size, largest in zip(sizes, most, strict=True))
    form.expect(fits, f"at most {most} rows, maps, learners and neighbours", sizes, _OF)
    unit, threshold = found["numbers"].tolist()
    form.expect(unit > 0.0 and threshold > 0.0, "a unit and a threshold above 0", (unit, threshold), _OF)
    try:
        indicators = held_against(stored.maps, found["reference"], found["targets"], saved.neighbours)
    except (InputError, ModelError) as error:
        raise FrameError(f"{_OF}: expected a map and its reference: {error}") from error
    return Scorer(saved.version, stored.encoding, indicators, unit, threshold)
