"""Secrets: one rule for all of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from glasstream.app.configuration import SECRET_SETTINGS, load
from glasstream.app.runner.prepare import environment as of_children
from glasstream.base.errors import SettingsError
from glasstream.kafka.secret import hmac_key, notify_keys, notify_url, page_token

SECRET = "0123456789abcdef-secret"

Read = Callable[[Mapping[str, str]], str | None]


def _joined(keys: tuple[bytes, ...] | None) -> str | None:
    return None if keys is None else ",".join(key.decode() for key in keys)


def _hmac_key(environment: Mapping[str, str]) -> str | None:
    return _joined(hmac_key(environment))


READERS: dict[str, Read] = {
    "GLASSTREAM_HMAC_KEY": _hmac_key,
    "GLASSTREAM_PAGE_TOKEN": page_token,
    "GLASSTREAM_NOTIFY_URL": notify_url,
    "GLASSTREAM_NOTIFY_KEY": lambda environment: _joined(notify_keys(environment)),
    "GLASSTREAM_KAFKA_SASL_PASSWORD": lambda environment: load(environment=environment).kafka.get("sasl.password"),
    "GLASSTREAM_KAFKA_SSL_KEY_PASSWORD": lambda environment: load(environment=environment).kafka.get(
        "ssl.key.password"
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_secret_comes_from_its_variable_or_a_file_and_never_from_both(name: str, tmp_path: Path) -> None:
    read, file, variable = READERS[name], tmp_path / "secret", f"{name}_FILE"
    file.write_text(f"{SECRET}\n")
    assert read({}) is None
    assert read({name: "", variable: ""}) is None
    assert read({name: SECRET}) == SECRET
    assert read({variable: str(file)}) == SECRET
    assert read({name: "", variable: str(file)}) == SECRET
    with pytest.raises(SettingsError, match=f"{name} and {variable} are both set; unset one") as both:
        read({name: SECRET, variable: str(file)})
    assert SECRET not in str(both.value)


@pytest.mark.parametrize("name", READERS)
def test_a_file_without_a_secret_is_an_error(name: str, tmp_path: Path) -> None:
    read, file, variable = READERS[name], tmp_path / "secret", f"{name}_FILE"
    with pytest.raises(SettingsError, match=rf"{variable}: {file} cannot be read: No such file"):
        read({variable: str(file)})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=f"{variable}: {file} cannot be read: it is no text"):
        read({variable: str(file)})
    file.write_text(" \n")
    with pytest.raises(SettingsError, match=f"{variable}: expected a secret in {file}, got an empty file"):
        read({variable: str(file)})


@pytest.mark.parametrize(("name", "read"), [("GLASSTREAM_HMAC_KEY", hmac_key), ("GLASSTREAM_NOTIFY_KEY", notify_keys)])
@pytest.mark.parametrize(
    "text", [f"{SECRET},{SECRET[::-1]}", f"{SECRET} ,\n\n {SECRET[::-1]},", f"{SECRET}\r\n{SECRET[::-1]}"]
)
def test_several_keys_are_separated_by_commas_or_lines(
    text: str, name: str, read: Callable[[Mapping[str, str]], tuple[bytes, ...] | None], tmp_path: Path
) -> None:
    keys = SECRET.encode(), SECRET[::-1].encode()
    assert read({name: text}) == keys
    (tmp_path / "keys").write_text(text)
    assert read({f"{name}_FILE": str(tmp_path / "keys")}) == keys
    for wrong in (f"{text},0123456789abcde", "0123456789abcde", ","):
        with pytest.raises(SettingsError, match=f"{name}: expected at least 16 bytes in each key") as short:
            read({name: wrong})
        assert "0123456789" not in str(short.value)


def test_keys_token_and_address_are_no_settings() -> None:
    names = ("HMAC_KEY", "PAGE_TOKEN", "NOTIFY_URL", "NOTIFY_KEY")
    given = {f"GLASSTREAM_{name}{end}": SECRET for name in names for end in ("", "_FILE")}
    assert load(environment=given) == load()


def test_stages_of_a_run_inherit_its_secrets_and_get_a_new_key_only_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in READERS:
        monkeypatch.delenv(name, raising=False)
    assert len(of_children(load())["GLASSTREAM_HMAC_KEY"]) == 64
    file = tmp_path / "secret"
    file.write_text(SECRET)
    for name in ("GLASSTREAM_HMAC_KEY", *SECRET_SETTINGS):
        monkeypatch.setenv(f"{name}_FILE", str(file))
    settings = load(environment={f"{name}_FILE": str(file) for name in SECRET_SETTINGS})
    children = of_children(settings)
    assert _hmac_key(children) == SECRET
    assert load(environment=children).kafka == settings.kafka
