"""Which certificates of Elasticsearch are believed, and what is told of those that are not.

There is no way to believe all of them. Every connection is verified by OpenSSL itself when it is made: its chain, its
time and the name. A fingerprint is no exception: the certificate that has it becomes the only one trusted.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cluster.settings import SettingError

if TYPE_CHECKING:
    from typing import Self

CA_CERTS, FINGERPRINT, URL = (
    "BROKERAGE_ELASTICSEARCH_CA_CERTS",
    "BROKERAGE_ELASTICSEARCH_FINGERPRINT",
    "ELASTICSEARCH_URL",
)
_FAREWELL_SECONDS = 1.0
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
# `_ssl.ENCODING_DER`, which nothing public names before Python 3.13.
_DER = 2
# Codes of OpenSSL's verification, X509_V_ERR_…: not yet valid, expired, another name, another IP address.
_TOO_EARLY, _EXPIRED, _NAMES = 9, 10, {62, 64}


class _Ended(asyncio.Protocol):
    """A connection over which nothing is sent; `lost` is done when it has ended."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - it is over either way
        self.lost.set()


async def shake_hands(host: str, port: int, context: ssl.SSLContext) -> Any:
    """Connect, hang up, and return the object with the certificates that were shown; raise OSError."""
    loop = asyncio.get_running_loop()
    transport, ended = await loop.create_connection(_Ended, host, port, ssl=context)
    # In order, so that no node writes of a broken handshake; but not every one answers that.
    transport.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await ended.lost.wait()
    finally:
        transport.abort()
    return transport.get_extra_info("ssl_object")


class Trust(ssl.SSLContext):
    """Trusts the authorities of a file, else the system's, or nothing but what leads to one fingerprint.

    A fingerprint is of a certificate that signs, as Elasticsearch prints it at its first start, or of the node's own.
    It is a hash, so what it stands for has to be seen first: `learn` looks, once for each client.
    """

    def __new__(cls, ca_certs: str = "", fingerprint: str = "") -> Self:  # noqa: ARG004 - both are for `__init__`
        """Make a context of a client: names and chains are verified."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, ca_certs: str = "", fingerprint: str = "") -> None:
        """Read the file of authorities; raise SettingError where a value cannot be used."""
        self.minimum_version = ssl.TLSVersion.TLSv1_2
        # The pinned certificate is an anchor even when it is not one that signs.
        self.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._pin = pinned(fingerprint)
        self._has_file = bool(ca_certs)
        self._looking: ssl.SSLContext | None = None
        if self._pin:
            self._looking = _looking(ca_certs)
        else:
            _load(self, ca_certs)

    @property
    def source(self) -> str:
        """What has to know the certificate: the name of a setting, or the system."""
        if self._pin:
            return FINGERPRINT
        return CA_CERTS if self._has_file else "the system"

    async def learn(self, host: str, port: int) -> None:
        """Trust the certificate that has the fingerprint, from now on; raise OSError where a host shows none such.

        The connection that is looked over is closed then. Nothing is sent over it.
        """
        if self._looking is None:
            return
        self._anchor(_chain(await shake_hands(host, port, self._looking), is_verified=self._has_file))

    def _anchor(self, shown: list[bytes]) -> None:
        for certificate in shown:
            if hashlib.sha256(certificate).digest() == self._pin:
                self.load_verify_locations(cadata=certificate)
                # The node's own certificate is named more exactly by its fingerprint than by any name in it.
                self.check_hostname = self._has_file or certificate != shown[0]
                self._looking = None
                return
        raise OtherFingerprint


class OtherFingerprint(ssl.SSLError):
    """None of the certificates that a host shows has the fingerprint of the settings."""


def pinned(fingerprint: str) -> bytes:
    """Return the 32 bytes of a SHA-256 in hexadecimal, with or without colons; none of none. Raise SettingError."""
    digits = fingerprint.replace(":", "").strip().lower()
    if digits and not _SHA256.fullmatch(digits):
        raise SettingError(f"{FINGERPRINT} cannot be used: a SHA-256 has 64 hexadecimal digits.")
    return bytes.fromhex(digits)


def _looking(ca_certs: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_certs:
        _load(context, ca_certs)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _load(context: ssl.SSLContext, ca_certs: str) -> None:
    if not ca_certs:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cafile=ca_certs)
    except ssl.SSLError as error:
        raise SettingError(f"{CA_CERTS} names {ca_certs}, which holds no certificates in PEM.") from error
    except OSError as error:
        raise SettingError(f"{CA_CERTS} names {ca_certs}, which cannot be read: {error.strerror}.") from error


def _chain(peer: Any, *, is_verified: bool) -> list[bytes]:
    """Return the certificates of a connection as DER, the node's own first."""
    method = "get_verified_chain" if is_verified else "get_unverified_chain"
    if hasattr(peer, method):
        return list(getattr(peer, method)())
    # Before Python 3.13 only the object underneath has it.
    return [certificate.public_bytes(_DER) for certificate in getattr(peer._sslobj, method)()]  # noqa: SLF001


def told(error: BaseException, trust: ssl.SSLContext | None, host: str) -> str | None:
    """Return the sentence for a failure of TLS, which names what to change; None for any other failure."""
    if isinstance(error, OtherFingerprint):
        return f"No certificate that {host} shows has the fingerprint in {FINGERPRINT}."
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused(error, trust.source if isinstance(trust, Trust) else "the system", host)
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return f"No TLS with {host} ({reason}): does it speak plain HTTP? Then {URL} must begin with http://."
    return None


def _refused(error: ssl.SSLCertVerificationError, source: str, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return f"The certificate of {host}, named in {URL}, has expired: renew it there."
    if error.verify_code == _TOO_EARLY:
        return f"The certificate of {host}, named in {URL}, is not valid yet: compare the clocks."
    if error.verify_code in _NAMES:
        return f"The certificate of {host} is for other names: write one of them in {URL}."
    if source == "the system":
        return f"The system knows nobody who signed the certificate of {host}: set {CA_CERTS} or {FINGERPRINT}."
    return f"What {source} names has not signed the certificate of {host} ({error.verify_message})."
