"""The Dockerfile, read."""

import re
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[2] / "ops" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(place for place, (word, _) in enumerate(found) if word == "FROM") :]


def variables() -> dict[str, str]:
    """ENV of the final stage."""
    return dict(pair.split("=", 1) for word, rest in final_stage() if word == "ENV" for pair in rest.split())


def build_steps() -> list[str]:
    """What is run before the final stage."""
    return [rest for word, rest in instructions()[: -len(final_stage())] if word == "RUN"]
