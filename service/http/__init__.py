"""The HTTP layer: connections, headers, negotiation, compression, conditional requests and problem documents."""
