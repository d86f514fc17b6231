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


def steps(stage: str) -> list[tuple[str, str]]:
    """Return the commands of a named stage, each with its working directory."""
    found = instructions()
    begin = next(place for place, (word, rest) in enumerate(found) if word == "FROM" and rest.endswith(f"AS {stage}"))
    ran, folder = [], "/"
    for word, rest in found[begin + 1 :]:
        if word == "FROM":
            break
        if word == "WORKDIR":
            folder = rest
        if word == "RUN":
            ran.append((folder, rest))
    return ran
