"""Full rebuilds: load a candidate, reconcile it with the live generation, check it, swap it in."""
