"""compose.yaml as it is written: its services in its order, with its health checks and limits, under podman."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded.node_options import free_ports
from tests.image.manifest_flags import compose_command, compose_flags
from tests.image.podman import Container, Podman
from tests.image.site import PAGE, PAGE_SIZE, get
from tests.packaging.test_supply_chain import SERVICES

_NETWORK = "composed"


class Composed:
    """The services of compose.yaml, started one after the other."""

    def __init__(self, podman: Podman, image: str) -> None:
        """Use the product's image where compose.yaml builds one."""
        self._podman, self._image = podman, image
        # Other ports than those of compose.yaml, which may be in use.
        self._ports = dict(zip(_ports(SERVICES["service"]), free_ports(2), strict=True))
        self.containers: dict[str, Container] = {}
        self._stack = ExitStack()

    def address(self, port: int) -> str:
        """Return where a port of the service is published."""
        return f"127.0.0.1:{self._ports[port]}"

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
        return [f"--publish={self.address(port)}:{port}" for port in _ports(service)]

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_healthy":
            self.containers[name].wait_healthy()
        else:
            assert condition == "service_completed_successfully"
            assert self.containers[name].wait_ended() == 0, self.containers[name].logs


def _ports(service: dict[str, Any]) -> list[int]:
    """Return the ports of a container that are published to this machine."""
    found = [re.fullmatch(r"127\.0\.0\.1:\d+:(\d+)", port) for port in service.get("ports", [])]
    return [int(each[1]) for each in found if each is not None]


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
    address = composed.address(8080)
    assert get(address, "/readyz")[0] == 200
    status, page = get(address, PAGE, key)
    assert (status, len(page["Listings"])) == (200, PAGE_SIZE)
    status, overview = get(composed.address(9100), "/console/data.json")
    assert (status, {each["resource"] for each in overview["resources"]} >= {"listings", "agents"}) == (200, True)


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
