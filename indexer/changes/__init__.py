"""Changes to an index: their kind, stamps, moves between companies, replay, and the session that may write them."""
