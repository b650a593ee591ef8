"""The Kubernetes manifests: valid, true to settings, paths, commands and exit codes, and without rights."""

import re
from pathlib import PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import rich_click as click

from brokerage.command import main
from brokerage.settings_types import reject_unknown_settings, settings_types
from brokerage_feed.terminal import ExitCode
from cluster.connection import ConnectionSettings
from cluster.settings import declared_settings
from cluster.settings import load_settings as read_settings
from service.app import create_app
from service.settings import ServiceSettings
from tests.packaging.manifests import (
    CRON_JOBS,
    DEPLOYMENT,
    DOCUMENTS,
    FILES,
    FOLDER,
    PODS,
    container,
    environment,
    mounts,
    named,
    read,
    template,
)
from tests.packaging.test_supply_chain import DOCKERFILE

# The lowest and the highest version that the manifests are for.
VERSIONS = ("1.34", "1.37")
VARIABLES = {declared.metadata["variable"] for kind in settings_types({}) for declared in declared_settings(kind)}
SERVICE = PODS["brokerage"]
(KUSTOMIZATION,) = read("kustomization.yaml")
PYPROJECT = (FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8")


def _settings(pod: dict[str, Any]) -> ServiceSettings:
    return read_settings(ServiceSettings, {k: v for k, v in environment(pod).items() if not k.endswith("_FILE")})


def _ports() -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container(SERVICE)["ports"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", [file for file in FILES if file != "kustomization.yaml"])
def test_the_schemas_know_every_member(file: str, version: str) -> None:
    for document in read(file):
        assert kubernetes_validate.validate(document, version, strict=True) == version


def test_the_schema_refuses_what_it_does_not_know() -> None:
    unknown_name = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "minReadySecond": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="minReadySecond"):
        kubernetes_validate.validate(unknown_name, VERSIONS[-1], strict=True)


def test_the_kustomization_names_every_file_and_this_version() -> None:
    assert set(KUSTOMIZATION) == {"apiVersion", "kind", "images", "resources"}
    assert KUSTOMIZATION["apiVersion"] == "kustomize.config.k8s.io/v1beta1"
    assert KUSTOMIZATION["kind"] == "Kustomization"
    assert KUSTOMIZATION["resources"] == [file for file in FILES if file != "kustomization.yaml"]
    (version,) = re.findall(r'^version = "(.*)"$', PYPROJECT, re.MULTILINE)
    assert KUSTOMIZATION["images"] == [{"name": "brokerage", "newTag": version}]
    assert {container(pod)["image"] for pod in PODS.values()} == {"brokerage"}


def test_no_two_things_share_a_name_and_none_names_a_namespace() -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in DOCUMENTS]
    assert len(set(names)) == len(names)
    assert not any("namespace" in document["metadata"] for document in DOCUMENTS)


@pytest.mark.parametrize("name", PODS)
def test_every_variable_is_a_setting(name: str) -> None:
    given = environment(PODS[name])
    assert {variable.removesuffix("_FILE") for variable in given} <= VARIABLES
    reject_unknown_settings(given)


@pytest.mark.parametrize("name", PODS)
def test_every_file_that_a_variable_names_is_mounted(name: str) -> None:
    pod, folders = PODS[name], mounts(PODS[name])
    files = {k: PurePosixPath(v) for k, v in environment(pod).items() if k.endswith(("_FILE", "_CA_CERTS"))}
    assert {"BROKERAGE_ELASTICSEARCH_API_KEY_FILE", "BROKERAGE_ELASTICSEARCH_CA_CERTS"} <= set(files)
    for variable, file in files.items():
        assert ("secret" if variable.endswith("_FILE") else "configMap") in folders[str(file.parent)]


@pytest.mark.parametrize("name", PODS)
def test_no_secret_is_a_value(name: str) -> None:
    secret = {
        each.metadata["variable"]
        for kind in settings_types({})
        for each in declared_settings(kind)
        if each.metadata["secret"]
    }
    assert secret >= {"BROKERAGE_ELASTICSEARCH_API_KEY", "BROKERAGE_REDIS_URL"}
    assert not secret & set(environment(PODS[name]))


