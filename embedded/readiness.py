"""The readiness check of a cluster."""

import http.client
import json
from typing import Final
from urllib.parse import urlsplit

_TIMEOUT_SECONDS: Final = 5  # for one response


def is_cluster_ready(url: str, nodes: int) -> bool:
    """Whether this node responds, sees that many nodes, and all indices are usable (status yellow or green).

    Uses `http.client`, which ignores proxy settings of the machine.
    """
    query = f"wait_for_nodes={nodes}&wait_for_status=yellow&timeout=1s"
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"/_cluster/health?{query}")
        response = connection.getresponse()
        return response.status == http.client.OK and json.load(response)["timed_out"] is False
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
