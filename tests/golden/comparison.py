"""What differs between two responses, apart from what differs between any two responses to the same request."""

import re

from tests.golden.exchange import Response
from tests.golden.rows import Request

# Parts of headers that are of the moment, of the process, or random; of rates, the seconds until a bucket is full.
_HEADERS = {
    "Date": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT",
    "X-Request-Id": r"[0-9a-f]{16}",
    "Server-Timing": r"(?<=dur=)[0-9.]+",
    "RateLimit": r"(?<=;t=)\d+",
    "X-RateLimit-Reset": r"\d+",
}
_CHECKED_AGO = re.compile(rb'(?<="age_seconds": )[0-9.]+')
# These entity sets are as new as the newest file of the declarations, which differs between checkouts.
_DECLARED = re.compile(r"/v1/reso/(Lookup|Field)\b")
_DECLARED_AT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_CONTEXT = 60  # bytes shown before and after the first difference


def differences(request: Request, first: Response, second: Response) -> list[str]:
    """Return a text for each difference: the status, each header, and the first byte of the body."""
    found = [] if first.status == second.status else [f"status: {first.status!r} became {second.status!r}"]
    for name in dict.fromkeys(name for name, _ in (*first.headers, *second.headers)):
        had, has = (_settled_header(request, each, name) for each in (first, second))
        found += [] if had == has else [f"header {name}: {had!r} became {has!r}"]
    before, after = (_settled_body(request, each) for each in (first, second))
    if before != after:
        bytes_of_both = zip(before, after, strict=False)
        at = next((at for at, (had, has) in enumerate(bytes_of_both) if had != has), min(len(before), len(after)))
        shown = [body[max(0, at - _CONTEXT) : at + _CONTEXT].decode(errors="replace") for body in (before, after)]
        found.append(f"body, byte {at} of {len(before)} and {len(after)}:\n        {shown[0]!r}\n        {shown[1]!r}")
    return [f"{request}\n    {each}" for each in found]


def _settled_header(request: Request, response: Response, name: str) -> str:
    """Return a header with a star for what may differ."""
    varying = _HEADERS.get(name, "(?!)")
    if name == "Retry-After" and response.code == 429 and b"too-many-at-once" not in response.body:
        varying = r"\d+"  # until the rate allows another request
    if name == "ETag" and _DECLARED.match(request.target):
        varying = "[0-9a-f]{32}"
    return re.sub(varying, "*", response.header(name))


def _settled_body(request: Request, response: Response) -> bytes:
    """Return the body with a star for the request id of the header, and for what may differ."""
    body = response.body.replace(response.header("X-Request-Id").encode() or b"\0", b"*")
    body = _CHECKED_AGO.sub(b"*", body) if request.target.startswith("/readyz") else body
    return _DECLARED_AT.sub(b"*", body) if _DECLARED.match(request.target) else body
