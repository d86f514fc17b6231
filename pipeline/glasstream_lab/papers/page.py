"""The results of an experiment as a section in Markdown, and a page that holds such sections between marks."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from textwrap import fill
from typing import Final

from glasstream.base.errors import InputError
from glasstream_lab.papers.comparison import FAR, HOLDS, Row, tally, to_markdown
from glasstream_lab.papers.experiment import Experiment, Request
from glasstream_lab.papers.tasks import Done, Origin

_NAMES: Final = {
    "python": "Python", "glasstream": "Glasstream", "river": "River", "numpy": "NumPy", "numba": "Numba",
}  # fmt: skip
_BEYOND: Final = re.compile(r"(?:worse|differs) by (\S+) s\.e\.")
"""Verdict of a number that does not hold."""
ALL: Final = "all"
"""Name of the marks of the summary of a page."""


def section(one: Experiment, request: Request, done: Sequence[Done], rows: Sequence[Row]) -> str:
    """Return what a run found: the verdict, its size and options, versions and date, and the table.

    Parameters
    ----------
    one
        The experiment.
    request
        What the user requested of it.
    done
        All tasks of the run, with the origins of their results.
    rows
        The rows of the table.
    """
    count = len({task.get("seed", task.get("split")) for task, _, _ in done})
    few = f" of {one.repetitions}" if count < one.repetitions and not request.quick else ""
    size = f"{count}{few} repetition{'s'[: count != 1 or bool(few)]}"
    if one.data:
        size += f" on {', '.join(dict.fromkeys(str(task['data']) for task, _, _ in done))}"
    lines = [tally(rows)]
    if request.quick:
        lines.append(f"This is the quick form, without {one.quick_omits}.")
    if request.choices:
        lines.append(f"Options: {', '.join(f'`--{name} {value}`' for name, value in request.choices.items())}.")
    lines.append(f"{size}, {_origin([origin for _, _, origin in done])}.")
    text = fill(" ".join(lines), 120, break_long_words=False, break_on_hyphens=False)
    return f"{text}\n\n{to_markdown(rows)}"


def _origin(origins: Sequence[Origin | None]) -> str:
    """Return CPU time, versions and dates of results.

    >>> first = Origin("2026-11-02", {"python": "3.11.2", "river": "0.26.1"}, 90.0)
    >>> _origin([first, first._replace(date="2026-11-03", versions={"python": "3.11.2", "river": "0.27.0"})])
    '3 min of CPU time, Python 3.11.2, River 0.26.1 and 0.27.0, 2 to 3 November 2026'
    >>> _origin([first, None])
    '2 min of CPU time, Python 3.11.2, River 0.26.1, 2 November 2026, and 1 older result of unknown origin'
    """
    known = [one for one in origins if one is not None]
    parts = []
    if known:
        seconds = sum(one.seconds for one in known)
        time = f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
        parts.append(f"{time} of CPU time")
        for package, name in _NAMES.items():
            versions = dict.fromkeys(one.versions[package] for one in known if package in one.versions)
            if versions:
                parts.append(f"{name} {' and '.join(versions)}")
        parts.append(_dates(min(one.date for one in known), max(one.date for one in known)))
    if missing := len(origins) - len(known):
        parts.append(f"{'and ' * bool(known)}{missing} older result{'s'[: missing != 1]} of unknown origin")
    return ", ".join(parts)


def _dates(first: str, last: str) -> str:
    """Format a range of dates.

    >>> _dates("2026-11-02", "2026-11-02"), _dates("2026-10-31", "2026-11-02")
    ('2 November 2026', '31 October 2026 to 2 November 2026')
    """
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    if begin == end:
        return f"{end.day} {end:%B %Y}"
    same = (begin.year, begin.month) == (end.year, end.month)
    return f"{begin.day}{'' if same else f' {begin:%B %Y}'} to {end.day} {end:%B %Y}"


def summary(page: str) -> str:
    """Return how many of the papers' numbers on a page hold, from the verdicts in its tables.

    Examples
    --------
    >>> print(summary("| a | 1 | 1 | | +0 | holds |\\n| b | 1 | 5 | | +4 | worse by 4.0 s.e. |"))
    1 of 2 numbers of the papers (50.0 %) are beyond 2 standard errors on the worse side, 1 of them beyond 3.5.
    >>> summary("| a | 1 | 2 | | +2 | worse by 2.0 s.e. |")[:6]  # 2.04, rounded
    '1 of 1'
    """
    held, beyond = 0, []
    for line in page.splitlines():
        verdict = line.rstrip("| ").rpartition("|")[2].strip()
        if verdict in ("holds", "better"):
            held += 1
        elif found := _BEYOND.fullmatch(verdict):
            beyond.append(float(found[1]))
    count, far = held + len(beyond), sum(one > FAR for one in beyond)
    share = f"{len(beyond):,} of {count:,} numbers of the papers ({100 * len(beyond) / max(1, count):.1f} %)"
    return f"{share} are beyond {HOLDS:g} standard errors on the worse side, {far:,} of them beyond {FAR:g}."


def marks(name: str) -> tuple[str, str]:
    """Return the lines between which a page has the section of an experiment."""
    return f"<!-- results of {name} -->\n", f"<!-- end of {name} -->\n"


def with_sections(page: str, sections: Mapping[str, str]) -> str:
    """Return a page with other sections between the marks. Everything else stays as it is.

    Parameters
    ----------
    page
        Text of the page.
    sections
        Sections by the names of their experiments.

    Raises
    ------
    InputError
        The page does not have the marks of an experiment once each, in order.

    Examples
    --------
    >>> begin, end = marks("ipfi-laws")
    >>> with_sections(f"# Results\\n\\n{begin}old\\n{end}", {"ipfi-laws": "new\\n"}).splitlines()[2:]
    ['<!-- results of ipfi-laws -->', '', 'new', '', '<!-- end of ipfi-laws -->']
    """
    for name, text in sections.items():
        begin, end = marks(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        if (page.count(begin), page.count(end), rest.count(end)) != (1, 1, 1):
            raise InputError(
                f"the page of results: expected the lines {begin.strip()} and {end.strip()} once each, in this order, "
                f"got {page.count(begin)} and {page.count(end)}"
            )
        page = f"{before}{begin}\n{text.strip()}\n\n{end}{after}"
    return page
