"""Settings: four sources in order, and every error at once."""

from pathlib import Path

import pytest

from glasstream.configuration import load, to_environment
from glasstream.errors import SettingsError
from glasstream.presets import PRESETS


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text('seed = 5\n[explain]\nalpha = 0.5\nreservoir = 7\n[kafka]\n"security.protocol" = "SSL"\n')
    environment = {"GLASSTREAM_EXPLAIN_ALPHA": "0.25", "GLASSTREAM_SEED": "6", "GLASSTREAM_HMAC_KEY": "not a setting"}
    settings = load(file=file, environment=environment, assignments=["seed=7"], defaults={"seed": 4, "epoch": 3})
    assert (settings.epoch, settings.seed) == (3, 7)
    assert (settings.explain.alpha, settings.explain.reservoir, settings.start) == (0.25, 7, 7)
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
        "unknown.key: there is no such setting; ops/docs/settings.md lists the settings",
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
        "explain.methods: expected one or more of ipfi, isage, ipdp, separated by commas, optionally with novelty, "
        "got 'shap' (--set explain.methods=shap)",
        "prefix: expected 1 to 100 letters of A-Z, a-z, 0-9, '.', '_' and '-', got 'a b' (--set prefix=a b)",
    ]


def test_children_get_the_same_settings_through_their_environment() -> None:
    settings = load(
        assignments=["model.many_classes=true", "explain.loss=brier", "seed=-3", "worker.check_crcs=false"],
        environment={"GLASSTREAM_KAFKA_SASL_USERNAME": "me"},
    )
    assert load(environment=to_environment(settings)) == settings


def test_the_fingerprint_is_what_changes_numbers() -> None:
    base = load().fingerprint()
    for harmless in ("block.rows=7", "publish.every=3", "limits.rows_ahead=50", "transaction.seconds=1", "prefix=x."):
        assert load(assignments=[harmless]).fingerprint() == base
    for key in base:
        other = {"model.task": "regression", "model.name": "tree", "explain.sampling": "uniform",
                 "explain.loss": "brier", "model.many_classes": "true", "topics.partitioner": "crc32",
                 "explain.alpha": "0.5", "explain.methods": "ipdp", "explain.level": "0.5", "isage.fresh": "true",
                 "isage.removal": "conditional", "isage.corrected": "true", "ipdp.grid": "quantiles",
                 "ipdp.low": "0.2", "ipdp.high": "0.7", "drift.watch": "loss", "drift.values": "smoothed",
                 "drift.pd": "squares", "drift.detector": "kswin", "drift.bonferroni": "false", "drift.delta": "0.5",
                 "drift.forgetting_factor": "0.5", "drift.alpha": "0.5"}.get(key, "77")  # fmt: skip
        assert load(assignments=[f"{key}={other}"]).fingerprint() != base, key


def test_a_preset_yields_to_whatever_is_set(tmp_path: Path) -> None:
    file = tmp_path / "glasstream.toml"
    file.write_text("[ipdp]\npoints = 5\n")
    plain = load(assignments=["drift.preset=paper"])
    assert (plain.explain.methods, plain.explain.alpha, plain.ipdp.points, plain.ipdp.low, plain.ipdp.high) == (
        *("ipdp", 0.001, 10, 0.05, 0.95),
    )
    watched = plain.aggregator().drift
    assert watched is not None and watched.signals == ("pd_importance",) and watched.smoothed and watched.squares
    assert watched.parameters_of(9) == {
        "delta": 1e-5, "clock": 32, "max_buckets": 5, "min_window_length": 5, "grace_period": 2_000,
    }  # fmt: skip
    mixed = load(
        file=file,
        environment={"GLASSTREAM_DRIFT_PRESET": "paper", "GLASSTREAM_DRIFT_GRACE": "500"},
        assignments=["explain.methods=ipfi,ipdp"],
        defaults={"prefix": "x.", "explain.alpha": 0.5},
    )
    assert (mixed.ipdp.points, mixed.drift.grace, mixed.methods, mixed.drift.pd) == (
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
    settings = load(assignments=["drift.detector=kswin", "drift.stat_size=60"])
    with pytest.raises(SettingsError, match=r"drift.stat_size: expected at most half of drift.window \(100\), got 60"):
        settings.aggregator()


def test_nothing_is_watched_if_so_asked() -> None:
    assert load(assignments=["drift.watch=none"]).aggregator().drift is None
