"""Probes: `/livez`, the process is alive; `/readyz`, it is ready for requests; `/startupz`, it was ready once.

They need no key, so they reveal no index, node, version or address; `brokerage doctor` and the log do.
"""

import asyncio

from aiohttp import web

from service.health.checks import Finding
from service.health.monitor import HealthMonitor

DRAINING = web.AppKey("draining", asyncio.Event)
HEALTH_MONITOR = web.AppKey("watch", HealthMonitor)

_VERBOSE = {"", "1", "true"}


async def livez(_: web.Request) -> web.Response:
    """Return 200 without using any other system: a restart would not repair Elasticsearch."""
    return web.json_response({"status": "ok"})


async def unready_reason(app: web.Application) -> str | None:
    """Return why this process should receive no requests, or None if it is ready; takes at most a second."""
    return "draining" if app[DRAINING].is_set() else await app[HEALTH_MONITOR].unready_reason()


async def readyz(request: web.Request) -> web.Response:
    """Return 200, or 503 with the reason; with `verbose`, also the finding of every check and their age."""
    reason = await unready_reason(request.app)
    body: dict[str, object] = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
    if request.query.get("verbose") in _VERBOSE:
        findings, age = request.app[HEALTH_MONITOR].findings()
        body["age_seconds"] = None if age is None else round(age, 1)
        body["checks"] = [_public_finding(finding) for finding in findings]
    return web.json_response(body, status=200 if reason is None else 503)


def _public_finding(finding: Finding) -> dict[str, str]:
    problem = {"problem": finding.problem} if finding.problem else {}
    return {"subject": finding.subject, "state": finding.state.value, **problem}


async def startupz(request: web.Request) -> web.Response:
    """Return 200 once the process has been ready, and from then on; otherwise 503 with the reason."""
    if not request.app[HEALTH_MONITOR].was_ready and (reason := await unready_reason(request.app)) is not None:
        return web.json_response({"status": "starting", "reason": reason}, status=503)
    return web.json_response({"status": "started"})
