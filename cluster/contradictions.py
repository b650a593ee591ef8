"""Settings of the connection that do not go together: the start is refused, and the sentence names the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from cluster.settings import SettingError
from cluster.trust import CA_CERTS, FINGERPRINT, URL, pinned

if TYPE_CHECKING:
    from cluster.connection import ConnectionSettings

_KEY, _USER, _PASSWORD = (
    "BROKERAGE_ELASTICSEARCH_API_KEY",
    "BROKERAGE_ELASTICSEARCH_USERNAME",
    "BROKERAGE_ELASTICSEARCH_PASSWORD",
)


def refuse_contradictions(settings: ConnectionSettings) -> None:
    """Raise SettingError at the first of them."""
    parts = [_parts(url) for url in settings.url]
    schemes = {part.scheme for part in parts}
    refused = {
        f"{_KEY} and {_USER} are both given: leave one out.": settings.api_key and settings.username,
        f"{_USER} and {_PASSWORD} belong together: one is missing.": bool(settings.username) != bool(settings.password),
        f"{URL} holds a user beside {_KEY} or {_USER}: leave one out.": (
            (settings.api_key or settings.username) and any(part.username for part in parts)
        ),
        f"{URL} mixes http:// and https://: write all addresses alike.": len(schemes) > 1,
        f"{FINGERPRINT} is given and {URL} begins with http://: write https://.": (
            settings.fingerprint and "http" in schemes
        ),
        f"{CA_CERTS} is given and {URL} begins with http://: write https://.": settings.ca_certs and "http" in schemes,
    }
    for sentence, is_so in refused.items():
        if is_so:
            raise SettingError(sentence)
    pinned(settings.fingerprint)


def _parts(url: str) -> SplitResult:
    """Return the parts of an address; raise SettingError without the address itself, which may hold a password."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port
    except ValueError:
        is_whole = False
    if not is_whole:
        raise SettingError(f"{URL} cannot be used: an address is like https://node.example:9200, with its port.")
    return parts
