"""Encryption of connections: which addresses need it, verification of certificates, and error messages for failures.

Verification cannot be turned off. OpenSSL verifies chain, validity and name of every connection. With a fingerprint,
the certificate that matches it becomes the only trusted one.
"""

import asyncio
import hashlib
import ipaddress
import re
import ssl
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

from cluster.settings import SettingError


def is_exposed(url: str) -> bool:
    """Whether an address uses plain HTTP to another host; URLs without a host are not exposed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False  # the first request reports it
    return parts.scheme == "http" and not is_loopback(parts.hostname or "localhost")


def is_loopback(host: str) -> bool:
    """Whether a host is this one, by its loopback address or as `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


CA_CERTS, FINGERPRINT, URL = (
    "BROKERAGE_ELASTICSEARCH_CA_CERTS",
    "BROKERAGE_ELASTICSEARCH_FINGERPRINT",
    "ELASTICSEARCH_URL",
)
_CLOSE_SECONDS = 1.0
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
# `_ssl.ENCODING_DER`; there is no public constant before Python 3.13.
_DER = 2
# Codes of OpenSSL's verification, X509_V_ERR_…: not yet valid, expired, another name, another IP address.
_TOO_EARLY, _EXPIRED, _NAMES = 9, 10, {62, 64}


class _ClosingProtocol(asyncio.Protocol):
    """A connection over which nothing is sent; `lost` is set when it is closed."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost.set()


async def tls_handshake(host: str, port: int, context: ssl.SSLContext) -> Any:
    """Connect, disconnect, and return the SSL object with the peer's certificates; raise OSError."""
    loop = asyncio.get_running_loop()
    transport, ended = await loop.create_connection(_ClosingProtocol, host, port, ssl=context)
    # Close gracefully, so that nodes log no broken handshake; but some never confirm it.
    transport.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await ended.lost.wait()
    finally:
        transport.abort()
    return transport.get_extra_info("ssl_object")


class TlsContext(ssl.SSLContext):
    """Trusts the CA certificates of a file or of the system, or only the certificate with one fingerprint.

    The fingerprint is that of a CA certificate, as Elasticsearch prints it at its first start, or of the node's own. It
    is only a hash: `resolve_fingerprint` connects once per client to find the certificate.
    """

    def __new__(cls, ca_certs: str = "", fingerprint: str = "") -> Self:  # noqa: ARG004 - for `__init__`
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, ca_certs: str = "", fingerprint: str = "") -> None:
        """Load the CA certificates; raise SettingError for an invalid value."""
        self.minimum_version = ssl.TLSVersion.TLSv1_2
        # The pinned certificate is a trust anchor even if it is not a CA certificate.
        self.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._pin = parse_fingerprint(fingerprint)
        self._has_file = bool(ca_certs)
        self._lookup_context: ssl.SSLContext | None = None
        if self._pin:
            self._lookup_context = _lookup_context(ca_certs)
        else:
            _load_authorities(self, ca_certs)

    @property
    def source(self) -> str:
        """What trust is based on: the name of a setting, or the system."""
        if self._pin:
            return FINGERPRINT
        return CA_CERTS if self._has_file else "the system"

    async def resolve_fingerprint(self, host: str, port: int) -> None:
        """Find the certificate with the fingerprint and trust it from now on; raise OSError if the host has none.

        It uses a connection of its own, over which nothing is sent.
        """
        if self._lookup_context is None:
            return
        self._trust_pinned(_chain(await tls_handshake(host, port, self._lookup_context), is_verified=self._has_file))

    def _trust_pinned(self, certificates: list[bytes]) -> None:
        for certificate in certificates:
            if hashlib.sha256(certificate).digest() == self._pin:
                self.load_verify_locations(cadata=certificate)
                # The fingerprint identifies the node's own certificate more precisely than a host name does.
                self.check_hostname = self._has_file or certificate != certificates[0]
                self._lookup_context = None
                return
        raise FingerprintMismatch


class FingerprintMismatch(ssl.SSLError):
    """No certificate of the host has the configured fingerprint."""


def parse_fingerprint(fingerprint: str) -> bytes:
    """Return the 32 bytes of a hexadecimal SHA-256, with or without colons; empty for empty. Raise SettingError."""
    digits = fingerprint.replace(":", "").strip().lower()
    if digits and not _SHA256.fullmatch(digits):
        raise SettingError(f"{FINGERPRINT} is not valid: a SHA-256 has 64 hexadecimal digits.")
    return bytes.fromhex(digits)


def _lookup_context(ca_certs: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_certs:
        _load_authorities(context, ca_certs)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _load_authorities(context: ssl.SSLContext, ca_certs: str) -> None:
    if not ca_certs:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cafile=ca_certs)
    except ssl.SSLError as error:
        raise SettingError(f"{CA_CERTS} names {ca_certs}, which contains no PEM certificates.") from error
    except OSError as error:
        raise SettingError(f"{CA_CERTS} names {ca_certs}, which cannot be read: {error.strerror}.") from error


def _chain(peer: Any, *, is_verified: bool) -> list[bytes]:
    """Return the certificates of a connection as DER, the node's own first."""
    method = "get_verified_chain" if is_verified else "get_unverified_chain"
    if hasattr(peer, method):
        return list(getattr(peer, method)())
    # Before Python 3.13 only the internal object has this method.
    return [certificate.public_bytes(_DER) for certificate in getattr(peer._sslobj, method)()]  # noqa: SLF001


def describe_tls_error(error: BaseException, trust: ssl.SSLContext | None, host: str) -> str | None:
    """Return a message for a TLS error that says what to change; None for other errors."""
    if isinstance(error, FingerprintMismatch):
        return f"No certificate of {host} has the fingerprint in {FINGERPRINT}."
    if isinstance(error, ssl.SSLCertVerificationError):
        return _describe_verification_error(
            error, trust.source if isinstance(trust, TlsContext) else "the system", host
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return f"TLS with {host} failed ({reason}). If it speaks plain HTTP, {URL} must begin with http://."
    return None


def _describe_verification_error(error: ssl.SSLCertVerificationError, source: str, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return f"The certificate of {host}, configured in {URL}, has expired: renew it."
    if error.verify_code == _TOO_EARLY:
        return f"The certificate of {host}, configured in {URL}, is not valid yet: check the clocks."
    if error.verify_code in _NAMES:
        return f"The certificate of {host} is for other names: use one of them in {URL}."
    if source == "the system":
        return f"The system does not trust the certificate of {host}: set {CA_CERTS} or {FINGERPRINT}."
    return f"The certificate of {host} is not signed by the one in {source} ({error.verify_message})."
