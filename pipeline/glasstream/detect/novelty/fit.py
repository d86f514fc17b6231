"""Fit a map and its threshold to a window of labelled events. The fit is a pure function and can run in any process.

A random draw keyed by (seed, stream, seq) splits the window. The reference part determines the encoding, the map and
the neighbours. Neither the map nor the neighbours have seen the other part, which calibrates the threshold. For
regression, the map is fitted to the standardised target. For two classes, the later class by name is the positive one.
For more classes, each class has a map against the rest, and an event's indicator is the largest of theirs.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from glasstream.base.draws import permute, stream_key
from glasstream.base.errors import InputError, ModelError
from glasstream.detect.gbmap.encoding import Encoding, scale_of
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.indicator import calibrate
from glasstream.detect.gbmap.rows import Floats
from glasstream.detect.gbmap.settings import least_held
from glasstream.detect.novelty.scorer import Scorer, encode, held_against, measured, no_map
from glasstream.detect.novelty.settings import NoveltySettings

_SPLIT: Final = 0
"""Purpose number of the split's draw. The key is used by this module only."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Window of labelled events to fit a map to.

    Attributes
    ----------
    stream
        Name of the stream.
    seq
        `seq` of the newest event at the time of the request.
    rows
        float64[n, d], NaN where a value is missing; texts as codes of their categories.
    targets
        float64[n] numbers, or indices in `classes`.
    classes
        Classes, sorted by name; empty for a regression.
    texts
        Columns that hold codes.
    """

    stream: str
    seq: int
    rows: Floats
    targets: Floats
    classes: tuple[str, ...]
    texts: tuple[int, ...]


_LEAST = 1e-9
"""Smallest threshold, in units of the target or in log-odds. It is needed where all held-out events are copies."""


def fit(request: Request, settings: NoveltySettings, seed: int) -> bytes:
    """Return the encoded map, or the encoded reason why this window has none, for
    `glasstream.detect.novelty.scorer.decode`.

    There is no map if too few events are young enough, or if all of them have one class. The result depends on the
    request, the settings and the random seed alone.
    """
    n = len(request.rows)
    held = int(settings.held * n)
    if held < least_held(settings.rate) or n - held < settings.neighbours:
        return no_map(request.seq, f"{n} labelled events are young enough: too few to hold some of them")
    name = f"sentinel\0{request.stream}\0{request.seq}"
    order = np.arange(n)
    permute(stream_key(seed, name), request.seq, _SPLIT, order)
    reference = np.sort(order[held:])
    rows, targets = request.rows[reference], request.targets[reference]
    encoding = Encoding.learn(_frequent(rows, request.texts, settings.categories), request.texts)
    encoded = encoding.encode(rows)
    if request.classes:
        unit = 1.0
        positives = [np.where(targets == one, 1.0, -1.0) for one in _told_apart(targets, settings.classes)]
        if not positives:
            return no_map(request.seq, "its labelled events are of one class")
    else:
        mean, unit = scale_of(targets)
        positives = [(targets - mean) / unit]
    chosen = replace(settings.map(seed), loss="logistic" if request.classes else "quadratic")
    try:
        maps = [
            fit_map(encoded, y, replace(chosen, stream=f"{name}\0{number}")).map for number, y in enumerate(positives)
        ]
        indicators = held_against(maps, encoded, positives[0], settings.neighbours)
        calibrating = measured(indicators, encoding.encode(request.rows[order[:held]]), unit).max(axis=0)
        threshold = max(calibrate(calibrating, settings.rate).value, _LEAST * unit)
    except (InputError, ModelError) as error:
        return no_map(request.seq, str(error))
    return encode(Scorer(request.seq, encoding, indicators, unit, threshold), encoded, positives[0])


def _told_apart(targets: Floats, most: int) -> list[float]:
    """Return the classes that have a map: none of one class, the later of two, the most frequent of more."""
    found, counts = np.unique(targets, return_counts=True)
    if len(found) <= 2:
        return [float(one) for one in found[1:]]
    return sorted(float(found[place]) for place in np.argsort(-counts, kind="stable")[:most])


def _frequent(rows: Floats, texts: tuple[int, ...], most: int) -> Floats:
    """Return the rows, with all but the most frequent codes of each text column missing."""
    thinned = rows.copy()
    for column in texts:
        known = rows[:, column][np.isfinite(rows[:, column])]
        found, counts = np.unique(known, return_counts=True)
        rare = found[np.argsort(-counts, kind="stable")[most:]]
        thinned[np.isin(rows[:, column], rare), column] = np.nan
    return thinned
