"""The root path of the RESO Web API: below it every response follows OData, errors included."""

from service.http.requests import collapse_slashes

RESO_ROOT = "/v1/reso"
# A filter with a hundred keys of 64 characters takes some 7,300 bytes.
MAX_RESO_URL_BYTES = 16_384


def is_reso_path(path: str) -> bool:
    """Whether a path belongs to the RESO Web API; repeated slashes count as one."""
    if "/reso" not in path:
        return False
    tidied = collapse_slashes(path)
    return tidied == RESO_ROOT or tidied.startswith(f"{RESO_ROOT}/")
