"""Changes to an index: their kinds, stamps and moves, replay, new epochs, and the session that may write them."""
