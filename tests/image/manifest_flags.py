"""What the manifests of Kubernetes and of compose grant a container, as options of `podman run`."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from tests.image.podman import LIMIT, clipped
from tests.packaging.manifests import Document, container, mounts

_TMP = "/tmp"  # noqa: S108 - in the container
_POD = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"}
_CONTAINER = {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}


def pod_flags(pod: Document) -> list[str]:
    """Return the options by which podman confines a container as Kubernetes confines that of a pod template.

    Raises ValueError for members of a securityContext that are not translated.
    """
    whole, own = pod["spec"]["securityContext"], container(pod)["securityContext"]
    if unknown := (whole.keys() - _POD) | (own.keys() - _CONTAINER):
        raise ValueError(f"not translated: {sorted(unknown)}")
    flags = [
        f"--user={whole['runAsUser']}:{whole['runAsGroup']}",
        f"--read-only={own['readOnlyRootFilesystem']}".lower(),
    ]
    flags += [f"--cap-drop={name}" for name in own["capabilities"]["drop"]]
    flags += [] if own["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges"]
    size = mounts(pod)[_TMP]["emptyDir"]["sizeLimit"]
    memory = container(pod)["resources"]["limits"]["memory"]
    return [*flags, f"--tmpfs={_TMP}:size={_bytes(size)}", f"--memory={_bytes(memory)}"]


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) << {"Mi": 20, "Gi": 30}[quantity[-2:]]


def compose_flags(service: Mapping[str, Any]) -> list[str]:
    """Return the options for a service of compose.yaml; raise KeyError for members that are not translated."""
    return [f"--{flag}" for member, value in service.items() for flag in _COMPOSE[member](value)]


def compose_command(service: Mapping[str, Any]) -> list[str]:
    """Return the arguments after the image: the rest of the entry point, and the command."""
    command = service.get("command", [])
    return [*service.get("entrypoint", [])[1:], *(shlex.split(command) if isinstance(command, str) else command)]


def _each(option: str) -> Callable[[Any], list[str]]:
    return lambda values: [f"{option}={value}" for value in values]


def _one(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [f"{option}={value}".lower() if isinstance(value, bool) else f"{option}={value}"]


def _nothing(_value: Any) -> list[str]:
    return []


def _health(check: Mapping[str, Any]) -> list[str]:
    if check.get("disable"):
        return ["no-healthcheck"]
    kind, *words = check["test"]
    command = words[0] if kind == "CMD-SHELL" else shlex.join(words)
    return [
        f"health-cmd={command}",
        *(f"health-{name.replace('_', '-')}={check[name]}" for name in check.keys() - {"test"}),
    ]


def _limits(limits: Mapping[str, Mapping[str, int]]) -> list[str]:
    # With any of these options, podman forgets the defaults of its settings.
    wanted = {"nproc": LIMIT} | {name: limit["hard"] for name, limit in limits.items()}
    return [f"ulimit={name}={clipped(name, most)}" for name, most in wanted.items()]


_COMPOSE: dict[str, Callable[[Any], list[str]]] = {
    "cap_drop": _each("cap-drop"),
    "security_opt": _each("security-opt"),
    "tmpfs": _each("tmpfs"),
    "volumes": _each("volume"),
    "pids_limit": _one("pids-limit"),
    "mem_limit": _one("memory"),
    "cpus": _one("cpus"),
    "read_only": _one("read-only"),
    "restart": _one("restart"),
    "environment": lambda variables: [f"env={name}={value}" for name, value in variables.items()],
    "entrypoint": lambda words: [f"entrypoint={words[0]}"],
    "healthcheck": _health,
    "ulimits": _limits,
    # These decide what is started, when, where and for how long.
    **dict.fromkeys(("image", "build", "command", "depends_on", "ports", "stop_grace_period"), _nothing),
}
