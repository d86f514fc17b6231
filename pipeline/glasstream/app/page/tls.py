"""TLS of the page, with the operator's certificate."""

import ssl

from glasstream.base.errors import SettingsError


def tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context of the server; None if there is no certificate.

    Parameters
    ----------
    certificate
        A PEM file: the server's certificate, then the chain up to its authority.
    key
        A PEM file with the private key; None if the file of the certificate contains it.

    Raises
    ------
    SettingsError
        There is a key without a certificate, a file cannot be read, or the two do not match.
    """
    if certificate is None:
        if key is not None:
            raise SettingsError(["page.tls_key: expected page.tls_cert as well, got none"])
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_refuse)
    except OSError as error:  # SSLError is one
        files = certificate if key is None else f"{certificate} and {key}"
        raise SettingsError(
            [f"page.tls_cert: expected PEM files of a certificate and its key, got {files}: {error.strerror or error}"]
        ) from error
    return context


def _refuse() -> str:
    """Refuse encrypted keys; OpenSSL would ask for the password on the terminal."""
    raise SettingsError(["page.tls_key: expected a key without a password, got an encrypted one"])
