"""Records and estimates in a notebook: everything is shown, as text, in bounded size."""

from html.parser import HTMLParser

import pytest
from river import compose, linear_model

from glasstream import ExplainedModel, IncrementalPDP, IncrementalPFI
from glasstream_topics import ALL
from glasstream_topics.notebook import bar, curve, table
from tests.support.golden_records import GOLDEN, checked_in

PUBLIC = {topic.name: topic for topic in ALL if topic.json is not None}
HOSTILE = "<script>alert(1)</script>&\"'"


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> Texts:
    found = Texts()
    found.feed(html)
    found.close()
    return found


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.split(".v1")[0] in PUBLIC])
def test_a_record_shows_every_field(name: str) -> None:
    record = PUBLIC[name.split(".v1")[0]].json.decode(checked_in(name))  # type: ignore[union-attr]
    found = read(record._repr_html_())
    for field in record.__struct_fields__:
        if field != "schema_version":
            assert any(text == field or text.startswith(f"{field}.") for text in found.texts), field
    assert record.stream in found.texts


def test_names_of_users_are_shown_as_text() -> None:
    assert read(table(HOSTILE, [HOSTILE], [[HOSTILE, {HOSTILE: [HOSTILE]}]])).tags.count("script") == 0
    model = compose.SelectType(int) | linear_model.LinearRegression()
    explained = ExplainedModel(model, IncrementalPFI(model, reservoir=5), IncrementalPDP(model))
    for number in range(50):
        explained.learn_one({HOSTILE: number % 5, "kind": HOSTILE * (number % 2)}, float(number % 5))
    found = read(explained._repr_html_())
    assert "script" not in found.tags and found.texts.count(HOSTILE) >= 2 and found.tags.count("table") == 2


def test_estimators_without_events_show_an_empty_table() -> None:
    model = linear_model.LinearRegression()
    for one in (IncrementalPFI(model), IncrementalPDP(model)):
        assert "after 0 events" in read(one._repr_html_()).texts[0]


def test_the_largest_come_first_with_their_interval() -> None:
    model = linear_model.LinearRegression()
    pfi = IncrementalPFI(model, alpha=0.05, reservoir=20)
    for number in range(300):
        x, y = {"noise": number % 3, "used": number % 5}, 2.0 * (number % 5)
        pfi.explain_one(x, y)
        model.learn_one(x, y)
    texts = read(pfi._repr_html_()).texts
    low, high = pfi.interval()["used"]
    start = texts.index("used")
    assert start < texts.index("noise")
    assert texts[start + 1 : start + 4] == [f"{pfi.importance['used']:.4g}", f"{low:.4g}", f"{high:.4g}"]


def test_a_table_has_bounded_size() -> None:
    rows = [[number, "x" * 10_000, list(range(10_000))] for number in range(10_000)]
    html = table("many", ["number", "text", "list"], rows)
    assert len(html) < 40_000 and "9,950 more" in html and "9992 more" in html


def test_plots_stay_inside_whatever_the_values() -> None:
    for values in ([], [1.0], [1.0, 1.0], [-5.0, 1e300], [float("nan"), 1.0], [float("inf")]):
        for places in ([float(at) for at in range(len(values))], ["a"] * len(values), [2.0] * len(values)):
            assert "nan" not in curve(places, values) and "inf" not in curve(places, values)
    assert (
        "width='120.0'" in bar(2.0, 1.0) and "width='0.0'" in bar(float("nan"), 1.0) and "width='0.0'" in bar(1.0, 0.0)
    )
