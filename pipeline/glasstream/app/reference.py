"""The reference pages, generated from the declarations and checked in.

`python -m glasstream.app.reference` rewrites `ops/docs/all-settings.md`, `ops/docs/topics.md` and
`ops/docs/asyncapi.json`, in `ops/docs/incidents.md` what to do about each verdict, and in `ops/docs/events.md` the
table of clients.
"""

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import fill
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from glasstream.app.configuration import choices_of
from glasstream.app.page.incidents import ADVICE
from glasstream.base.changes import Changes
from glasstream.flow.settings import Settings
from glasstream_topics import clients
from glasstream_topics import reference as topics

DIRECTORY: Final = Path(__file__).parents[3] / "ops" / "docs"

_CHANGES: Final = {
    Changes.NOTHING: "no numbers",
    Changes.EXPLANATIONS: "explanations",
    Changes.NOVELTY: "novelty",
    Changes.BOTH: "both",
}
_KINDS: Final = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text", dict: "table"}


def generate() -> dict[str, bytes]:
    """Return the documents by their file names."""
    advised = advise((DIRECTORY / "incidents.md").read_text()).encode()
    listed = with_clients((DIRECTORY / "events.md").read_text()).encode()
    pages = {"all-settings.md": settings_page().encode(), "incidents.md": advised, "events.md": listed}
    return {**pages, **topics.generate()}


def findings(directory: Path = DIRECTORY) -> list[str]:
    """Return the names of the documents that are out of date."""
    return [name for name, content in generate().items() if (directory / name).read_bytes() != content]


def advise(document: str) -> str:
    """Return the document about incidents with what to do about each verdict, as the page says it."""
    for verdict, advice in ADVICE.items():
        head, title, rest = document.partition(f"### {verdict}\n")
        meaning, mark, rest = rest.partition("*What to do:*")
        _, gap, rest = rest.partition("\n\n")
        document = head + title + meaning + fill(f"{mark} {advice}", 120) + gap + rest
    return document


def with_clients(document: str) -> str:
    """Return the document about events with the table of clients."""
    head, title, rest = document.partition("| client |")
    return head + "\n".join(clients.table()) + "\n\n" + rest.partition("\n\n")[2] if title else document


def settings_page() -> str:
    """Return the reference of all settings as Markdown."""
    sections = [field for field in msgspec.structs.fields(Settings) if _is_section(field.type)]
    lines = [
        "# All settings",
        "",
        "This page is the reference of all settings, for everyone who runs Glasstream. [Settings](settings.md)",
        "explains how to set values, and lists the most important settings. `python -m glasstream.app.reference`",
        "generates this page from the declarations.",
        "",
        'The column "changes" lists the published numbers that depend on the setting: those of the explanations',
        "(learner, explainer and aggregator), the scores of the novelty detector, both, or none. A worker refuses",
        "state that was saved with another value of a setting that changes its numbers.",
        "",
        "## Settings without a section",
        "",
        *_table(Settings, ""),
    ]
    for section in sections:
        first = cleandoc(section.type.__doc__).partition("\n\n")[0].replace("\n", " ")
        lines += ["", f"## {section.name}", "", _markdown(first), "", *_table(section.type, f"{section.name}.")]
    return "\n".join(lines) + "\n"


def _table(section: type[Struct], prefix: str) -> Iterator[str]:
    meanings = _meanings(section)
    yield "| key | default | values | changes | meaning |"
    yield "|---|---|---|---|---|"
    for field in msgspec.structs.fields(section):
        if not _is_section(field.type):
            default = msgspec.to_builtins(
                field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            )
            (mark,) = (mark for mark in get_args(field.type) if isinstance(mark, Changes))
            cells = (
                f"`{prefix}{field.name}`",
                _value(default),
                _values(field.type),
                _CHANGES[mark],
                meanings[field.name],
            )
            yield f"| {' | '.join(cells)} |"


def _meanings(section: type[Struct]) -> dict[str, str]:
    """Return the description of each setting. The class that declares a setting first describes it."""
    meanings: dict[str, str] = {}
    for declaring in section.__mro__:
        if declaring.__doc__ and issubclass(declaring, Struct):
            meanings |= topics.meanings(cleandoc(declaring.__doc__))
    return {name: _markdown(meaning) for name, meaning in meanings.items()}


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _value(default: Any) -> str:
    """Return a default value as a reader writes it."""
    if default is None or default in ("", {}):
        return "unset"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _values(kind: Any) -> str:
    """Return the values that a setting takes."""
    metas = [meta for meta in _flat(kind) if isinstance(meta, Meta)]
    for meta in metas:
        if meta.description:
            return meta.description
    if choices := choices_of(kind):
        return ", ".join(f"`{choice}`" for choice in choices)
    plain = next(word for word in (_KINDS.get(get_origin(part) or part) for part in _flat(kind)) if word)
    bounds = [
        f"{sign} {limit:,}" if isinstance(limit, int) else f"{sign} {limit:g}"
        for meta in metas
        for sign, limit in ((">", meta.gt), ("≥", meta.ge), ("<", meta.lt), ("≤", meta.le))
        if limit is not None
    ]
    return " ".join((plain, ", ".join(bounds))).strip()


def _flat(kind: Any) -> Iterator[Any]:
    """Yield a type and all of its arguments, those of its arguments included."""
    yield kind
    for part in get_args(kind):
        yield from _flat(part)


def _markdown(text: str) -> str:
    """Return the text of a docstring as Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", text).replace("|", "\\|")


def main() -> int:
    """Rewrite the documents."""
    for name, content in generate().items():
        (DIRECTORY / name).write_bytes(content)
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
