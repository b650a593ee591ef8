"""The component that adds published files: valid, and in agreement with what it is added to."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from brokerage.settings_types import reject_unknown_settings
from tests.packaging.manifests import CRON_JOBS, DEPLOYMENT, FOLDER, SETTINGS, container, mounts, template
from tests.packaging.test_kubernetes import VERSIONS

HERE = FOLDER / "exports"


def read(name: str) -> dict[str, Any]:
    """Return the document of a file."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(HERE / name)
    return document


PUBLISH, PATCH = read("publish.yaml"), read("service.yaml")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schema_knows_every_member_of_the_job(version: str) -> None:
    assert kubernetes_validate.validate(PUBLISH, version, strict=True) == version


def test_the_component_names_its_files() -> None:
    component = read("kustomization.yaml")
    assert component["kind"] == "Component"
    named = [*component["resources"], *(patch["path"] for patch in component["patches"])]
    assert sorted([*named, "kustomization.yaml"]) == sorted(path.name for path in HERE.iterdir())


def test_the_patch_changes_the_deployment_and_its_container() -> None:
    assert (PATCH["kind"], PATCH["metadata"]["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
    assert container(template(PATCH))["name"] == container(template(DEPLOYMENT))["name"]


def test_the_job_writes_what_the_service_reads() -> None:
    """In one folder of one volume, which the service cannot change."""
    found = [mounts(template(PUBLISH))["/exports"], mounts(template(PATCH))["/exports"]]
    assert {each["persistentVolumeClaim"]["claimName"] for each in found} == {"brokerage-exports"}
    assert [bool(each.get("readOnly")) for each in found] == [False, True]
    for document in (PUBLISH, PATCH):
        given = {each["name"]: each["value"] for each in container(template(document))["env"]}
        assert given["BROKERAGE_EXPORTS"] == "/exports"
        reject_unknown_settings(SETTINGS | given)


def test_the_job_is_like_the_others() -> None:
    """It may do no more, and is tried again where that may help."""
    other = CRON_JOBS["brokerage-compact"]
    pod, others = template(PUBLISH)["spec"], template(other)["spec"]
    assert {key for key in pod if pod[key] != others[key]} == {"containers", "volumes"}
    assert container(template(PUBLISH))["securityContext"] == container(template(other))["securityContext"]
    assert container(template(PUBLISH))["args"] == ["index", "publish", "--json"]
    assert mounts(template(PUBLISH))["/run/secrets/brokerage"]["secret"]["secretName"] == "brokerage-service"
    rules = [each["spec"]["jobTemplate"]["spec"]["podFailurePolicy"] for each in (PUBLISH, other)]
    assert rules[0] == rules[1]
