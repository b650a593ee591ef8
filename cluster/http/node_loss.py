"""Errors by which Elasticsearch reports that a node left the cluster while it worked on a request."""

# The types of the errors of the node that coordinated the request.
NODE_LOSS_TYPES = frozenset(
    {
        "connect_transport_exception",
        "node_closed_exception",
        "node_disconnected_exception",
        "node_not_connected_exception",
    }
)
