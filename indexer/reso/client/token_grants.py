"""The OAuth grants by which tokens are requested, from the settings: client credentials, password, refresh token."""

import hashlib
from typing import Protocol

from indexer.errors import SourceError
from indexer.reso.settings import ResoSettings

_NEEDED = (
    "BROKERAGE_RESO_TOKEN_URL needs BROKERAGE_RESO_CLIENT_ID and BROKERAGE_RESO_CLIENT_SECRET, or "
    "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD, or BROKERAGE_RESO_REFRESH_TOKEN."
)
_PASSWORD_NEEDED = "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD must be set together."  # noqa: S105
_URL_NEEDED = "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_REFRESH_TOKEN need BROKERAGE_RESO_TOKEN_URL."


class RefreshTokenStore(Protocol):
    """Keeps the current refresh token across restarts, because a source may accept each only once."""

    def load(self, given: str) -> str | None:
        """Return the token that followed, last, the one of the settings with this digest."""
        ...

    def save(self, given: str, token: str) -> None:
        """Keep a token."""
        ...


def check_settings(settings: ResoSettings) -> None:
    """Raise SourceError for contradictory or incomplete settings."""
    if settings.token and settings.token_url:
        raise SourceError("Set BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_TOKEN_URL, not both.")
    if bool(settings.username) != bool(settings.password):
        raise SourceError(_PASSWORD_NEEDED)
    if not settings.token_url and (settings.username or settings.refresh_token):
        raise SourceError(_URL_NEEDED)
    has_client = settings.client_id and settings.client_secret
    if settings.token_url and not (has_client or settings.username or settings.refresh_token):
        raise SourceError(_NEEDED)


class TokenGrants:
    """The forms that request a token, and the refresh token that the last response gave."""

    def __init__(self, settings: ResoSettings, store: RefreshTokenStore | None = None) -> None:
        """Continue with the refresh token that an earlier run was given last."""
        self._settings, self._store = settings, store
        self._given = hashlib.sha256(settings.refresh_token.encode()).hexdigest() if settings.refresh_token else ""
        kept = store.load(self._given) if store is not None and self._given else None
        self._refresh_token = kept or settings.refresh_token

    @property
    def form(self) -> dict[str, str]:
        """The form of the next request for a token."""
        settings = self._settings
        client = {"client_id": settings.client_id, "client_secret": settings.client_secret}
        options = {name: value for name, value in {**client, "scope": settings.scope}.items() if value}
        if self._refresh_token:
            return {"grant_type": "refresh_token", "refresh_token": self._refresh_token, **options}
        if settings.username:
            user = {"username": settings.username, "password": settings.password}
            return {"grant_type": "password", **user, **options}
        return {"grant_type": "client_credentials", **options}

    @property
    def names(self) -> str:
        """The settings that the next request depends on, for a message."""
        if self._refresh_token:
            return "BROKERAGE_RESO_REFRESH_TOKEN"
        user = "BROKERAGE_RESO_USERNAME, BROKERAGE_RESO_PASSWORD, " if self._settings.username else ""
        return f"{user}BROKERAGE_RESO_CLIENT_ID, BROKERAGE_RESO_CLIENT_SECRET and BROKERAGE_RESO_SCOPE"

    def renew(self, refresh_token: str | None) -> None:
        """Use the refresh token of a response from now on; one without it leaves the present one."""
        if not refresh_token:
            return
        self._refresh_token = refresh_token
        if self._store is not None and self._given:
            self._store.save(self._given, refresh_token)

    def drop_refused(self) -> bool:
        """Forget a refresh token that was refused; return whether there is another grant to request a token with."""
        had_refresh_token, self._refresh_token = bool(self._refresh_token), ""
        settings = self._settings
        return had_refresh_token and bool(settings.username or (settings.client_id and settings.client_secret))
