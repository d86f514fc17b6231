"""A column of a CSV file: its kind, and what the user should know about how its cells are read."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from glasstream.events.mapping.cells import NUMBERS, Reading, is_formatted, is_no_label, is_time, kind, reading, unit
from glasstream.events.mapping.fields import Kind

Cell = tuple[int, str]
"""Line and text of a cell."""


@dataclass(slots=True)
class Column:
    """A column of a CSV file.

    Parameters
    ----------
    name
        Name in the header.
    place
        Position in a row.
    cells
        Cells that decide the kind.
    is_target
        Whether the column is the target.
    late
        Whether the cells begin below the first rows of the file, because the column has no value there.
    stated
        Kind that the user or the model states; None derives it from the cells.
    """

    name: str
    place: int
    cells: Sequence[Cell]
    is_target: bool = False
    late: bool = False
    stated: Kind | None = None
    readings: list[Reading] = field(init=False)
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        self.readings = [reading(cell) for _, cell in self.cells]
        self.kind = self.stated or kind(self.readings)

    @property
    def where(self) -> str:
        """Return the words for the rows that decide the kind."""
        count = f"{len(self.cells):,} rows"
        return f"the {count} from line {self.cells[0][0]:,} on" if self.late else f"the first {count}"

    @property
    def empty(self) -> str:
        """Return the words for what a cell becomes that counts as empty."""
        return "empty, an event without a label" if self.is_target else "empty"

    @property
    def title(self) -> str:
        """Return the beginning of a notice about the column."""
        return f"column {self.name!r}"

    def notices(self) -> Iterator[str]:
        """Yield the notices about how the cells are read."""
        return (f"{self.title} {text}" for text in self._notices())

    def _notices(self) -> Iterator[str]:
        if all(one is Reading.MISSING for one in self.readings):
            if not self.is_target:
                yield "has no value in any row: no event has this feature"
            return
        if self.late:
            yield f"is empty above line {self.cells[0][0]:,}: {self.where} decide that it holds {self.kind}s"
        if self.stated is not None:
            return
        if self.kind is Kind.TEXT:
            if self.is_target:
                todo = f"; if it is a class, set --types {self.typed(Kind.TEXT)}"
                yield from self._marks("class names", todo)
            yield from self._text()
            return
        yield from self._marks(f"{self.kind}s")
        if count := self.readings.count(Reading.VAGUE):
            line, cell = self.cells[self.readings.index(Reading.VAGUE)]
            yield (
                f"holds numbers, because some cells have a decimal point: {cell!r:.60} on line {line:,} is read as a "
                f"number, too (cells like it: {count:,}); if they are codes, set --types {self.typed(Kind.TEXT)}"
            )

    def typed(self, kind: Kind) -> str:
        """Return the value of `--types` that states this kind, as a shell reads it."""
        return shlex.quote(f"{self.name}={kind}")

    def first_formatted(self) -> tuple[Cell, int] | None:
        """Return the first number with commas or units, and the count of them, if most cells with a value are such."""
        texts = [pair for pair in self.cells if not is_no_label(pair[1])]
        found = [pair for pair in texts if is_formatted(pair[1])]
        return (found[0], len(found)) if len(found) > len(texts) / 2 else None

    def of_many_classes(self, count: int) -> str:
        """Return the notice about a target with so many classes."""
        return f"{self.title} has {count:,} different texts in {self.where}: each is a class of its own"

    def infinite(self, line: int, cell: str, count: int) -> str:
        """Return the notice about infinite cells, of which this one is the first."""
        return (
            f"{self.title} holds finite numbers only, but {cell.strip()!r:.60} is on line {line:,} (cells like it: "
            f"{count:,}): treated as {self.empty}"
        )

    def unfit(self, line: int, cell: str, count: int) -> str:
        """Return the notice about cells that do not fit the kind, of which this one is the first."""
        if self.stated is not None:
            return (
                f"{self.title} is stated to hold {self.kind}s, but {cell!r:.60} on line {line:,} is not a "
                f"{self.kind} (cells like it: {count:,}): treated as {self.empty}"
            )
        becomes = "the learner rejects such events" if self.is_target else "the stages treat them as absent"
        return (
            f"{self.title} holds {self.kind}s in {self.where}, but {cell!r:.60} on line {line:,} is not a "
            f"{self.kind} (cells like it: {count:,}): sent as texts, and {becomes}; to treat such cells as "
            f"{self.empty}, set --types {self.typed(self.kind)}; to read the whole column as text, set --types "
            f"{self.typed(Kind.TEXT)}"
        )

    def _marks(self, others: str, todo: str = "") -> Iterator[str]:
        """Yield a notice about the words that count as empty."""
        marks = [
            cell.strip() for (_, cell), one in zip(self.cells, self.readings, strict=True) if one is Reading.MISSING
        ]
        found = [mark for mark in marks if mark and (self.kind is not Kind.TEXT or is_no_label(mark))]
        if found:
            yield (
                f"has {', '.join(map(repr, sorted(set(found))))} in {len(found):,} of {self.where}: treated as "
                f"{self.empty}, because the other cells hold {others}{todo}"
            )

    def _text(self) -> Iterator[str]:
        """Yield a notice if most cells of a column of text look like numbers or times, or are different texts."""
        pairs = list(zip(self.cells, self.readings, strict=True))
        texts = [
            cell for cell, one in pairs if one not in (*_LIKE_NUMBERS, Reading.MISSING) and not is_formatted(cell[1])
        ]
        codes = [cell for cell, one in pairs if one in (Reading.CODE, Reading.VAGUE)]
        formatted = [cell for cell, one in pairs if one is Reading.TEXT and is_formatted(cell[1])]
        units = {mark for _, cell in texts if (mark := unit(cell)) is not None}
        if len(units) <= _UNITS:
            formatted += [cell for cell in texts if unit(cell[1]) is not None]
            texts = [cell for cell in texts if unit(cell[1]) is None]
        numbers = sum(one in NUMBERS for one in self.readings)
        if numbers + len(codes) + len(formatted) <= len(pairs) / 2:
            if not self.is_target:
                yield from self._many([cell for cell, one in pairs if one is not Reading.MISSING])
            return
        as_numbers = self.typed(Kind.NUMBER)
        if texts:
            what, todo = "not a number", f"to treat such cells as empty, set --types {as_numbers}"
        elif formatted:
            what, todo = "not a plain number", "if it is a number, write it in the file as 1234.5"
        else:
            what, todo = "a number or a code", f"if all are numbers, set --types {as_numbers}"
        found = texts or formatted or codes
        line, cell = found[0]
        yield (
            f"is treated as text: {cell!r:.60} on line {line:,} is {what} (cells like it: {len(found):,}, numbers: "
            f"{numbers:,}); {todo}"
        )

    def _many(self, found: Sequence[Cell]) -> Iterator[str]:
        """Yield a notice if most cells are times, or nearly all are different, so that they are bad categories."""
        different = len({cell for _, cell in found})
        if sum(is_time(cell) for _, cell in found) > len(found) / 2:
            what = "dates or times, which are treated as texts"
        elif len(found) >= _LEAST and different >= _NEARLY * len(found):
            what = "a different text in nearly every row"
        else:
            return
        line, cell = found[0]
        yield (
            f"holds {what}: {cell!r:.60} on line {line:,} (different texts: {different:,} of {len(found):,}); a model "
            f"learns little from such texts; to leave the column out, set --drop {shlex.quote(self.name)}"
        )


_UNITS = 3
"""Largest number of different units of a column of numbers. With more, they are probably codes."""
_LEAST = 20
"""Smallest number of texts of which it matters whether they are different."""
_NEARLY = 0.9
"""Share of different texts from which a column is reported."""
_LIKE_NUMBERS = (*NUMBERS, Reading.CODE, Reading.VAGUE)
