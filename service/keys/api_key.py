"""API keys: their text form, their stored record, and masks for texts that may contain one (decisions, Key format).

The prefix is for secret scanners (`bk_[a-z0-9]{10}_[A-Za-z0-9]{36}`), the id is public, the secret has 178 random bits,
and the checksum detects typos without a lookup.
"""

import datetime as dt
import hashlib
import logging
import re
import secrets
import string
import sys
import threading
import zlib
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any

import msgspec

from mappings.visibility import DisplayLicence

_BASE62 = string.digits + string.ascii_letters
_ID_ALPHABET = string.digits + string.ascii_lowercase
KEY_PREFIX, KEY_ID_PATTERN = "bk_", r"[a-z0-9]{10}"
_FORM = re.compile(
    rf"{KEY_PREFIX}(?P<key_id>{KEY_ID_PATTERN})_(?P<secret>[A-Za-z0-9]{{30}})(?P<checksum>[A-Za-z0-9]{{6}})", re.ASCII
)


@dataclass(frozen=True)
class KeyText:
    """A complete key; its `repr` omits the secret."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def digest(self) -> str:
        """The stored hash of the secret: SHA-256 in hex. The secret has high entropy, so no slow hash is needed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def reveal(self) -> str:
        """Return the complete key, to be shown once."""
        body = f"{KEY_PREFIX}{self.key_id}_{self.secret}"
        return body + _checksum(body)


def generate_key() -> KeyText:
    """Return a new random key."""
    return KeyText(_random_text(_ID_ALPHABET, 10), _random_text(_BASE62, 30))


def parse_key(text: str) -> KeyText | None:
    """Parse a key; return None if its form or checksum is wrong."""
    match = _FORM.fullmatch(text)
    if match is None or _checksum(text[:-6]) != match["checksum"]:
        return None
    return KeyText(match["key_id"], match["secret"])


def _random_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits


KEYS_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"key_id": {"type": "keyword"}, "created": {"type": "date"}}},
}
# When each key was last used, by key id. Written through its alias only: see `service.keys.ring`.
USAGE_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": "strict", "properties": {"last_used": {"type": "date"}}},
}

# The profile of keys whose clients were made for similar platforms (decision 35).
COMPATIBLE = "compatible"
TIER_PATTERN = r"^[a-z0-9-]{1,32}$"

# Invalid values are rejected when the document is read, not only when a request uses the key.
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Moment = Annotated[dt.datetime, msgspec.Meta(tz=True)]
_Tier = Annotated[str, msgspec.Meta(pattern=TIER_PATTERN)]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored key. Scope: the named companies, the named parent companies with their children, or everything.

    `rate` is in requests per minute, None for unlimited; a `tier` overrides it. `burst` is in requests, None for the
    default of the tier or the service. `fields` are the visible field groups, None for all. `successor` is the id of
    the key that replaces this one. `profile` is `compatible` for clients of similar platforms; a name that this version
    does not know has no effect. Unknown members of newer versions are ignored.
    `display` is the licence by which listings are shown (`mappings.visibility`); a key with an unknown one is damaged.
    """

    key_id: str
    name: str
    digest: _Digest
    created: _Moment
    companies: tuple[str, ...] = ()
    parent_companies: tuple[str, ...] = ()
    all_companies: bool = False
    rate: _Count | None = 300
    burst: _Count | None = None
    tier: _Tier | None = None
    fields: tuple[str, ...] | None = None
    note: str = ""
    expires: _Moment | None = None
    revoked: _Moment | None = None
    successor: str | None = None
    profile: str | None = None
    display: DisplayLicence | None = None

    def is_usable(self, now: dt.datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def continues(self, earlier: "ApiKey", now: dt.datetime) -> bool:
        """Return whether the key is usable and has the secret of a record that was read earlier."""
        return self.digest == earlier.digest and self.is_usable(now)


@dataclass(frozen=True)
class DamagedKey:
    """An invalid document in the index of keys, which cannot be used; `problem` says why without quoting it."""

    key_id: str
    problem: str


def decode_key(identifier: str, source: object) -> ApiKey | DamagedKey:
    try:
        key = msgspec.convert(source, ApiKey)
    except msgspec.ValidationError as error:
        return DamagedKey(identifier, str(error))
    if key.key_id != identifier:
        # A copy under another id would keep working after the original is revoked.
        return DamagedKey(identifier, "Its `key_id` is not the id of its document")
    return key


# The form of `service.keys.api_key`, including truncated and percent-encoded keys. The public id is kept.
_KEY = re.compile(r"(bk(?:_|%5F)[a-z0-9]{10})(?:_|%5F)[A-Za-z0-9%]+", re.ASCII | re.IGNORECASE)
# Anything sent as a key, in the form of a query, a header, or the `repr` of a dict or a pair.
_CREDENTIAL = re.compile(
    r"""(api(?:-|%2D)key['"]?\s*[=:,]\s*(?:b?['"])?)(?!bk_\w{10}_\*)[^\s&'"<>,;)]+""", re.ASCII | re.IGNORECASE
)
# Whatever was sent by HTTP Basic or as a bearer token, and what looks like the former: a key has more characters.
_AUTHORIZATION = re.compile(
    r"""(authorization['"]?\s*[=:,]\s*(?:b?['"])?(?:basic|bearer)\s+)[^\s'"<>,;)]+"""
    r"""|(\bbasic(?:\s|%20|\+)+)[A-Za-z0-9+/=%_-]{32,}""",
    re.ASCII | re.IGNORECASE,
)

_log = logging.getLogger("service")


def mask_keys(text: str) -> str:
    """Replace everything that looks like a key with its public id: `bk_<id>_***`.

    JSON stays valid: neither the mask nor the text that it replaces contains a quote or a backslash.
    """
    # The regular expression costs several times this test, which runs on every page with a link.
    return _KEY.sub(r"\1_***", text) if "bk" in text.lower() else text


def mask_credentials(text: str) -> str:
    """Mask keys, and any value that was sent as a key."""
    return _AUTHORIZATION.sub(r"\1\2***", _CREDENTIAL.sub(r"\1***", mask_keys(text)))


class _RedactedLogRecord(logging.LogRecord):
    """A log record whose message, traceback and stack are formatted and masked at creation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.msg, self.args = mask_credentials(self._text()), ()
        if self.exc_info:
            self.exc_text = mask_credentials(logging.Formatter().formatException(self.exc_info))
            # A handler that formats the exception itself, or reports its variables, would leak them.
            self.exc_info = None
        if self.stack_info:
            self.stack_info = mask_credentials(self.stack_info)

    def _text(self) -> str:
        try:
            return self.getMessage()
        except Exception:
            # `logging` would print the unmasked arguments to standard error.
            return f"{self.msg} {self.args!r}"


def install_redaction() -> None:
    """Mask all further log records, whatever their logger and handlers, and log what Python would print.

    That is uncaught exceptions, also of threads and finalizers, and warnings. Not covered: what a caller adds to a
    record with `extra`, and `print`.
    """
    logging.setLogRecordFactory(_RedactedLogRecord)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_hook(f"Exception in thread {args.thread}", args.exc_type, args)
    sys.unraisablehook = lambda args: _log_hook(args.err_msg or "Exception ignored", args.exc_type, args)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        _log.critical("The process ends because of an unexpected error.", exc_info=(kind, error, trace))
    else:
        sys.__excepthook__(kind, error, trace)


def _log_hook(message: str, kind: type[BaseException], args: Any) -> None:
    error = args.exc_value or kind()
    _log.error("%s", message, exc_info=(kind, error, args.exc_traceback))
