"""The service in its image, confined as the Deployment says: frozen, and with workers of which one is killed."""

from tests.image.manifest_flags import pod_flags
from tests.image.podman import Container
from tests.image.site import PAGE, Site, address_of, get, grace_seconds
from tests.packaging.manifests import PODS
from tests.waiting import wait_until


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
        assert get(address_of(service), PAGE, key)[0] == 200
        assert service.stop(grace_seconds()) == 0


def _workers(service: Container) -> set[str]:
    # Python also starts a tracker of resources, which does not count. The brackets exclude this command itself.
    found = service.podman.attempt("exec", service.name, "sh", "-c", "grep -l spawn_mai[n] /proc/[0-9]*/cmdline")
    return {path.split("/")[2] for path in found.stdout.split()}
