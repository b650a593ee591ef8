"""Asks a node whether its cluster is complete."""

import http.client
import json
from typing import Final
from urllib.parse import urlsplit

_TIMEOUT: Final = 5  # seconds for one answer


def is_ready(url: str, nodes: int) -> bool:
    """Whether this node answers, sees that many nodes, and every index is usable (status yellow or green).

    Speaks plain HTTP by itself: proxy settings of the machine must not come between.
    """
    query = f"wait_for_nodes={nodes}&wait_for_status=yellow&timeout=1s"
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"/_cluster/health?{query}")
        answer = connection.getresponse()
        return answer.status == http.client.OK and json.load(answer)["timed_out"] is False
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
