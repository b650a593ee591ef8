"""The service in its image, confined as the Deployment says: asked, frozen, stopped under load."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from bench.client import Connection
from bench.client import get as request_of
from tests.image.manifest_flags import pod_flags
from tests.image.site import PAGE, PAGE_SIZE, PORT, Site, get
from tests.packaging.manifests import DEPLOYMENT, PODS, container, template
from tests.waiting import until, wait_until

if TYPE_CHECKING:
    from tests.image.podman import Container

_CLIENTS = 8
_ANSWERS_BEFORE = 200
_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def _address(service: Container) -> str:
    return f"{service.address}:{PORT}"


def test_it_runs_without_rights_on_a_root_that_it_cannot_write(service: Container) -> None:
    lines = service.execute("cat", "/proc/1/status").splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert {name: int(status[name][0], 16) for name in _SETS} == dict.fromkeys(_SETS, 0)
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
    assert status["Uid"] == status["Gid"] == ["65532"] * 4
    mounted = [line.split() for line in service.execute("cat", "/proc/1/mounts").splitlines()]
    options = {path: set(given.split(",")) for _, path, _, given, *_ in mounted}
    assert "ro" in options["/"]
    assert "rw" in options["/tmp"]  # noqa: S108 - in the container


def test_it_answers_probes_and_a_page(service: Container, key: str) -> None:
    for probe in ("/livez", "/readyz", "/startupz"):
        assert get(_address(service), probe)[0] == 200
    assert get(_address(service), PAGE)[0] == 401
    status, page = get(_address(service), PAGE, key)
    assert (status, len(page["Listings"])) == (200, PAGE_SIZE)


def test_the_health_check_sees_a_frozen_service(service: Container) -> None:
    assert service.is_healthy
    service.podman.run("kill", "--signal=STOP", service.name)
    assert not service.is_healthy
    service.podman.run("kill", "--signal=CONT", service.name)
    service.wait_healthy()


def test_two_workers_answer_and_one_that_is_killed_is_replaced(site: Site, key: str) -> None:
    with site.serving(*pod_flags(PODS["brokerage"]), arguments=["serve", "--workers", "2"]) as service:
        wait_until(lambda: len(_workers(service)) == 2)
        killed, other = sorted(_workers(service))
        service.execute("sh", "-c", f"kill -9 {killed}")
        wait_until(lambda: len(_workers(service) - {killed}) == 2)
        assert other in _workers(service)
        assert get(_address(service), PAGE, key)[0] == 200
        assert service.stop(_grace_seconds()) == 0


def _workers(service: Container) -> set[str]:
    # Python also starts a tracker of resources, which does not count. The brackets exclude this command itself.
    found = service.podman.attempt("exec", service.name, "sh", "-c", "grep -l spawn_mai[n] /proc/[0-9]*/cmdline")
    return {path.split("/")[2] for path in found.stdout.split()}


def _grace_seconds() -> int:
    return int(template(DEPLOYMENT)["spec"]["terminationGracePeriodSeconds"])


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_no_answer_is_lost_when_it_is_stopped_under_load(site: Site, key: str, workers: str) -> None:
    arguments = [*container(PODS["brokerage"])["args"], "--workers", workers]
    answers = Counter[str]()
    with site.serving(*pod_flags(PODS["brokerage"]), arguments=arguments) as service:
        request = request_of(f"http://{_address(service)}", PAGE, {"x-api-key": key})
        clients = [asyncio.create_task(_read(service.address, request, answers)) for _ in range(_CLIENTS)]
        await until(lambda: answers.total() >= _ANSWERS_BEFORE or any(client.done() for client in clients))
        code = await asyncio.to_thread(service.stop, _grace_seconds())
        await asyncio.gather(*clients)
        assert "Traceback" not in service.logs
    assert (code, set(answers)) == (0, {"200"}), answers


async def _read(host: str, request: bytes, answers: Counter[str]) -> None:
    """Ask until the port is closed; count answers by status, and requests without one as `lost`."""
    connection: Connection | None = None
    while True:
        if connection is None or not connection.is_open:
            try:
                connection = await _connected(host)
            except (OSError, TimeoutError):
                return
        try:
            answer = await connection.ask(request)
        except OSError:
            answers["lost"] += 1
            return
        answers[str(answer.status)] += 1
        if (answer.header("connection") or "").lower() == "close":
            connection.close()


async def _connected(host: str) -> Connection:
    async with asyncio.timeout(2):
        _, connection = await asyncio.get_running_loop().create_connection(Connection, host, PORT)
    return connection
