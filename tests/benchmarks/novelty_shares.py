"""Share of events that the novelty detector flags on real streams in their own order; the nominal rate is 1 %.

    python tests/benchmarks/novelty_shares.py [--data-sets elec2,outdoor] [--rows 25000]

Short streams get smaller windows. One JSON object a data set:

- `scored`: events with a record; `maps`: maps that scored them
- `flagged`: share of flagged events (goal from 1,000 scored events on: 0.005 to 0.02)
- `most`: largest share in 1,000 events that follow each other
- `beyond`: share of events beyond the threshold of their map, which does not follow the stream
- `alarms`: number of alarms

The exit code is 1 if a share misses the goal.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import numpy as np

from tests.support.novelty_logs import of_data_set

DATA_SETS = (
    "elec2", "weather_noaa", "air_quality", "bike_hourly", "eeg_eye_state", "powersupply", "bank_marketing",
    "spam_assassin_top500", "outdoor", "keystroke", "ozone_eighthr",
)  # fmt: skip
SHORT = 8_000
"""Streams of fewer rows get the smaller windows."""
SMALLER = ("novelty.window=500", "novelty.stride=500", "novelty.delay=250")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", default=",".join(DATA_SETS))
    parser.add_argument("--rows", type=int, default=25_000, help="Rows of each data set at most.")
    options = parser.parse_args()
    folder = Path(os.environ.get("GLASSTREAM_DATA", "../shared/data"))
    bad = 0
    for name in options.data_sets.split(","):
        records = of_data_set(folder / f"{name}.csv.gz", options.rows)
        if len(records) < SHORT:
            records = of_data_set(folder / f"{name}.csv.gz", options.rows, *SMALLER)
        flags = np.array([record.flagged for record in records], np.float64)
        sums = np.concatenate([[0.0], np.cumsum(flags)])
        span = min(1_000, len(flags))
        share = float(flags.mean())
        line = {
            "data_set": name, "scored": len(flags), "maps": len({record.map_version for record in records}),
            "flagged": round(share, 4), "most": round(float((sums[span:] - sums[:-span]).max()) / span, 3),
            "beyond": round(float(np.mean([one.indicator > (one.held_threshold or 0.0) for one in records])), 3),
            "alarms": sum(record.alarm is not None for record in records),
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        bad += len(flags) >= span == 1_000 and not 0.005 <= share <= 0.02
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
