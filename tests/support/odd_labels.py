"""Streams on which some labels come late, twice, or never."""

from typing import Any

from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from tests.support.learner import message, settings


def odd(number: int) -> dict[str, Any]:
    """An event with everything that features do: texts, new ones, gaps, other kinds."""
    x: dict[str, Any] = {"a": float(number % 7), "b": float(number % 3)}
    if number > 40:
        x["town"] = f"t{number % 5}"
    if number % 9 == 4:
        x["b"] = "text"
    if number > 70:
        x["late"] = number % 4
    label = "abc"[(number % 7 > 3) + (number > 90 and number % 4 == 0)]
    return {"id": number, "ts": 1_000 * number if number % 5 else None, "x": x, "y": label}


def packed(log: list[Any], size: int) -> list[Message]:
    return [message(n // size, log[n : n + size] if size > 1 else log[n]) for n in range(0, len(log), size)]


def given(model: str = "linear", *more: str) -> Settings:
    return settings(f"model.name={model}", "labels.window=60", *more)
