"""`glasstream health`: ask the worker on this machine whether it is ready, and answer with the exit code."""

import click

_PORT = 8080
_SECONDS = 5.0

NOT_READY = 1
"""Exit code if the worker says that it is not ready, or nothing answers."""


@click.command(short_help="Check whether a worker or page is ready.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=_PORT,
    show_default=True,
    envvar="GLASSTREAM_HEALTH_PORT",
    help="Port on which the worker or page answers.",
)
@click.option("--tls", is_flag=True, help="Connect over TLS, without verifying the certificate.")
def health(port: int, tls: bool) -> int:
    """Check whether a worker or page on this machine is ready.

    The exit code is 0 if it is ready. Otherwise the command prints the reason and exits with code 1.
    """
    import ssl
    from urllib.error import HTTPError
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/readyz"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a request to this machine without a secret
    try:
        # Ignore proxies that the environment names, because the request stays on this machine.
        with build_opener(ProxyHandler({}), HTTPSHandler(context=context)).open(url, timeout=_SECONDS) as answer:
            click.echo(_text(answer.read()))
            return 0
    except HTTPError as error:
        click.echo(f"{url}: {error.code} {_text(error.read())}".rstrip(), err=True)
    except OSError as error:  # refused, reset, or no answer in time
        click.echo(f"{url}: no answer: {getattr(error, 'reason', error)}", err=True)
    return NOT_READY


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").strip()
