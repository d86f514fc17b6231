"""Logs whose labels come after their events."""

import random
from collections.abc import Sequence
from typing import Any


def apart(made: Sequence[dict[str, Any]], delays: Sequence[int]) -> list[dict[str, Any]]:
    """Events without their targets, each target so many events later; what is due after the last comes last."""
    log: list[dict[str, Any]] = []
    due: list[tuple[int, int]] = []
    for number, one in enumerate(made):
        log.append({name: value for name, value in one.items() if name != "y"})
        if "y" in one:
            due.append((number + delays[number], number))
        log += [{"id": made[n]["id"], "y": made[n]["y"]} for place, n in sorted(due) if place <= number]
        due = [(place, n) for place, n in due if place > number]
    return log + [{"id": made[n]["id"], "y": made[n]["y"]} for _, n in sorted(due)]


def delays(kind: int | str, count: int) -> list[int]:
    """Delay of each event: a fixed number, or with `"random:N"` a number drawn from 0 to N."""
    if isinstance(kind, int):
        return [kind] * count
    chance = random.Random(5)
    return [chance.randrange(int(kind.removeprefix("random:")) + 1) for _ in range(count)]
