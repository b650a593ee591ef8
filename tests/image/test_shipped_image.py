"""What the image holds, and that it serves without rights: the part of this tier that `make check` includes."""

import asyncio
import mmap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.client import Connection
from bench.client import get as request_of
from tests.image.image_build import CANARY, ROOT
from tests.image.manifest_flags import pod_flags
from tests.image.podman import Container, Podman
from tests.image.site import PAGE, PAGE_SIZE, PORT, Site, address_of, get, grace_seconds
from tests.packaging.manifests import PODS, container
from tests.packaging.test_supply_chain import SERVICES
from tests.waiting import until

_CLIENTS = 8
_ANSWERS_BEFORE = 200
_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_TOOLS = ("pip", "pip3", "gcc", "cc", "g++", "c++", "as", "ld", "make", "git", "curl", "wget")
_DOCUMENTED = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "BROKERAGE_HOST"}
_WRITABLE = "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null; true"
# Of the official base image.
_OF_THE_BASE = {"LANG", "GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256", "container"}


@pytest.fixture(scope="session")
def root(podman: Podman, image: str) -> Iterator[Path]:
    """The root folder of the image."""
    yield Path(podman.run("image", "mount", image).strip())
    podman.run("image", "unmount", image)


def _shell(podman: Podman, image: str, script: str, *flags: str) -> str:
    return podman.run("run", "--rm", "--entrypoint=sh", *flags, image, "-c", script)


def test_nothing_installs_or_compiles(podman: Podman, image: str) -> None:
    found = _shell(podman, image, f"for tool in {' '.join(_TOOLS)}; do command -v $tool; done; true")
    assert found == ""
    modules = "import importlib.util as u; print([m for m in ('pip', 'ensurepip') if u.find_spec(m)])"
    assert _shell(podman, image, f'for p in python /usr/bin/python3; do $p -c "{modules}"; done') == "[]\n[]\n"


def test_no_layer_and_no_file_holds_a_secret_of_the_build(podman: Podman, image: str, root: Path) -> None:
    assert [path for path in _files(root) if _holds(path, CANARY.encode())] == []
    history = podman.run("history", "--no-trunc", "--format={{.CreatedBy}}", image)
    assert "COPY" in history
    assert CANARY not in history


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)


def _holds(path: Path, word: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(word) >= 0


def test_tests_benchmarks_and_documents_stay_outside(root: Path) -> None:
    (packages,) = root.glob("opt/brokerage/lib/python3*/site-packages")
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert {path.name for path in packages.iterdir()} & ours == {
        "brokerage", "cluster", "embedded", "indexer", "mappings", "sample", "service",
    }  # fmt: skip
    assert not [path for path in root.rglob("*") if path.name in {".git", "conftest.py"} and "numpy" not in path.parts]


def test_its_user_owns_and_writes_nothing_outside_temporary_folders(podman: Podman, image: str) -> None:
    writable = _shell(podman, image, _WRITABLE)
    places = {"/tmp", "/var/tmp", "/run/lock"}  # noqa: S108 - in the container
    assert set(writable.split()) <= places


def test_what_it_says_of_itself(podman: Podman, image: str) -> None:
    def config(member: str) -> str:
        return podman.run("image", "inspect", image, f"--format={{{{{member}}}}}").strip()

    assert config(".Config.User") == "65532:65532"
    assert config(".Config.StopSignal") == "SIGTERM"
    assert config(".Config.Entrypoint") == "[brokerage]"
    assert config(".Config.ExposedPorts") == "map[8080/tcp:{}]"
    assert config(".HealthCheck.Interval") == "10s"
    names = {line.partition("=")[0] for line in config('join .Config.Env "\\n"').splitlines()}
    assert names >= _DOCUMENTED
    assert names <= _DOCUMENTED | _OF_THE_BASE
    assert SERVICES["service"]["build"] == "."


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
        assert get(address_of(service), probe)[0] == 200
    assert get(address_of(service), PAGE)[0] == 401
    status, page = get(address_of(service), PAGE, key)
    assert (status, len(page["Listings"])) == (200, PAGE_SIZE)


def test_doctor_finds_that_the_service_can_serve(site: Site, key: str) -> None:
    assert key
    assert "The service can serve." in site.once("doctor")


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_no_answer_is_lost_when_it_is_stopped_under_load(site: Site, key: str, workers: str) -> None:
    arguments = [*container(PODS["brokerage"])["args"], "--workers", workers]
    answers = Counter[str]()
    with site.serving(*pod_flags(PODS["brokerage"]), arguments=arguments) as service:
        request = request_of(f"http://{address_of(service)}", PAGE, {"x-api-key": key})
        clients = [asyncio.create_task(_read(service.address, request, answers)) for _ in range(_CLIENTS)]
        await until(lambda: answers.total() >= _ANSWERS_BEFORE or any(client.done() for client in clients))
        code = await asyncio.to_thread(service.stop, grace_seconds())
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
