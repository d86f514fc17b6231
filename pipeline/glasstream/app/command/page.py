"""`glasstream page`: show the public topics in a browser."""

from typing import Any

import click

from glasstream.app.command.options import load_settings, settings_options


@click.command(short_help="Serve the live page: importance, changes and novelty in a browser.")
@click.option(
    "--host",
    help="Address to listen on. An address that other machines can reach needs a token in GLASSTREAM_PAGE_TOKEN.  "
    "[default: 127.0.0.1]",
)
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on.  [default: 8642, or a free port]")
@click.option("--tls-cert", help="Serve the page over TLS with the certificate in this PEM file.")
@click.option("--tls-key", help="PEM file with the private key of the certificate.  [default: the file of --tls-cert]")
@click.option(
    "--beside",
    metavar="PREFIX",
    multiple=True,
    help="Also show the streams of the deployment with this prefix. Can be repeated.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--tether", is_flag=True, hidden=True, help="Exit when standard input closes.")
@settings_options()
def page(
    host: str | None,
    port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    beside: tuple[str, ...],
    open_browser: bool,
    tether: bool,
    **common: Any,
) -> int:
    """Serve the live page: the importance of features, their changes, incidents and novelty, from the public topics."""
    from glasstream.app.command.expect import expect_broker
    from glasstream.app.page.serve import page as serve
    from glasstream.app.runner.children import die_with_parent

    if tether:
        die_with_parent()
    given = {"page.host": host, "page.port": port, "page.tls_cert": tls_cert, "page.tls_key": tls_key}
    given["page.beside"] = ",".join(beside) or None
    settings = load_settings(common, given)
    expect_broker(settings)
    serve(settings, open_browser=open_browser, say=click.echo)
    return 0
