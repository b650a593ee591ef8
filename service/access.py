"""What a request was accepted for, compared with what its key may read now.

A response can take long: a long poll waits, and clients read slowly. `Operation.respond` asks once more before it sends
what it has waited for; while a response is being sent, `service.http.send_monitor` asks of every connection.
"""

import datetime as dt

from service.keys.api_key import ApiKey
from service.keys.ring import KeyRing
from service.scope import CompanyDirectory, Scope, Visibility, allowed_scope
from service.search.cached_value import CachedValue


class Access:
    """The scope and visibility of a request, and its key. Without requests to Elasticsearch: all is in memory."""

    __slots__ = ("_directory", "_directory_seen", "_key", "_keys", "_scope", "_visibility")

    def __init__(
        self,
        keys: KeyRing,
        directory: CachedValue[CompanyDirectory],
        key: ApiKey,
        scope: Scope,
        visibility: Visibility,
    ) -> None:
        """Compare what `key` gave the request with what it gives later."""
        self._keys, self._directory = keys, directory
        self._key, self._directory_seen = key, directory.current
        self._scope, self._visibility = scope, visibility

    def is_withdrawn(self) -> bool:
        """Return whether the key is no longer valid, or may no longer read all that the request was accepted for.

        A key that may read more, or whose record was read again, keeps its access.
        """
        key, directory = self._keys.recall(self._key.key_id), self._directory.current
        if key is None or directory is None or not key.continues(self._key, dt.datetime.now(dt.UTC)):
            return True
        if key is self._key and directory is self._directory_seen:
            return False
        if not allowed_scope(key, directory).includes(self._scope) or not Visibility.of(key).includes(self._visibility):
            return True
        self._key, self._directory_seen = key, directory
        return False
