"""Keys as HTTP Basic credentials (RFC 7617), for keys and requests with the compatible profile."""

import binascii
import re
from base64 import b64decode

from multidict import MultiMapping

from service.keys.key_text import KEY_ID_PATTERN, KEY_PREFIX

_BASIC = re.compile(r"Basic +([A-Za-z0-9+/]+={0,2})", re.ASCII | re.IGNORECASE)
_KEY_ID = re.compile(KEY_ID_PATTERN, re.ASCII)


def key_from_basic(headers: MultiMapping[str]) -> str | None:
    """Return the key in the credentials, None if they hold none, like credentials for a proxy.

    The password is the key, with any user name; or the user name is the key's id and the password the rest of it.
    """
    matches = [_BASIC.fullmatch(line) for line in headers.getall("Authorization", [])]
    if len(matches) != 1 or matches[0] is None:
        return None
    user, _, password = _decoded(matches[0][1]).partition(":")
    if password.startswith(KEY_PREFIX):
        return password
    key_id = user.removeprefix(KEY_PREFIX)
    return f"{KEY_PREFIX}{key_id}_{password}" if _KEY_ID.fullmatch(key_id) and password else None


def _decoded(text: str) -> str:
    try:
        return b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
