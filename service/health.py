"""Probes: `/livez`, the process answers; `/readyz`, it should be sent requests; `/startupz`, it once could be.

They need no key, so they name no index, node, version or address: `brokerage doctor` and the log do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from service.watch import Watch

if TYPE_CHECKING:
    from service.soundness import Finding

DRAINING = web.AppKey("draining", asyncio.Event)
WATCH = web.AppKey("watch", Watch)

_VERBOSE = {"", "1", "true"}


async def live(_: web.Request) -> web.Response:
    """Answer without touching anything else: a restart does not mend Elasticsearch."""
    return web.json_response({"status": "ok"})


async def unready_reason(app: web.Application) -> str | None:
    """Return why this process should not be sent requests, None when it may be; within a second.

    Once it has been ready nothing is asked of Elasticsearch, and before that one thing at a time.
    """
    return "draining" if app[DRAINING].is_set() else await app[WATCH].unready_reason()


async def ready(request: web.Request) -> web.Response:
    """Answer 200 or 503 with the reason; with `verbose` also what every check found, and how long ago."""
    reason = await unready_reason(request.app)
    answer: dict[str, object] = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
    if request.query.get("verbose") in _VERBOSE:
        findings, age = request.app[WATCH].findings()
        answer["age_seconds"] = None if age is None else round(age, 1)
        answer["checks"] = [_public(finding) for finding in findings]
    return web.json_response(answer, status=200 if reason is None else 503)


def _public(finding: Finding) -> dict[str, str]:
    problem = {"problem": finding.problem} if finding.problem else {}
    return {"subject": finding.subject, "state": finding.state.value, **problem}


async def started(request: web.Request) -> web.Response:
    """Answer 200 from the first readiness on, whatever happens afterwards, else 503 with the reason."""
    if not request.app[WATCH].was_ready and (reason := await unready_reason(request.app)) is not None:
        return web.json_response({"status": "starting", "reason": reason}, status=503)
    return web.json_response({"status": "started"})
