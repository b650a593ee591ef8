"""What a URL must be before its values are looked at: whole percent escapes that stand for UTF-8.

What decodes URLs keeps a broken escape as it stands and puts U+FFFD in place of bytes that are no UTF-8: either would
be searched for as if somebody had meant it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus, unquote_to_bytes

from service.errors import Fault
from service.parameters.fields import NOT_A_TEXT, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_UNREADABLE = "has a percent escape that is broken or does not stand for UTF-8."


def url_faults(request: web.Request) -> Iterator[Fault]:
    """Yield a fault for each identifier in the path and each parameter of the query that is no text.

    An identifier in the path has 1 to 128 characters, none of them a control character, like one in the query.
    """
    path_is_whole = _is_whole(request.rel_url.raw_path)
    for name, value in request.match_info.items():
        if not path_is_whole:
            yield Fault(name, _UNREADABLE)
        elif not is_text(value):
            yield Fault(name, NOT_A_TEXT)
    if _is_whole(query := request.rel_url.raw_query_string):
        return
    for pair in query.split("&"):
        if not _is_whole(pair):
            yield Fault(unquote_plus(pair.partition("=")[0]), _UNREADABLE)


def _is_whole(raw: str) -> bool:
    if "%" not in raw:
        return True
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return _BROKEN.search(raw) is None