def test_the_ports_are_those_of_the_settings() -> None:
    settings = _settings(SERVICE)
    assert _ports() == {"http": settings.port, "metrics": settings.metrics_port}
    assert [port["targetPort"] for port in named("Service")["spec"]["ports"]] == ["http"]
    assert "BROKERAGE_HOST=0.0.0.0" in DOCKERFILE
    # Prometheus scrapes the address of the pod.
    assert settings.metrics_host == "0.0.0.0"  # noqa: S104 - limited by the network policy
    annotations = SERVICE["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings.metrics_port)


def test_the_probes_ask_what_the_service_answers() -> None:
    app = create_app(ServiceSettings(), ConnectionSettings(url=("http://127.0.0.1:9200",)))
    answered = {route.resource.canonical for route in app.router.routes() if route.resource}
    asked = {kind: container(SERVICE)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    assert {kind: probe["path"] for kind, probe in asked.items()} == {
        "startup": "/startupz",
        "readiness": "/readyz",
        "liveness": "/livez",
    }
    assert {probe["path"] for probe in asked.values()} <= answered
    assert {probe["port"] for probe in asked.values()} == {"http"}


def test_a_restart_does_not_help_if_elasticsearch_is_away() -> None:
    probe = container(SERVICE)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 1800


def test_the_grace_period_holds_the_whole_way_out() -> None:
    settings = _settings(SERVICE)
    before = container(SERVICE)["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed = before + settings.drain_seconds + settings.deadline_seconds + 10
    assert SERVICE["spec"]["terminationGracePeriodSeconds"] >= needed


@pytest.mark.parametrize("name", PODS)
def test_no_pod_may_do_more_than_it_must(name: str) -> None:
    pod, account = PODS[name]["spec"], named("ServiceAccount")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), int(user)),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(PODS[name])["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)


@pytest.mark.parametrize("name", PODS)
def test_memory_is_reserved_and_files_are_read_only_except_where_they_must_not_be(name: str) -> None:
    resources = container(PODS[name])["resources"]
    assert resources["limits"] == {"memory": resources["requests"]["memory"]}
    writable = {path for path, volume in mounts(PODS[name]).items() if not volume.get("readOnly")}
    loads = name in {"brokerage-reindex", "brokerage-update"}
    assert writable == ({"/tmp", "/dead-letters"} if loads else {"/tmp"})  # noqa: S108 - in the container


def test_the_service_and_the_indexer_have_keys_of_their_own() -> None:
    secrets = {name: mounts(pod)["/run/secrets/brokerage"]["secret"]["secretName"] for name, pod in PODS.items()}
    assert secrets.pop("brokerage") == "brokerage-service"
    assert set(secrets.values()) == {"brokerage-indexer"}


def test_what_selects_pods_selects_the_service_alone() -> None:
    labels = SERVICE["metadata"]["labels"]
    spread = [each["labelSelector"] for each in SERVICE["spec"]["topologySpreadConstraints"]]
    selectors = [DEPLOYMENT["spec"]["selector"], named("PodDisruptionBudget")["spec"]["selector"], *spread]
    assert [selector["matchLabels"] for selector in selectors] == [labels] * 4
    assert named("Service")["spec"]["selector"] == labels
    assert all(pod["metadata"]["labels"] != labels for name, pod in PODS.items() if name != "brokerage")


def test_the_autoscaler_owns_the_number_of_replicas() -> None:
    scaled = named("HorizontalPodAutoscaler")["spec"]
    assert scaled["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "brokerage"}
    assert "replicas" not in DEPLOYMENT["spec"]
    assert "cpu" in container(SERVICE)["resources"]["requests"]
    # One may leave at any time and two remain.
    assert scaled["minReplicas"] - named("PodDisruptionBudget")["spec"]["maxUnavailable"] >= 2


def test_strangers_reach_the_port_of_the_api_alone() -> None:
    ingress = named("NetworkPolicy", "brokerage-service")["spec"]["ingress"]
    opened = {rule["ports"][0]["port"]: rule.get("from") for rule in ingress}
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert opened == {"http": None, "metrics": [monitoring]}
    assert set(opened) == set(_ports())


def test_pods_reach_dns_elasticsearch_and_the_service_redis() -> None:
    both, service = named("NetworkPolicy")["spec"], named("NetworkPolicy", "brokerage-service")["spec"]
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in (both, service))
    assert both["podSelector"]["matchLabels"].items() <= SERVICE["metadata"]["labels"].items()
    assert "ingress" not in both
    ports = [[port["port"] for port in rule["ports"]] for rule in both["egress"] + service["egress"]]
    assert ports == [[53, 53], [9200], [6379]]
    assert all(rule["to"] for rule in both["egress"] + service["egress"])


@pytest.mark.parametrize("name", CRON_JOBS)
def test_the_command_of_a_job_is_one(name: str) -> None:
    args = container(PODS[name])["args"]
    context = main.make_context("brokerage", list(args))
    assert isinstance(context.command, click.Group)
    (group, group_args) = args[0], args[1:]
    command = context.command.get_command(context, group)
    assert isinstance(command, click.Group)
    found = command.get_command(context, group_args[0])
    assert found is not None
    given = found.make_context(group_args[0], group_args[1:]).params
    assert given.get("source", "/tmp") in mounts(PODS[name])  # noqa: S108 - in the container


@pytest.mark.parametrize("name", CRON_JOBS)
def test_a_job_is_tried_again_where_that_may_help(name: str) -> None:
    job = CRON_JOBS[name]["spec"]["jobTemplate"]["spec"]
    final, drained = job["podFailurePolicy"]["rules"]
    assert final["onExitCodes"]["values"] == [ExitCode.FAILED, ExitCode.USAGE]
    assert (final["action"], drained["action"]) == ("FailJob", "Ignore")
    assert final["onExitCodes"]["containerName"] == container(PODS[name])["name"]
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert CRON_JOBS[name]["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_jobs_differ_in_what_they_run_and_when() -> None:
    reindex, update = (template(CRON_JOBS[f"brokerage-{name}"]) for name in ("reindex", "update"))
    first, second = container(reindex), container(update)
    assert {key for key in first if first[key] != second[key]} == {"args", "volumeMounts"}
    assert mounts(reindex)["/source"]["subPath"] != mounts(update)["/source"]["subPath"]
    assert environment(reindex)["BROKERAGE_DEAD_LETTER_DIR"] in mounts(reindex)


def test_the_page_names_what_must_be_there_before() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    needed = set[str]()
    for pod in PODS.values():
        for volume in pod["spec"]["volumes"]:
            needed |= {
                value
                for source in volume.values()
                if isinstance(source, dict)
                for key, value in source.items()
                if key in {"secretName", "claimName", "name"}
            }
    assert needed == {"brokerage-service", "brokerage-indexer", "brokerage-elasticsearch", "brokerage-source"}
    assert all(name in text for name in needed)
    assert set(FILES) - {"kustomization.yaml"} <= set(re.findall(r"`(\w+\.yaml)`", text))
