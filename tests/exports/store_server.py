"""An S3 server as a thread of this process, and the environment that leads to it."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

from moto.server import ThreadedMotoServer

BUCKET = "exports"
ENDPOINT = "AWS_ENDPOINT_URL"


@contextmanager
def running_store() -> Iterator[str]:
    """Run a server; yield its address. It checks conditions and ranges, but no signatures."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def empty_store(endpoint: str) -> None:
    """Delete everything, and create the bucket."""
    with closing(HTTPConnection(urlsplit(endpoint).netloc)) as connection:
        for method, path in (("POST", "/moto-api/reset"), ("PUT", f"/{BUCKET}")):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200


def store_environment(endpoint: str) -> dict[str, str]:
    """Return the variables for a server at an address."""
    return {
        ENDPOINT: endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
