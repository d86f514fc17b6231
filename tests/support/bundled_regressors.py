"""How good the bundled regressors are on real data, compared with the mean of the past.

`python -m tests.support.bundled_regressors` prints, for each data set and model, the mean absolute error after 1,000
events and after all, each divided by that of the mean of the past, and the largest error, divided by the range of the
targets so far.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from glasstream.detect.baselines import Baselines, Standing
from glasstream.events.admission import Task
from glasstream.models.river.catalogue import BUNDLED, model_factory, takes_text
from glasstream.models.stream_model import StreamModel
from tests.support.equality import Event
from tests.support.learning_streams import numbers_only, regression_set

SETS = (
    *("bike_hourly", "california_housing", "superconductor_sample", "abalone", "wine_white", "communities_crime"),
    *("auto_mpg", "air_quality", "concrete", "cpu_act", "cpu_small", "qm9_10k", "wine_red"),
)
EVENTS = 1_000
"""Number of events by which a model has to beat the mean of the past."""


def incomes(count: int, seed: int = 0) -> Iterator[Event]:
    """Yield raw incomes of people: money, seconds, shares and texts, none of them scaled, many of them correlated."""
    draws = random.Random(seed)
    for number in range(count):
        trade, state = draws.choice(["nurse", "clerk", "driver", "lawyer"]), draws.choice(["AL", "NY", "TX"])
        years, hours = draws.randrange(40), draws.choice([20.0, 38.5, 40.0])
        pay = {"nurse": 21.0, "clerk": 17.0, "driver": 15.0, "lawyer": 55.0}[trade] * (1.2 if state == "NY" else 1.0)
        x = {
            "time": 1_600_000_000.0 + 3_600.0 * number,
            "trade": trade,
            "state": state,
            "years": float(years),
            "days": 365.0 * years + draws.randrange(365),
            "hours": hours,
            "seconds": hours * 3_600.0,
            "share": hours / 168.0,
            "savings": 0.0 if draws.random() < 0.9 else draws.expovariate(1e-5),
            "constant": 7.0,
        }
        yield x, round(pay * (1.0 + 0.05 * years) * hours * 52.0 * draws.uniform(0.8, 1.2), -2)


def compared(name: str, events: Sequence[Event], *, seed: int = 1, since: int = 0) -> tuple[Standing, float]:
    """Let a bundled model predict and learn events; return how good it was from `since` on, and its largest error.

    The error is divided by the range of the targets so far, and counts from the third event on.
    """
    model = StreamModel(model_factory(name, seed), Task.REGRESSION)
    baselines, largest, seen = Baselines(), 0.0, list[float]()
    for number, (x, target) in enumerate(events if takes_text(name) else numbers_only(list(events))):
        value = model.predict(x).value
        assert value is not None
        model.learn(x, target)
        baselines.add(value if number >= since else None, target)
        if len(seen) > 1 and min(seen) < max(seen):
            largest = max(largest, abs(value - target) / (max(*seen, target) - min(*seen, target)))
        seen = [min(*seen, target), max(*seen, target)] if seen else [target]
    standing = baselines.standing()
    assert standing is not None
    return standing, largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    for data in (*SETS, "incomes"):
        made = incomes(arguments.rows)
        events = list(made) if data == "incomes" else regression_set(arguments.data, data, arguments.rows)
        for name in BUNDLED:
            first, _ = compared(name, events[:EVENTS])
            standing, largest = compared(name, events)
            ratios = [one.model / one.constant for one in (first, standing)]
            print(f"{data:22} {name:7} {ratios[0]:10.4g} {ratios[1]:10.4g} {largest:10.3g}", flush=True)


if __name__ == "__main__":
    main()
