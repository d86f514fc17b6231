"""Settings: four sources in order, and every error at once."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from glasstream.app.configuration import choices_of, load, to_environment
from glasstream.app.presets import PRESETS
from glasstream.base.changes import Changes, ChangesNothing, keys
from glasstream.base.errors import SettingsError
from glasstream.flow.settings import Settings


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text('seed = 5\n[explain]\nalpha = 0.5\nreservoir = 7\n[kafka]\n"security.protocol" = "SSL"\n')
    environment = {"GLASSTREAM_EXPLAIN_ALPHA": "0.25", "GLASSTREAM_SEED": "6", "GLASSTREAM_HMAC_KEY": "not a setting"}
    settings = load(file=file, environment=environment, assignments=["seed=7"], defaults={"seed": 4, "epoch": 3})
    assert (settings.epoch, settings.seed) == (3, 7)
    assert (settings.explain.alpha, settings.explain.reservoir, settings.explain.first_row) == (0.25, 7, 7)
    assert settings.kafka == {"security.protocol": "SSL"}


def test_every_error_of_every_source_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text("[explain]\nalpha = 2\nnothing = 1\n[unknown]\nkey = 1\n")
    with pytest.raises(SettingsError) as caught:
        load(
            file=file,
            environment={"GLASSTREAM_EXPLAIN_DRAWS": "many", "GLASSTREAM_SEDE": "1"},
            assignments=["publish.every=0", "no equals sign", "model.task=ranking"],
        )
    findings = "\n".join(caught.value.findings)
    for expected in (
        "explain.alpha: expected a number <= 1.0, got 2",
        "explain.nothing: expected one of alpha, draws",
        "unknown.key: there is no such setting; ops/docs/all-settings.md lists the settings",
        "explain.draws: expected a whole number",
        "sede: there is no such setting; did you mean seed? (GLASSTREAM_SEDE)",
        "publish.every: expected a whole number >= 1, got '0'",
        "--set: expected KEY=VALUE, got 'no equals sign'",
        "model.task: ",
    ):
        assert expected in findings
    assert len(caught.value.findings) == 8


def test_a_variable_that_kubernetes_sets_for_a_service_is_refused_with_that_explanation() -> None:
    told = {  # by a Service named glasstream, and one named glasstream-health
        "GLASSTREAM_SERVICE_HOST": "10.0.0.1",
        "GLASSTREAM_PORT": "tcp://10.0.0.1:8080",
        "GLASSTREAM_PORT_8080_TCP_ADDR": "10.0.0.1",
        "GLASSTREAM_HEALTH_PORT": "tcp://10.0.0.1:8080",
        "GLASSTREAM_HEALTH_SERVICE_PORT": "8080",
    }
    with pytest.raises(SettingsError) as caught:
        load(environment={**told, "GLASSTREAM_SEDE": "1"})
    explained = {variable: "enableServiceLinks: false" in finding for variable in (*told, "GLASSTREAM_SEDE")
                 for finding in caught.value.findings if f"({variable})" in finding}  # fmt: skip
    assert explained == {**dict.fromkeys(told, True), "GLASSTREAM_SEDE": False}


def test_a_file_that_cannot_be_read_or_is_not_toml(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(file=tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(SettingsError, match="expected TOML"):
        load(file=tmp_path / "bad.toml")


def test_a_value_where_a_table_belongs(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text("publish = 3\nkafka = true\n")
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={"GLASSTREAM_BLOCK": "3"}, assignments=["limits=3"])
    assert caught.value.findings == [
        "GLASSTREAM_BLOCK: block is a group of settings; set one variable for each, such as GLASSTREAM_BLOCK_ROWS",
        f"publish: expected a table of settings (publish.every, ...), got the integer 3 ({file})",
        f"kafka: expected a table of settings (kafka.security.protocol, ...), got the boolean true ({file})",
        "limits: expected a table of settings (limits.message_bytes, ...), got the text '3' (--set limits=3)",
    ]


def test_a_loss_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match=r"explain.loss: expected one of zero_one"):
        load(assignments=["explain.loss=hinge"])


def test_a_pattern_is_told_in_words() -> None:
    with pytest.raises(SettingsError) as error:
        load(assignments=["explain.methods=shap", "prefix=a b"])
    assert error.value.findings == [
        "explain.methods: expected one or more of ipfi, isage, ipdp, attributions, separated by commas, optionally "
        "with novelty, got 'shap' (--set explain.methods=shap)",
        "prefix: expected 1 to 100 letters of A-Z, a-z, 0-9, '.', '_' and '-', got 'a b' (--set prefix=a b)",
    ]


def test_options_of_a_command_are_named_as_such_and_give_way_to_set() -> None:
    with pytest.raises(SettingsError, match=r"got '7' \(command line\)$"):
        load(options={"explain.alpha": "7"})
    settings = load(
        environment={"GLASSTREAM_SEED": "2", "GLASSTREAM_PREFIX": "a."},
        options={"seed": "3", "prefix": "b."},
        assignments=["seed=4"],
    )
    assert (settings.seed, settings.prefix) == (4, "b.")


def test_an_error_names_what_came_once() -> None:
    with pytest.raises(SettingsError) as error:
        load(assignments=["seed=x", "worker.debug=maybe"])
    assert error.value.findings == [
        "seed: expected a whole number, got 'x' (--set seed=x)",
        "worker.debug: expected true or false, got 'maybe' (--set worker.debug=maybe)",
    ]


def test_children_get_the_same_settings_through_their_environment() -> None:
    settings = load(
        assignments=["model.many_classes=true", "explain.loss=brier", "seed=-3", "worker.check_crcs=false"],
        environment={"GLASSTREAM_KAFKA_SASL_USERNAME": "me"},
    )
    assert load(environment=to_environment(settings)) == settings


TYPES = {
    f"{section.name}.{field.name}": field.type
    for section in msgspec.structs.fields(Settings)
    if isinstance(section.type, type)
    for field in msgspec.structs.fields(section.type)
} | {field.name: field.type for field in msgspec.structs.fields(Settings) if not isinstance(field.type, type)}

ANOTHER = {
    "explain.methods": "ipdp", "drift.watch": "loss", "drift.detector": "kswin", "novelty.held": "0.5",
    "worker.heartbeat_seconds": "77", "notify.page": "https://page.example.org/",
    "intake.where": "a=b", "intake.labels_where": "a=b", "intake.features": "a", "intake.id": "@key",
    "intake.meta": "a", "intake.stream": "@key", "intake.ts": "a", "intake.types": "a=text",
    "intake.labels_format": "json", "intake.registry": "https://registry.example.org",
    "notify.statuses": "over", "notify.verdicts": "unclear",
    "avro.registry": "https://registry.example.org", "avro.topics": "drift",
}  # fmt: skip
NEEDS = {"explain.unlabelled": ["explain.methods=ipdp"]}
"""Other settings that a setting needs."""
VALUES = ("true", "false", "2", "77", "500", "0.3", "30000", "2000000", "x")


def another(key: str) -> Settings:
    """Settings that differ from the defaults, and from what it needs, in one setting."""
    needed = NEEDS.get(key, [])
    for value in [ANOTHER[key]] if key in ANOTHER else [*map(str, choices_of(TYPES[key])), *VALUES]:
        try:
            changed = load(assignments=[*needed, f"{key}={value}"])
        except SettingsError:
            continue
        if changed != load(assignments=needed):
            return changed
    raise AssertionError(f"{key}: expected another value that the setting accepts; add it to ANOTHER")


def test_a_setting_changes_the_fingerprints_that_its_mark_names() -> None:
    for key in TYPES.keys() - {"kafka", "drift.preset"}:  # a preset stands for other settings
        base = load(assignments=NEEDS.get(key, []))
        (mark,) = (one for one in get_args(TYPES[key]) if isinstance(one, Changes))
        changed = another(key)
        assert (changed.fingerprint() != base.fingerprint()) == bool(mark & Changes.EXPLANATIONS), key
        assert (changed.novelty_fingerprint() != base.novelty_fingerprint()) == bool(mark & Changes.NOVELTY), key


def test_the_fingerprints_have_the_settings_that_change_numbers() -> None:
    """A mark can be wrong, so a change of this list must be meant."""
    file = Path(__file__).with_name("fingerprints.json")
    found = {"explanations": sorted(load().fingerprint()), "novelty": sorted(load().novelty_fingerprint())}
    assert found == msgspec.json.decode(file.read_bytes())


def test_a_setting_without_a_mark_is_refused() -> None:
    class Section(msgspec.Struct):
        marked: ChangesNothing[int] = 1
        forgotten: int = 2

    with pytest.raises(TypeError, match=r"^explain.forgotten: expected one mark"):
        keys(Section, Changes.BOTH, "explain.")


def test_a_preset_yields_to_whatever_is_set(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text("[ipdp]\npoints = 5\n")
    plain = load(assignments=["drift.preset=paper"])
    assert (plain.explain.methods, plain.explain.alpha, plain.ipdp.points, plain.ipdp.low, plain.ipdp.high) == (
        *("ipdp", 0.001, 10, 0.05, 0.95),
    )
    watched = plain.drift
    assert (watched.signals, watched.values, watched.pd) == (("pd_importance",), "smoothed", "squares")
    assert watched.parameters(seed=1, series=9) == {
        "delta": 1e-5, "clock": 32, "max_buckets": 5, "min_window_length": 5, "grace_period": 2_000,
    }  # fmt: skip
    mixed = load(
        file=file,
        environment={"GLASSTREAM_DRIFT_PRESET": "paper", "GLASSTREAM_DRIFT_GRACE": "500"},
        assignments=["explain.methods=ipfi,ipdp"],
        defaults={"prefix": "x.", "explain.alpha": 0.5},
    )
    assert (mixed.ipdp.points, mixed.drift.grace, mixed.explain.names, mixed.drift.pd) == (
        5,
        500,
        ("ipfi", "ipdp"),
        "squares",
    )
    assert mixed.explain.alpha == 0.001


def test_children_get_what_was_set_against_a_preset() -> None:
    for assignments in ([], ["drift.grace=500", "drift.bonferroni=true", "explain.methods=ipfi,ipdp"]):
        settings = load(assignments=["drift.preset=paper", *assignments])
        assert load(environment=to_environment(settings)) == settings


def test_a_preset_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match=r"drift.preset: expected one of paper"):
        load(assignments=["drift.preset=mine"])


def test_a_preset_is_no_number() -> None:
    spelt_out = [f"{key}={str(value).lower()}" for key, value in PRESETS["paper"].items()]
    assert load(assignments=spelt_out).fingerprint() == load(assignments=["drift.preset=paper"]).fingerprint()


def test_the_newer_side_of_kswin_is_at_most_half_its_window() -> None:
    with pytest.raises(SettingsError, match=r"drift.stat_size: expected at most half of drift.window \(100\), got 60"):
        load(assignments=["drift.detector=kswin", "drift.stat_size=60"])


def test_nothing_is_watched_if_so_asked() -> None:
    assert load(assignments=["drift.watch=none"]).drift.signals == ()
