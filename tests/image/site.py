"""A network with a node behind it: the product's commands run there once, and the service until it is stopped."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from bench.questions import COMPANY
from embedded import EmbeddedCluster
from tests.image.manifest_flags import pod_flags
from tests.image.podman import Container, Podman
from tests.packaging.manifests import CRON_JOBS, DEPLOYMENT, PODS, container, template

PORT = 8080
PAGE_SIZE = 25
PAGE = f"/v1/listings?platform_company_id={COMPANY}&market_status=all&updated_since=1&page_size={PAGE_SIZE}"


@dataclass(frozen=True)
class Site:
    """A network named `site`, from which a node of this machine is reached at `url`."""

    podman: Podman
    image: str
    url: str

    # So that containers reach the node, too.
    NODE_SETTINGS: ClassVar = {"http.host": "0.0.0.0"}  # noqa: S104 - for seconds, with sample data

    @classmethod
    def before(cls, node: EmbeddedCluster, podman: Podman, image: str) -> Site:
        """Create the network."""
        podman.run("network", "create", "site")
        gateway = podman.run("network", "inspect", "site", "--format={{(index .Subnets 0).Gateway}}").strip()
        return cls(podman, image, f"http://{gateway}:{urlsplit(node.url).port}")

    def once(self, *arguments: str, flags: Sequence[str] = ()) -> str:
        """Run a command of the product in a container as confined as the service; return what it prints."""
        confined = flags or pod_flags(PODS["brokerage"])
        return self.podman.run("run", "--rm", *confined, *self._joined(), self.image, *arguments)

    def job(self, name: str, source: Path) -> str:
        """Run a CronJob of the manifests on a source; return what it prints."""
        assert name in CRON_JOBS
        flags = [*pod_flags(PODS[name]), f"--volume={source}:/source:ro", "--tmpfs=/dead-letters"]
        return self.once(*container(PODS[name])["args"], flags=flags)

    @contextmanager
    def serving(self, *flags: str, arguments: Sequence[str]) -> Iterator[Container]:
        """Run the service until the end of the context; it is healthy before."""
        with self.podman.started(*flags, *self._joined(), self.image, *arguments) as service:
            service.wait_healthy()
            yield service

    def _joined(self) -> list[str]:
        return ["--network=site", f"--env=ELASTICSEARCH_URL={self.url}"]


def address_of(service: Container) -> str:
    """Return host and port of the service in a container."""
    return f"{service.address}:{PORT}"


def grace_seconds() -> int:
    """Return the time that Kubernetes gives the service to stop."""
    return int(template(DEPLOYMENT)["spec"]["terminationGracePeriodSeconds"])


def get(address: str, path: str, key: str | None = None) -> tuple[int, Any]:
    """Send a request; return the status and the JSON document."""
    headers = {} if key is None else {"x-api-key": key}
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
