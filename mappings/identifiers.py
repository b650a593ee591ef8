"""The alphabet of identifiers: what the indexer accepts, and what the service finds in paths, cursors and filters.

Control characters and surrogates are not text. A space, a slash, `.` and `..` do not survive in a path. The document of
a move is named `<company>/<identifier>`, which must fit into an `_id` of Elasticsearch.
"""

import re

MAX_CHARACTERS = 128
# An `_id` has at most 512 bytes; a company key has at most 64, a slash separates them.
MAX_BYTES = 512 - 64 - 1
# The inside of a character class: the control characters of ASCII and Unicode, and surrogates.
CONTROL_CHARACTERS = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
# Earlier versions accepted these identifiers. Records that have one can still be read as cursors, and deleted.
STORED_PATTERN = rf"^[^\x00-\x20/\x7f]{{1,{MAX_CHARACTERS}}}\Z"
RULE = (
    f"must be 1 to {MAX_CHARACTERS} characters and at most {MAX_BYTES} bytes, without spaces, slashes or control "
    "characters, and not . or .."
)

_IDENTIFIER = re.compile(rf"[^{CONTROL_CHARACTERS} /]{{1,{MAX_CHARACTERS}}}")
_DOT_SEGMENTS = frozenset({".", ".."})


def is_identifier(text: str) -> bool:
    """Whether a record may have this identifier."""
    if _IDENTIFIER.fullmatch(text) is None or text in _DOT_SEGMENTS:
        return False
    return text.isascii() or len(text.encode()) <= MAX_BYTES
