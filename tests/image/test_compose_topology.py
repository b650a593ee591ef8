"""compose.yaml as it is written: its services in its order, with its health checks and limits, under podman."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from embedded.ports import free_ports
from tests.image.manifest_flags import compose_command, compose_flags
from tests.image.site import PAGE, PAGE_SIZE, get
from tests.packaging.test_supply_chain import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.image.podman import Container, Podman

_NETWORK = "composed"


class Composed:
    """The services of compose.yaml, started one after the other."""

    def __init__(self, podman: Podman, image: str) -> None:
        """Use the product's image where compose.yaml builds one."""
        self._podman, self._image = podman, image
        self._port = free_ports(1)[0]
        self.containers: dict[str, Container] = {}
        self._stack = ExitStack()

    @property
    def address(self) -> str:
        """Where the service is published; another port than 8080, which may be in use."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start all services, each when its conditions hold."""
        self._podman.run("network", "create", _NETWORK)
        for name, service in SERVICES.items():
            for needed, how in service.get("depends_on", {}).items():
                self._await(needed, how["condition"])
            options = [*self.options(name), *self._published(service)]
            started = self._podman.started(*options, self.image(service), *compose_command(service))
            self.containers[name] = self._stack.enter_context(started)

    def stop(self) -> None:
        """Remove containers, volumes and the network."""
        self._stack.close()
        self._podman.run("network", "rm", "--force", _NETWORK)
        self._podman.run("volume", "prune", "--force")

    def options(self, name: str) -> list[str]:
        """Return the options of `podman run` for a service."""
        return [f"--network={_NETWORK}", f"--network-alias={name}", *compose_flags(SERVICES[name])]

    def image(self, service: dict[str, Any]) -> str:
        """Return the image of a service."""
        return self._image if "build" in service else f"docker.io/library/{service['image']}"

    def run(self, name: str, *arguments: str) -> str:
        """Run a command once with the options of a service, as `docker compose run --rm` does."""
        return self._podman.run("run", "--rm", *self._once(name), self._image, *arguments)

    def _once(self, name: str) -> list[str]:
        return [option for option in self.options(name) if not option.startswith(("--restart", "--network-alias"))]

    def _published(self, service: dict[str, Any]) -> list[str]:
        ports = [re.fullmatch(r"127\.0\.0\.1:\d+:(\d+)", port) for port in service.get("ports", [])]
        return [f"--publish={self.address}:{found[1]}" for found in ports if found is not None]

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_healthy":
            self.containers[name].wait_healthy()
        else:
            assert condition == "service_completed_successfully"
            assert self.containers[name].wait_ended() == 0, self.containers[name].logs


@pytest.fixture(scope="module")
def composed(podman: Podman, image: str, node_image: str) -> Iterator[Composed]:
    """All services of compose.yaml."""
    assert node_image
    made = Composed(podman, image)
    try:
        made.start()
        made.containers["service"].wait_healthy()
        yield made
    finally:
        made.stop()


def test_the_service_is_published_and_serves_what_the_indexer_loaded(composed: Composed) -> None:
    (key,) = re.findall(r"^bk_\S+$", composed.run("service", "keys", "create", "x", "--all-companies"), re.MULTILINE)
    assert get(composed.address, "/readyz")[0] == 200
    status, page = get(composed.address, PAGE, key)
    assert (status, len(page["Listings"])) == (200, PAGE_SIZE)


@pytest.mark.parametrize("name", SERVICES)
def test_the_limits_of_each_service_are_in_force(composed: Composed, name: str) -> None:
    limits = composed.containers[name].inspect(".HostConfig")
    megabytes = {"m": 2**20, "g": 2**30}
    wanted = SERVICES[name]["mem_limit"]
    assert limits["Memory"] == int(wanted[:-1]) * megabytes[wanted[-1]]
    assert limits["PidsLimit"] == SERVICES[name]["pids_limit"]
    assert limits["ReadonlyRootfs"] == SERVICES[name].get("read_only", False)
    assert composed.containers[name].inspect(".EffectiveCaps") is None


def test_it_stops_in_the_time_that_compose_gives_it(composed: Composed) -> None:
    seconds = int(SERVICES["service"]["stop_grace_period"].removesuffix("s"))
    assert composed.containers["service"].stop(seconds) == 0
