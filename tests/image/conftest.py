"""The images, a network with the node and sample data, and the service in it. Everything is removed afterwards."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded import EmbeddedCluster, NodeOptions
from sample import write_source
from tests.image.image_build import IMAGE, NODE_IMAGE, ImageBuilder
from tests.image.manifest_flags import pod_flags
from tests.image.podman import Container, Podman, obstacle
from tests.image.site import Site
from tests.packaging.manifests import PODS, container

LISTINGS = 400


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """Podman with a storage of its own."""
    assert not (reason := obstacle()), reason
    folder = Path(tempfile.mkdtemp(prefix="brokerage-image-"))
    made = Podman.within(folder)
    try:
        yield made
    finally:
        made.remove_all()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def builder(podman: Podman) -> ImageBuilder:
    """What builds images."""
    secrets = podman.folder / "secrets"
    secrets.mkdir(mode=0o700)
    return ImageBuilder(podman, secrets)


@pytest.fixture(scope="session")
def base(builder: ImageBuilder) -> str:
    """The name of the base image."""
    return builder.base()


@pytest.fixture(scope="session")
def image(builder: ImageBuilder, base: str) -> str:
    """The product's image; prints its size and how long its build took."""
    seconds = builder.product(base)
    sizes = [int(builder.podman.run("image", "inspect", name, "--format={{.Size}}")) for name in (IMAGE, base)]
    print(f"\nimage: {sizes[0] / 1e6:.0f} MB, of which base {sizes[1] / 1e6:.0f} MB; built in {seconds:.0f} s")
    return IMAGE


@pytest.fixture(scope="session")
def node_image(builder: ImageBuilder, base: str) -> str:
    """The stand-in for the image of Elasticsearch."""
    context = builder.podman.folder / "node"
    context.mkdir()
    builder.node(base, context)
    return NODE_IMAGE


@pytest.fixture(scope="session")
def site(podman: Podman, image: str) -> Iterator[Site]:
    """A network with a node behind it."""
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=512, settings=Site.NODE_SETTINGS)) as node:
        yield Site.before(node, podman, image)


@pytest.fixture(scope="session")
def source(podman: Podman) -> Path:
    """A folder of sample data that every user may read."""
    folder = podman.folder / "source"
    write_source(folder, listings=LISTINGS)
    for path in (podman.folder, folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))
    return folder


@pytest.fixture(scope="session")
def loaded(site: Site, source: Path) -> str:
    """Load the sample by the job of the manifests; returns what it prints."""
    return site.job("brokerage-reindex", source)


@pytest.fixture(scope="session")
def key(site: Site, loaded: str) -> str:
    """An API key, made by a one-shot."""
    assert loaded
    (made,) = re.findall(
        r"^bk_\S+$", site.once("keys", "create", "image", "--all-companies", "--rate", "unlimited"), re.MULTILINE
    )
    return str(made)


@pytest.fixture
def service(site: Site, loaded: str) -> Iterator[Container]:
    """The service, confined as the Deployment says."""
    assert loaded
    pod = PODS["brokerage"]
    with site.serving(*pod_flags(pod), arguments=container(pod)["args"]) as started:
        yield started
