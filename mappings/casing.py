"""The underscored spelling of public field names, for `underscore_response`."""

import re
from functools import cache

# Before a capital that follows a small letter or digit, and before the last capital of a run before a small letter.
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def underscore(name: str) -> str:
    """Return a field name in underscored form, for example `ListOfficeAORArea` as `list_office_aor_area`.

    Underscored names are returned unchanged.
    """
    return _BOUNDARY.sub("_", name).lower()
