"""The names of the OData query options, and the property order that `$orderby` requests."""

from typing import NamedTuple

FILTER, ORDER_BY, SELECT, TOP = "$filter", "$orderby", "$select", "$top"
SKIP, COUNT, SKIP_TOKEN, FORMAT = "$skip", "$count", "$skiptoken", "$format"
EXPAND = "$expand"


class OrderBy(NamedTuple):
    """A property to order by, and its direction."""

    name: str
    is_descending: bool
