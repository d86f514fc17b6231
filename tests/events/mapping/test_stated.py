"""Numbers that people write are read as what they say, or not at all."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.stated import notations, value


def grouped(number: float, thousands: str, decimal: str) -> str:
    return f"{number:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))


WAYS: dict[str, tuple[Kind, Callable[[float], str]]] = {
    "German": (Kind.COMMA, lambda number: grouped(number, ".", ",") + " €"),
    "French": (Kind.COMMA, lambda number: grouped(number, "\N{NARROW NO-BREAK SPACE}", ",") + " €"),
    "Brazilian": (Kind.COMMA, lambda number: "R$ " + grouped(number, ".", ",")),
    "Swiss": (Kind.POINT, lambda number: "CHF " + grouped(number, "'", ".")),
    "American": (Kind.POINT, lambda number: f"{'-' * (number < 0)}${abs(number):,.2f}"),
    "of accountants": (Kind.POINT, lambda number: f"({-number:,.2f})" if number < 0 else f"{number:,.2f}"),
    "of SAP": (Kind.COMMA, lambda number: grouped(abs(number), ".", ",") + ("-" if number < 0 else "")),
    "with a unit": (Kind.POINT, lambda number: f"{number:.2f} km/h"),
    "with a sign of mathematics": (Kind.COMMA, lambda number: f"{number:.2f}".replace(".", ",").replace("-", "−")),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@given(cents=st.integers(-(10**12), 10**12))
def test_a_number_comes_back_from_the_notation_in_which_it_is_written(way: str, cents: int) -> None:
    kind, write = WAYS[way]
    number = cents / 100
    text = write(number)
    assert value(text, kind) == number
    other = Kind.POINT if kind is Kind.COMMA else Kind.COMMA
    assert value(text, other) == text  # two digits behind the mark are no group of thousands


@given(st.from_regex(r"[-(~€]?[0-9]{1,4}([., '][0-9]{1,4}){0,3}([eE]-?[0-9])?( ?(€|%|kg|\)|-))?", fullmatch=True))
def test_both_notations_agree_unless_a_mark_can_be_of_either(text: str) -> None:
    found = {kind: value(text, kind) for kind in (Kind.COMMA, Kind.POINT)}
    assume(all(isinstance(one, float) for one in found.values()))
    if found[Kind.COMMA] != found[Kind.POINT]:
        assert any(mark in text for mark in ".,") and len(notations([text])) == 2
    else:
        assert len(notations([text])) == 1


@pytest.mark.parametrize("units", [["1 kg", "500 g"], ["$5", "5 EUR", "6 USD"]])
def test_texts_of_several_units_have_no_notation(units: list[str]) -> None:
    assert notations(units) == []


@given(st.text(max_size=20), st.sampled_from([Kind.COMMA, Kind.POINT]))
def test_other_texts_stay_or_are_missing(text: str, kind: Kind) -> None:
    found = value(text, kind)
    assert found is None or found == text or any(one.isdecimal() for one in text)


@pytest.mark.parametrize("part", ["1", "1,", " x"])
def test_a_long_text_is_no_number(part: str) -> None:
    """Some patterns would take hours."""
    text = 500_000 * part
    assert value(text, Kind.COMMA) == (None if part == "1" else text)  # None: beyond the range of floats
