"""Checks of percent escapes, before values are parsed: each must be complete and valid UTF-8.

The URL decoder keeps broken escapes and replaces invalid UTF-8 by U+FFFD; without the check, requests would search for
the result.
"""

import re
from binascii import a2b_qp
from collections.abc import Iterator
from urllib.parse import unquote_plus

from aiohttp import web

from service.errors import ParameterFault
from service.parameters.types import INVALID_TEXT_MESSAGE, is_valid_text

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_INVALID_ESCAPE_MESSAGE = "has a percent escape that is broken or not valid UTF-8."


def url_faults(request: web.Request) -> Iterator[ParameterFault]:
    """Yield a fault for each identifier in the path and each query parameter that is not valid text.

    As in the query, an identifier in the path has 1 to 128 characters, none of them a control character.
    """
    is_path_valid = _is_valid_encoding(request.rel_url.raw_path)
    for name, value in request.match_info.items():
        if not is_path_valid:
            yield ParameterFault(name, _INVALID_ESCAPE_MESSAGE)
        elif not is_valid_text(value.replace("''", "'")):  # a key of OData, where a quote is doubled
            yield ParameterFault(name, INVALID_TEXT_MESSAGE)
    if _is_valid_encoding(query := request.rel_url.raw_query_string):
        return
    for pair in query.split("&"):
        if not _is_valid_encoding(pair):
            yield ParameterFault.of_sent(unquote_plus(pair.partition("=")[0]), _INVALID_ESCAPE_MESSAGE)


def _is_valid_encoding(raw: str) -> bool:
    if "%" not in raw:
        return True
    if _BROKEN_ESCAPE.search(raw):
        return False
    try:
        # Quoted-printable has the same escapes after another sign; its decoder takes a hundredth of urllib's time.
        a2b_qp(raw.encode().replace(b"=", b"=3D").replace(b"%", b"=")).decode()
    except UnicodeDecodeError:
        return False
    return True
