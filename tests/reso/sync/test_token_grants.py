"""Tokens by password and refresh token: renewed, kept across restarts, and refused with a clear message."""

from pathlib import Path
from typing import Any

import pytest

from indexer.errors import SourceError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mirror import Mirror
from indexer.reso.settings import ResoSettings
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import DICTIONARY
from tests.reso.sync.test_reso_client import PROPERTIES, SECRET, client, open_client

USER, PASSWORD = "agent", "the-very-password"
WITH_USER = ServerSettings(client=("us", SECRET), user=(USER, PASSWORD), refreshes=True, token_requests=2)


def user(server: ResoServer, **options: Any) -> dict[str, Any]:
    """Return the settings of a password grant."""
    return client(server, username=USER, password=PASSWORD, in_flight=1, **options)


async def read_once(server: ResoServer, folder: Path, refresh_token: str) -> None:
    """Read one page in a run of its own, whose mirror is in a folder."""
    mirror = Mirror(folder / "mirror.sqlite", DICTIONARY)
    settings = ResoSettings(rate=1000.0, **client(server, refresh_token=refresh_token))
    web = ResoClient(server.url, settings, print, mirror=mirror)
    await web.open()
    try:
        await web.fetch_page(PROPERTIES)
    finally:
        await web.close()
        mirror.close()


async def test_a_password_opens_a_source_and_refresh_tokens_keep_it_open() -> None:
    async with serve_in_loop(WITH_USER) as server, open_client(server, **user(server)) as (web, waits):
        for _ in range(5):
            await web.fetch_page(PROPERTIES)
        assert server.auth.grants == ["password", "refresh_token", "refresh_token"]
        server.auth.revoke_refresh_tokens()
        for _ in range(3):
            await web.fetch_page(PROPERTIES)
        assert server.auth.grants == ["password", "refresh_token", "refresh_token", "password"]
        assert PASSWORD not in str(waits)


async def test_a_wrong_password_is_reported_without_it() -> None:
    async with serve_in_loop(WITH_USER) as server:
        async with open_client(server, **user(server) | {"password": "wrong-word"}) as (web, waits):
            with pytest.raises(
                SourceError, match=r"returned 400 without a token\. Check BROKERAGE_RESO_USERNAME"
            ) as no:
                await web.fetch_page(PROPERTIES)
        assert "wrong-word" not in f"{no.value} {waits}"


async def test_a_refresh_token_is_exchanged_and_its_follower_is_kept_for_the_next_run(tmp_path: Path) -> None:
    """The source accepts each of them once."""
    async with serve_in_loop(ServerSettings(client=("us", SECRET), refreshes=True)) as server:
        form = f"grant_type=client_credentials&client_id=us&client_secret={SECRET}"
        server.auth.issue(form, "")
        for _ in range(3):
            await read_once(server, tmp_path, "refresh-1")
        assert server.auth.grants == ["client_credentials", *["refresh_token"] * 3]
        server.auth.issue(form, "")
        await read_once(server, tmp_path, f"refresh-{server.auth.issued}")
        assert server.auth.grants[-2:] == ["client_credentials", "refresh_token"]


async def test_a_refused_refresh_token_without_another_grant_is_reported() -> None:
    async with serve_in_loop(ServerSettings(client=("us", SECRET), refreshes=True)) as server:
        only = {"token_url": server.token_url, "refresh_token": "never-issued"}
        async with open_client(server, **only) as (web, waits):
            with pytest.raises(SourceError, match=r"without a token\. Check BROKERAGE_RESO_REFRESH_TOKEN") as refused:
                await web.fetch_page(PROPERTIES)
    assert "never-issued" not in f"{refused.value} {waits}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"username": USER}, "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD must be set together"),
        ({"password": PASSWORD}, "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD must be set together"),
        ({"username": USER, "password": PASSWORD}, "need BROKERAGE_RESO_TOKEN_URL"),
        ({"refresh_token": "x"}, "need BROKERAGE_RESO_TOKEN_URL"),
        ({"token_url": "https://x"}, "or BROKERAGE_RESO_REFRESH_TOKEN"),
    ],
)
def test_incomplete_credentials_are_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        ResoClient("https://x", ResoSettings(**options), print)
