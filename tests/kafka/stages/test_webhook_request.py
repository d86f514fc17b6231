"""The request for an incident: what its id, body and signature promise."""

import hashlib
import hmac
import re
from urllib.parse import parse_qs

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.base.errors import SettingsError
from glasstream.flow.notify_settings import NotifySettings
from glasstream.kafka.stages.webhook_request import body, identity, signature
from tests.support.incident_records import encoded, incident

KEYS = (b"a key of sixteen bytes", b"another of sixteen bytes")

records = st.tuples(
    st.integers(0, 3),
    st.text(min_size=1, max_size=80) | st.sampled_from(["a/1", "a", "a%2F1", "sha256:a", "x" * 1024, "é" * 1024]),
    st.integers(1, 3),
    st.sampled_from(["open", "over", "normal"]),
    st.integers(0, 3),
)


@given(records, records)
def test_an_id_names_one_record_and_fits_a_header(one: tuple, other: tuple) -> None:
    names = [
        identity(incident(number, epoch=epoch, stream=stream, status=status, row=row), "t.incidents")
        for epoch, stream, number, status, row in (one, other)
    ]
    assert (names[0] == names[1]) == (one == other)
    assert all(re.fullmatch(r"[!-~]{1,320}", name) for name in names)


def test_the_body_holds_all_fields_of_the_record_and_its_own() -> None:
    found = orjson.loads(body(incident(3), "id", NotifySettings(page="https://page.example.org/")))
    own = {name: found.pop(name) for name in ("id", "text", "link")}
    assert found == orjson.loads(encoded(3))
    assert own == {
        "id": "id",
        "text": "Incident 3 of orders is open (concept moved): The loss tripled at row 900.",
        "link": "https://page.example.org/#stream=orders",
    }
    assert "link" not in orjson.loads(body(incident(3), "id", NotifySettings()))


@given(st.text(min_size=1, max_size=40))
def test_the_link_names_the_stream_as_the_page_reads_it(stream: str) -> None:
    link = orjson.loads(body(incident(stream=stream), "id", NotifySettings(page="http://h:8642/")))["link"]
    assert parse_qs(link.partition("#")[2], keep_blank_values=True) == {"stream": [stream]}
    assert re.fullmatch(r"[!-~]+", link)


def test_slack_gets_text_only_in_which_names_mention_nobody() -> None:
    settings = NotifySettings(form="slack", page="http://h:8642/")
    found = orjson.loads(body(incident(stream="<!channel>", summary="a & b"), "id", settings))
    assert found == {
        "text": "Incident 1 of &lt;!channel&gt; is open (concept moved): a &amp; b\n"
        "<http://h:8642/#stream=%3C%21channel%3E|Open the page>"
    }


def test_statuses_and_verdicts_of_later_releases_are_named_as_they_are() -> None:
    text = orjson.loads(body(incident(status="merged", verdict="weather"), "id", NotifySettings()))["text"]
    assert text.startswith("Incident 1 of orders merged (weather): ")


@given(st.binary(max_size=50), st.integers(0, 2**40))
def test_a_signature_authenticates_body_and_time_under_each_key(content: bytes, time: int) -> None:
    stamp, *signatures = signature(KEYS, content, time).split(",")
    assert stamp == f"t={time}"
    assert signatures == [
        "v1=" + hmac.new(key, f"{time}.".encode() + content, hashlib.sha256).hexdigest() for key in KEYS
    ]


@pytest.mark.parametrize(
    ("assignments", "wanted"),
    [
        ([], {("open", "unclear"), ("over", "concept_moved"), ("merged", "weather")}),
        (["notify.statuses=open,normal"], {("open", "unclear")}),
        (["notify.verdicts=concept_moved,data_moved"], {("over", "concept_moved")}),
        (["notify.statuses=open", "notify.verdicts=concept_moved"], set()),
    ],
)
def test_settings_choose_by_status_and_verdict(assignments: list[str], wanted: set[tuple[str, str]]) -> None:
    settings = load(assignments=assignments).notify
    offered = [("open", "unclear"), ("over", "concept_moved"), ("merged", "weather")]
    assert {one for one in offered if settings.wants(*one)} == wanted


@pytest.mark.parametrize(
    "assignment",
    [
        "notify.statuses=opened",
        "notify.verdicts=concept_moved,",
        "notify.page=page.example.org",
        "notify.page=https://h/#stream=a",
        "notify.attempts=0",
    ],
)
def test_what_can_not_be_meant_is_refused(assignment: str) -> None:
    with pytest.raises(SettingsError, match=assignment.partition("=")[0]):
        load(assignments=[assignment])


def test_the_bound_of_a_pause_doubles_up_to_the_longest() -> None:
    settings = NotifySettings(first_seconds=0.5, longest_seconds=7.0)
    assert [settings.longest_pause(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1, 2, 4, 7, 7]
