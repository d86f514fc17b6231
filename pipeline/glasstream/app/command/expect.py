"""Checks of a command's options before the command shows or starts anything."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from glasstream.app.brokers.choose import addresses, open_broker
from glasstream.app.runner.outputs import expect_writable
from glasstream.base.errors import BrokerError, InputError, SettingsError
from glasstream.events.sources.source import Source
from glasstream.flow.settings import Settings

_OF_RUN = ("none", "embedded", "local")
"""Brokers that `run` accepts in addition to `HOST:PORT,...`."""


def expect_plan(
    settings: Settings, explainers: int, out: Path | None, data: Path | None, *, page: bool = False
) -> None:
    """Check the options of `run`.

    Raises
    ------
    SettingsError
        Some options cannot be used. The message has a line for each of them.
    """
    findings: list[str] = []
    if settings.broker not in _OF_RUN and (finding := _address(settings)):
        findings.append(finding)
    if explainers > 1 and settings.broker == "embedded":
        findings.append(
            f"--explainers: the embedded broker supports only one explainer, got {explainers}; use --broker local"
        )
    if explainers > 1 and settings.broker == "none":
        findings.append(f"--explainers: expected 1 without Kafka, got {explainers}; use --broker local")
    if data is not None and settings.broker != "local":
        findings.append(_data_without_local(settings))
    if page and settings.broker == "none":
        findings.append(
            "--page: expected a broker whose topics the page can read, got --broker none; use --broker embedded"
        )
    if page:
        findings += _page(settings)
    if out is not None:
        try:
            expect_writable(out)
        except InputError as error:
            findings.append(str(error))
    if findings:
        raise SettingsError(findings)


def expect_no_deployment(settings: Settings) -> None:
    """Check that `run` does not join a deployment of which the caller may not think.

    Raises
    ------
    SettingsError
        The settings name a Kafka that is running, and the prefix does not come from the command line.
    """
    if settings.broker not in _OF_RUN:
        raise SettingsError(
            [
                f"--prefix: expected one on the command line, because `run` would join the workers, the topics and the "
                f"state that the settings name: prefix {settings.prefix} at {settings.broker}. Give --prefix "
                f"{settings.prefix} to do so, another prefix for topics of this run, or --broker embedded to leave "
                "that Kafka alone"
            ]
        )


def expect_features(source: Source, needed: Sequence[str], features: Sequence[str], model: str) -> None:
    """Check that the events of a source have the features that a model needs. Call `look` first.

    Parameters
    ----------
    needed, features
        The features that must be there, and all features of the model in their order.
    model
        Name of its file.

    Raises
    ------
    InputError
        Some are missing. The message lists them, and those that there are.
    """
    known = source.features
    if missing := [name for name in needed if name not in known]:
        raise InputError(
            f"model.name: {model} takes the features {', '.join(map(repr, missing))[:300]}, which {source.stream} does "
            f"not have; it has {', '.join(map(repr, known))[:300]}; rename its columns; or set "
            f"model.features to its names for all features of the model, in the order {', '.join(features)[:300]} (as "
            "a JSON list if a name contains a comma); or, if the model takes missing values, set model.absent=missing"
        )


def expect_address(settings: Settings) -> None:
    """Check that the broker is named by its address.

    Raises
    ------
    SettingsError
        The broker is not named by its address.
    """
    if finding := _address(settings):
        raise SettingsError([finding])


def expect_broker(settings: Settings) -> None:
    """Check that the broker answers before anything waits for it.

    Raises
    ------
    SettingsError
        The broker is not named by its address.
    BrokerError
        The broker does not answer.
    """
    expect_address(settings)
    with open_broker(settings.broker, client=settings.kafka):
        pass


@contextmanager
def reached(settings: Settings, data: Path | None) -> Iterator[Settings]:
    """Yield the settings with the address of a broker that answers. Start a broker on the folder `data` if it is given.

    Raises
    ------
    SettingsError
        The broker is neither named by its address nor local with a folder.
    BrokerError
        The broker does not answer, or cannot be started.
    """
    if settings.broker != "local":
        if data is not None:
            raise SettingsError([_data_without_local(settings)])
        expect_broker(settings)
        yield settings
        return
    if data is None or not data.is_dir():
        got = "" if data is None else f"; {data} is not a folder"
        raise SettingsError([f"--broker local needs --data, the folder that `run --broker local --data` wrote{got}"])
    with open_broker("local", data=data) as broker:
        yield msgspec.structs.replace(settings, broker=broker.bootstrap)


def _data_without_local(settings: Settings) -> str:
    return f"--data: it works only with --broker local, got --broker {settings.broker}"


def _address(settings: Settings) -> str | None:
    try:
        addresses(settings.broker)
    except BrokerError:
        got = repr(settings.broker)
        if settings.broker == Settings().broker:
            got = f"{settings.broker}, the default, which only `glasstream run` can use"
        elif settings.broker in _OF_RUN:
            got = f"{settings.broker}, which this command cannot use"
        else:
            got += "; `glasstream run` also takes embedded, local and none"
        return f"broker: expected HOST:PORT,... of a running Kafka in --broker or GLASSTREAM_BROKER, got {got}"
    return None


def _page(settings: Settings) -> list[str]:
    from glasstream.app.page.access import Access
    from glasstream.app.page.tls import tls
    from glasstream.kafka.secret import page_token

    try:
        Access(settings.page.host, page_token(os.environ))
        tls(settings.page.tls_cert, settings.page.tls_key)
    except SettingsError as error:
        return error.findings
    return []
