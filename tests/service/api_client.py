"""What tests ask of a client of the service, and of the application behind it."""

from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient

from service.services import SERVICES, Services

COMPANIES = "/v1/companies"


def app_of(api: TestClient[Any, Any]) -> web.Application:
    """Return the application that a client is served by."""
    assert api.app is not None
    app: web.Application = api.app
    return app


def services_of(api: TestClient[Any, Any]) -> Services:
    """Return what its requests share."""
    return app_of(api)[SERVICES]


async def status(api: TestClient[Any, Any], key: str = "", path: str = COMPANIES) -> int:
    """Return the status of a request, with a key if one is given."""
    async with api.get(path, headers={"x-api-key": key} if key else {}) as response:
        return response.status
