"""The components that add published files and deliveries: valid, and in agreement with what they are added to."""

import ipaddress
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from brokerage.settings_types import reject_unknown_settings
from service.deliver.settings import MAX_SECONDS
from tests.packaging.manifests import CRON_JOBS, DEPLOYMENT, FOLDER, SETTINGS, container, mounts, named, template
from tests.packaging.test_kubernetes import VERSIONS

COMPONENTS = ("exports", "exports-store")
ALL = (*COMPONENTS, "deliver")


def read(component: str, name: str) -> dict[str, Any]:
    """Return the document of a file."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(FOLDER / component / name)
    return document


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("component", ALL)
def test_the_schema_knows_every_member(component: str, version: str) -> None:
    for name in read(component, "kustomization.yaml")["resources"]:
        assert kubernetes_validate.validate(read(component, name), version, strict=True) == version


@pytest.mark.parametrize("component", ALL)
def test_the_component_names_its_files(component: str) -> None:
    listed = read(component, "kustomization.yaml")
    assert listed["kind"] == "Component"
    files = [*listed["resources"], *(patch["path"] for patch in listed.get("patches", ()))]
    assert sorted([*files, "kustomization.yaml"]) == sorted(path.name for path in (FOLDER / component).iterdir())


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_patch_changes_the_deployment_and_its_container(component: str) -> None:
    patch = read(component, "service.yaml")
    assert (patch["kind"], patch["metadata"]["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
    assert container(template(patch))["name"] == container(template(DEPLOYMENT))["name"]


def test_the_job_writes_what_the_service_reads() -> None:
    """In one folder of one volume, which the service cannot change."""
    publish, patch = read("exports", "publish.yaml"), read("exports", "service.yaml")
    found = [mounts(template(publish))["/exports"], mounts(template(patch))["/exports"]]
    assert {each["persistentVolumeClaim"]["claimName"] for each in found} == {"brokerage-exports"}
    assert [bool(each.get("readOnly")) for each in found] == [False, True]
    for document in (publish, patch):
        given = {each["name"]: each["value"] for each in container(template(document))["env"]}
        assert given["BROKERAGE_EXPORTS"] == "/exports"
        reject_unknown_settings(SETTINGS | given)


def test_with_a_store_both_have_credentials_of_their_own() -> None:
    """A patch replaces the list of sources, so it repeats that of the deployment; the store can be reached."""
    publish, patch = read("exports-store", "publish.yaml"), read("exports-store", "service.yaml")
    *own, reader = container(template(patch))["envFrom"]
    assert own == container(template(DEPLOYMENT))["envFrom"]
    assert container(template(publish))["envFrom"] == [
        *container(template(CRON_JOBS["brokerage-compact"]))["envFrom"],
        {"secretRef": {"name": "brokerage-exports-publisher"}},
    ]
    assert reader == {"secretRef": {"name": "brokerage-exports-reader"}}
    policy = read("exports-store", "network.yaml")["spec"]
    assert policy["podSelector"] == named("NetworkPolicy")["spec"]["podSelector"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_job_is_like_the_others(component: str) -> None:
    """It may do no more, and is tried again where that may help."""
    publish, other = read(component, "publish.yaml"), CRON_JOBS["brokerage-compact"]
    pod, others = template(publish)["spec"], template(other)["spec"]
    assert {key for key in pod if pod[key] != others[key]} == {"containers", "volumes"}
    assert container(template(publish))["securityContext"] == container(template(other))["securityContext"]
    assert container(template(publish))["args"] == ["index", "publish", "--json"]
    assert mounts(template(publish))["/run/secrets/brokerage"]["secret"]["secretName"] == "brokerage-service"
    rules = [each["spec"]["jobTemplate"]["spec"]["podFailurePolicy"] for each in (publish, other)]
    assert rules[0] == rules[1]


def test_deliveries_have_the_key_and_network_that_they_need() -> None:
    """They may do no more than the service in its pod, and reach partners where it reaches nobody."""
    pod, service = template(read("deliver", "deliver.yaml")), template(DEPLOYMENT)
    own = {"containers", "volumes", "terminationGracePeriodSeconds", "topologySpreadConstraints"}
    assert {key for key in service["spec"] if pod["spec"].get(key) != service["spec"][key]} == own
    assert container(pod)["securityContext"] == container(service)["securityContext"]
    assert container(pod)["args"] == ["deliver"]
    assert mounts(pod)["/run/secrets/brokerage"]["secret"]["secretName"] == "brokerage-deliver"
    assert pod["spec"]["terminationGracePeriodSeconds"] > MAX_SECONDS
    reject_unknown_settings(SETTINGS | {each["name"]: each["value"] for each in container(pod)["env"]})
    policy = read("deliver", "network.yaml")["spec"]
    labels = policy["podSelector"]["matchLabels"]
    assert labels == pod["metadata"]["labels"]
    assert labels != service["metadata"]["labels"]
    assert "ingress" not in policy
    (rule,) = policy["egress"]
    for each in rule["to"]:
        every, *private = map(ipaddress.ip_network, (each["ipBlock"]["cidr"], *each["ipBlock"]["except"]))
        assert all(network.subnet_of(every) for network in private)  # type: ignore[arg-type]
        for address in ("10.1.2.3", "172.20.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "fd00::1", "fe80::1"):
            if (refused := ipaddress.ip_address(address)).version == every.version:
                assert any(refused in network for network in private)
