"""A column of a CSV file: its kind, and what the user should know about how its cells are read."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from glasstream.events.mapping.cells import NUMBERS, Reading, is_no_label, is_plain, kind, reading
from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.lookalikes import has_letters, is_bound, is_time, marks
from glasstream.events.mapping.stated import advice

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
        self.kind = kind(self.readings) if self.stated is None else self.stated.of_values

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

    @property
    def is_numeric(self) -> bool:
        """Return whether most of the cells with a value are numbers."""
        numbers = sum(one in NUMBERS for one in self.readings)
        return numbers > (len(self.readings) - self.readings.count(Reading.MISSING)) / 2

    @property
    def is_small(self) -> bool:
        """Return whether all numbers are whole and below 1,000, so that points below may separate thousands."""
        if self.kind is not Kind.NUMBER or self.stated is not None:
            return False
        found = {*self.readings} - {Reading.MISSING}
        return found == {Reading.WHOLE} and all(len(cell.lstrip("+-")) <= 3 for _, cell in self._cells(Reading.WHOLE))

    @property
    def has_decimal_commas(self) -> bool:
        """Return whether a cell is a number with a decimal comma, rather than with separators of thousands."""
        return any(one is Reading.TEXT and _COMMA.fullmatch(cell) for (_, cell), one in self._read())

    @property
    def name_is_value(self) -> bool | None:
        """Return whether the name could be a cell of the column: true, false, or unknown.

        A number could be one if it is not farther from the others than they are from each other.
        """
        if self.kind is Kind.TEXT:
            return True if any(cell == self.name for _, cell in self.cells) else None
        if self.kind is Kind.BOOLEAN or not is_plain(self.name.strip()):
            return reading(self.name) is Reading.BOOLEAN
        numbers = [float(cell) for (_, cell), one in self._read() if one in NUMBERS]
        if not numbers:
            return False
        low, high = min(numbers), max(numbers)
        return 2 * low - high <= float(self.name) <= 2 * high - low

    def lines_of_texts(self) -> Iterator[int]:
        """Yield the lines whose cells are words."""
        return (line for (line, cell), one in self._read() if one is Reading.TEXT and any(map(str.isalpha, cell)))

    def notices(self, *, commas: bool = False, strays: Collection[int] = ()) -> Iterator[str]:
        """Yield the notices about how the cells are read.

        Parameters
        ----------
        commas
            Whether another column has decimal commas.
        strays
            Lines that are probably no rows, which have a notice of their own.
        """
        yield from (f"{self.title} {text}" for text in self._notices(strays))
        if self.kind is Kind.NUMBER and self.stated is None:
            yield from self._thousands(commas)
            yield from self._equal()

    def _read(self) -> Iterator[tuple[Cell, Reading]]:
        return zip(self.cells, self.readings, strict=True)

    def _notices(self, strays: Collection[int]) -> Iterator[str]:
        if all(one is Reading.MISSING for one in self.readings):
            if words := self._words():
                todo = f"; if it is a class, set --types {self.typed(Kind.TEXT)}" if self.is_target else ""
                yield f"has {words}: treated as {self.empty}, and no row has another value{todo}"
            elif not self.is_target:
                yield "has no value in any row: no event has this feature"
            return
        if self.late:
            yield f"is empty above line {self.cells[0][0]:,}: {self.where} decide that it holds {self.kind}s"
        if self.stated is not None:
            return
        values = len(self.readings) - self.readings.count(Reading.MISSING)
        if self.readings[0] is not Reading.MISSING and values < _MERGED * len(self.readings):
            yield (
                f"has a value in only {values:,} of {self.where}, the first one included: if cells were merged, write "
                "the value into each row"
            )
        if self.kind is Kind.TEXT:
            if self.is_target:
                todo = f"; if it is a class, set --types {self.typed(Kind.TEXT)}"
                yield from self._marks("class names", todo)
            yield from self._text(strays)
            return
        yield from self._marks(f"{self.kind}s")
        yield from self._outlier()
        if count := self.readings.count(Reading.VAGUE):
            line, cell = self._first(Reading.VAGUE)
            yield (
                f"holds numbers, because some cells have a decimal point: {cell!r:.60} on line {line:,} is read as a "
                f"number, too (cells like it: {count:,}); if they are codes, set --types {self.typed(Kind.TEXT)}"
            )

    def typed(self, kind: Kind) -> str:
        """Return the value of `--types` that states this kind, as a shell reads it."""
        return shlex.quote(f"{self.name}={kind}")

    def as_numbers(self) -> str:
        """Return what to do if cells that are no plain numbers are numbers."""
        filled = [cell for (_, cell), one in self._read() if one is not Reading.MISSING]
        return advice(filled, lambda kind: f"--types {self.typed(kind)}")

    def first_formatted(self) -> tuple[Cell, int] | None:
        """Return the first number in another spelling, and the count of them, if most cells with a value are such."""
        texts = [pair for pair in self.cells if not is_no_label(pair[1])]
        found = [pair for pair in texts if (mark := marks(pair[1])) is not None and not has_letters(mark)]
        return (found[0], len(found)) if len(found) > len(texts) / 2 else None

    def of_many_classes(self, count: int) -> str:
        """Return the notice about a target with so many classes."""
        what = "dates or times" if self._are_times(self.cells) else "texts"
        return f"{self.title} has {count:,} different {what} in {self.where}: each is a class of its own"

    def infinite(self, line: int, cell: str, count: int) -> str:
        """Return the notice about infinite cells, of which this one is the first."""
        return (
            f"{self.title} holds finite numbers only, but {cell.strip()!r:.60} is on line {line:,} (cells like it: "
            f"{count:,}): treated as {self.empty}"
        )

    def thousands(self, line: int, cell: str, count: int) -> str:
        """Return the notice about cells whose points may separate thousands, of which this one is the first."""
        return (
            f"{self.title} may have points as separators of thousands: {cell!r:.60} on line {line:,} is read as a "
            f"decimal fraction (cells like it: {count:,}), but no point has more or fewer than three digits behind "
            f"it; if it means {cell.strip().replace('.', '')}, set --types {self.typed(Kind.COMMA)}"
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

    def _first(self, one: Reading) -> Cell:
        return self.cells[self.readings.index(one)]

    def _words(self) -> str:
        """Return the words that count as empty, and the number of their rows; nothing if there are none."""
        marks = [cell.strip() for (_, cell), one in self._read() if one is Reading.MISSING]
        found = [mark for mark in marks if mark and (self.kind is not Kind.TEXT or is_no_label(mark))]
        return f"{', '.join(map(repr, sorted(set(found))))} in {len(found):,} of {self.where}" if found else ""

    def _marks(self, others: str, todo: str = "") -> Iterator[str]:
        """Yield a notice about the words that count as empty."""
        if words := self._words():
            yield f"has {words}: treated as {self.empty}, because the other cells hold {others}{todo}"

    def _thousands(self, commas: bool) -> Iterator[str]:
        """Yield a notice if the points of all numbers can be separators of thousands.

        Each point then has three digits behind it, and no number without a point has more than three digits. Programs
        that write decimals either write them for all numbers, or leave out zeros at the end.
        """
        pointed = [cell for _, cell in self._cells(Reading.POINT)]
        whole = [cell for _, cell in self._cells(Reading.WHOLE)]
        if (
            (commas or whole)
            and len(pointed) >= _LEAST_POINTS
            and all(map(is_thousand, pointed))
            and all(len(cell.lstrip("+-")) <= 3 for cell in whole)
        ):
            yield self.thousands(*self._first(Reading.POINT), len(pointed))

    def _equal(self) -> Iterator[str]:
        """Yield a notice about cells that differ only in zeros at the end, as versions do."""
        first = {cell: line for line, cell in reversed([*self._cells(Reading.POINT)])}
        found = [cell for cell in first if _ZEROS.fullmatch(cell) and cell.rstrip("0") in first]
        if found:
            cell = found[0]
            yield (
                f"{self.title} has {cell!r:.60} on line {first[cell]:,} and {cell.rstrip('0')!r:.60}, which are the "
                f"same number (texts like it: {len(found):,}); if they are versions or codes, set --types "
                f"{self.typed(Kind.TEXT)}"
            )

    def _outlier(self) -> Iterator[str]:
        """Yield a notice if a frequent number other than 0 is far from all others, or is the largest and made of 9s."""
        if self.kind is not Kind.NUMBER:
            return
        numbers = Counter(float(cell) for (_, cell), one in self._read() if one in NUMBERS)
        order = sorted(numbers)
        if len(order) < _LEAST:
            return
        second = numbers.most_common(2)[1][1]
        for number, near, far in ((order[0], order[1], order[-1]), (order[-1], order[-2], order[0])):
            count = numbers[number]
            nines = _NINES.fullmatch(f"{number:g}") and count > _NINES_OFTEN * second
            if number and count >= _OFTEN * numbers.total() and (nines or abs(number - near) > abs(far - near)):
                yield (
                    f"holds {number:g} in {count:,} of {self.where}, outside of all other numbers, which are "
                    f"{min(near, far):g} to {max(near, far):g}: it is read as a number; if it stands for a missing "
                    "value, leave the cells empty"
                )

    def _cells(self, wanted: Reading) -> Iterator[Cell]:
        return ((line, cell.strip()) for (line, cell), one in self._read() if one is wanted)

    def _text(self, strays: Collection[int]) -> Iterator[str]:
        """Yield a notice if most cells of a column of text look like numbers or times, or are different texts."""
        pairs = [pair for pair in self._read() if pair[0][0] not in strays]
        if {cell.strip().lower() for (_, cell), one in pairs if one is not Reading.MISSING} <= _BOOLEANS:
            words, digits = (sum(one is wanted for _, one in pairs) for wanted in (Reading.BOOLEAN, Reading.WHOLE))
            yield (
                f"is treated as text: true and false ({words:,} rows) are other values than 1 and 0 ({digits:,}); if "
                f"they are the same, set --types {self.typed(Kind.BOOLEAN)}"
            )
            return
        marked = {cell: mark for cell, one in pairs if one is Reading.TEXT and (mark := marks(cell[1])) is not None}
        if len({mark for mark in marked.values() if has_letters(mark)}) > _UNITS:
            marked = {cell: mark for cell, mark in marked.items() if not has_letters(mark)}
        if len({cell for (_, cell), mark in marked.items() if is_bound(mark)}) <= _BOUNDS:
            marked = {cell: mark for cell, mark in marked.items() if not is_bound(mark)}
        formatted = [*marked]
        other = {Reading.TEXT, Reading.BOOLEAN, Reading.INFINITE}
        texts = [cell for cell, one in pairs if one in other and cell not in marked]
        codes = [cell for cell, one in pairs if one in (Reading.CODE, Reading.VAGUE)]
        numbers = sum(one in NUMBERS for one in self.readings)
        if numbers + len(codes) + len(formatted) <= len(pairs) / 2:
            if not self.is_target:
                yield from self._many([cell for cell, one in pairs if one is not Reading.MISSING])
            return
        as_numbers = self.typed(Kind.NUMBER)
        if texts:
            what, todo = "not a number", f"to treat such cells as empty, set --types {as_numbers}"
        elif formatted:
            what, todo = "not a plain number", f"if these are numbers, {self.as_numbers()}"
        else:
            what, todo = "a number or a code", f"if all are numbers, set --types {as_numbers}"
        found = texts or formatted or codes
        if not found:
            return
        line, cell = found[0]
        yield (
            f"is treated as text: {cell!r:.60} on line {line:,} is {what} (cells like it: {len(found):,}, numbers: "
            f"{numbers:,}); {todo}"
        )

    def _many(self, found: Sequence[Cell]) -> Iterator[str]:
        """Yield a notice if most cells are times, or nearly all are different, so that they are bad categories."""
        different = len({cell for _, cell in found})
        if self._are_times(found):
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

    @staticmethod
    def _are_times(found: Sequence[Cell]) -> bool:
        return sum(is_time(cell) for _, cell in found) > len(found) / 2


def is_thousand(cell: str) -> bool:
    """Return whether the point of a number can separate thousands.

    >>> [is_thousand(cell) for cell in ("1.234", " -45.678", "1.23", "0.234", "1234.567")]
    [True, True, False, False, False]
    """
    return _THOUSAND.fullmatch(cell.strip()) is not None


_BOOLEANS = frozenset({"true", "false", "1", "0"})
"""Cells that fit a stated boolean, in small letters. A column of text with these only has words and digits."""
_COMMA = re.compile(r"[+-]?[0-9.]+,(?![0-9]{3}$)[0-9]+")
_ZEROS = re.compile(r"[+-]?[0-9]+\.[0-9]*[1-9]0+")
_THOUSAND = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_NINES = re.compile(r"-?99+")
_NINES_OFTEN = 5
"""How many times as frequent as the second most frequent number a number of 9s is if it stands for a missing value."""
_LEAST_POINTS = 3
"""Smallest number of cells with points that are examined for separators of thousands."""
_UNITS = 3
"""Largest number of different units of a column of numbers. With more, they are probably codes."""
_BOUNDS = 10
"""Largest number of different texts such as `>50K` that are probably classes."""
_LEAST = 20
"""Smallest number of texts of which it matters whether they are different."""
_MERGED = 0.05
"""Share of rows with a value below which cells of a table were probably merged."""
_OFTEN = 0.01
"""Share of the rows from which a number far from all others probably stands for a missing value."""
_NEARLY = 0.9
"""Share of different texts from which a column is reported."""
