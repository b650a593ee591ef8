"""The Kubernetes manifests as their tests see them: parsed documents, and the containers in them."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))

Document = dict[str, Any]


def read(file: str) -> list[Document]:
    """Return the documents of a file, their anchors resolved."""
    return list(YAML(typ="safe", pure=True).load_all(FOLDER / file))


DOCUMENTS = [document for file in FILES if file != "kustomization.yaml" for document in read(file)]
(DEPLOYMENT,) = (document for document in DOCUMENTS if document["kind"] == "Deployment")
CRON_JOBS = {document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == "CronJob"}
SETTINGS: dict[str, str] = next(each for each in DOCUMENTS if each["kind"] == "ConfigMap")["data"]


def named(kind: str, name: str = "brokerage") -> Document:
    """Return the document of a kind and a name."""
    (found,) = (each for each in DOCUMENTS if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def template(document: Document) -> Document:
    """Return the pod template of a Deployment or a CronJob."""
    spec: Document = document["spec"]
    pod: Document = spec.get("jobTemplate", document)["spec"]["template"]
    return pod


PODS = {document["metadata"]["name"]: template(document) for document in [DEPLOYMENT, *CRON_JOBS.values()]}


def container(pod: Document) -> Document:
    """Return the one container of a pod template."""
    (found,) = pod["spec"]["containers"]
    return dict(found)


def environment(pod: Document) -> dict[str, str]:
    """Return the variables that a container of ours is started with."""
    return SETTINGS | {variable["name"]: variable["value"] for variable in container(pod)["env"]}


def mounts(pod: Document) -> dict[str, Document]:
    """Return the volumes of a pod template by the path at which they are mounted, with the mount's own members."""
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] | mount for mount in container(pod)["volumeMounts"]}
