"""The feed over PostgreSQL, asyncpg and aiohttp: JSONB in one table, pages by keyset."""

import argparse
import datetime as dt
import os

import asyncpg
import uvloop
from aiohttp import web

TABLE = """
CREATE TABLE listings (
    company text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    updated timestamptz NOT NULL,
    body jsonb NOT NULL
)
"""
INDICES = (
    "ALTER TABLE listings ADD PRIMARY KEY (company, id)",
    "CREATE UNIQUE INDEX ON listings (id)",
    "VACUUM ANALYZE listings",
)
_PAGE = "SELECT body FROM listings WHERE company = $1 AND id > $2 AND updated > $3 ORDER BY id LIMIT $4"
_SHOW = "SELECT body FROM listings WHERE id = $1"
_DATABASE = web.AppKey("database", asyncpg.Pool)
_KEY = web.AppKey("key", str)


async def page(request: web.Request) -> web.Response:
    """Answer a page of the feed; the records leave as the text that PostgreSQL sends."""
    authorize(request)
    asked = request.query
    size = int(asked.get("page_size", "200"))
    since = dt.datetime.fromtimestamp(int(asked["updated_since"]), dt.UTC)
    after = asked.get("last_platform_listing_id", "")
    rows = await request.app[_DATABASE].fetch(_PAGE, asked["platform_company_id"], after, since, size)
    final = "true" if len(rows) < size else "false"
    text = f'{{"FinalPage":{final},"Listings":[{",".join(row["body"] for row in rows)}]}}'
    return web.Response(text=text, content_type="application/json")


async def show(request: web.Request) -> web.Response:
    """Answer one listing."""
    authorize(request)
    body = await request.app[_DATABASE].fetchval(_SHOW, request.match_info["id"])
    if body is None:
        raise web.HTTPNotFound
    return web.Response(text=body, content_type="application/json")


def authorize(request: web.Request) -> None:
    """Refuse a request without the key."""
    if request.headers.get("x-api-key") != request.app[_KEY]:
        raise web.HTTPUnauthorized


async def create() -> web.Application:
    """Return the application, of the environment's DATABASE_URL and PEER_KEY."""
    app = web.Application()
    app[_KEY] = os.environ["PEER_KEY"]
    app[_DATABASE] = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=16, max_size=16)
    app.add_routes([web.get("/v1/listings", page), web.get("/v1/listings/{id}", show)])
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.install()
    web.run_app(create(), host="127.0.0.1", port=parser.parse_args().port, access_log=None, print=None)
