"""Settings and events of a stream with features of all kinds."""

import random
from typing import Any

BASE = [
    "explain.methods=ipfi,isage,ipdp", "explain.reservoir=20", "explain.alpha=0.02", "publish.every=25",
    "ipdp.window=100", "ipdp.store=30", "ipdp.categories=4", "snapshot.shortest=20", "snapshot.longest=100",
    "snapshot.cadence=50", "snapshot.doubling=16", "drift.grace=10", "drift.delta=0.9", "drift.bonferroni=false",
    "drift.test_interval=2", "drift.min_change=0",
]  # fmt: skip


ROWS = 400


def mixed(count: int, *, classes: int) -> list[dict[str, Any]]:
    """Numbers, texts, booleans, gaps, a feature that comes late, one that goes, and a change of concept."""
    rng = random.Random(11)
    made = []
    for n in range(count):
        x: dict[str, Any] = {"size": rng.gauss(0, 1), "open": rng.random() < 0.5, "town": f"t{rng.randrange(6)}"}
        if n < 250:
            x["gone"] = rng.random()
        if n >= 120:
            x["late"] = rng.gauss(1, 1)
        x = {name: value for name, value in x.items() if rng.random() > 0.1} or {"size": 0.0}
        score = x.get("size", 0.0) * (1 if n < 200 else -1) + x.get("late", 0.0) + (x.get("town") == "t1")
        if classes == 0:
            y: Any = score + rng.gauss(0, 0.1)
        else:
            y = "abc"[min(classes - 1, int(score > 0.3) + int(score > 1.2))]
        made.append({"x": x, "y": y, "id": str(n)})
    return made
