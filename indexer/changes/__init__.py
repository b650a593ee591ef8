"""Changes to an index: their kinds, stamps and moves, replay, new lives, and the session that may write them."""
