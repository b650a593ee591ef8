"""The wheel of the Python client, made of the installation that this service runs in.

Partners install the client from the service: it is not on a package index.
"""

import zipfile
from base64 import urlsafe_b64encode
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import Distribution, distribution
from io import BytesIO

from service.site.pages import DOCS_ROOT

CLIENT_PATH = f"{DOCS_ROOT}/client"
_PACKAGE = "brokerage_feed"
_METADATA = ("METADATA", "entry_points.txt")
_TAG = "Wheel-Version: 1.0\nGenerator: brokerage\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# The earliest that a zip archive can state: the same content always makes the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


@cache
def client_wheel_name() -> str:
    return f"{_PACKAGE}-{_client().version}-py3-none-any.whl"


@cache
def client_wheel() -> bytes:
    """Return the wheel; the same bytes for the same files."""
    about = f"{_PACKAGE}-{_client().version}.dist-info"
    content = dict(_package_files())
    content |= {f"{about}/{name}": (_client().read_text(name) or "").encode() for name in _METADATA}
    content[f"{about}/WHEEL"] = _TAG.encode()
    hashes = [f"{name},sha256={_digest(body)},{len(body)}" for name, body in content.items()]
    content[f"{about}/RECORD"] = "".join(f"{line}\n" for line in (*hashes, f"{about}/RECORD,,")).encode()
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in content.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, body)
    return made.getvalue()


@cache
def _client() -> Distribution:
    return distribution("brokerage-feed")


def _package_files() -> dict[str, bytes]:
    package = resources.files(_PACKAGE)
    return {
        f"{_PACKAGE}/{file.name}": file.read_bytes() for file in sorted(package.iterdir(), key=str) if file.is_file()
    }


def _digest(body: bytes) -> str:
    return urlsafe_b64encode(sha256(body).digest()).rstrip(b"=").decode()
