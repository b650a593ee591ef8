"""Distributed locks: acquisition, heartbeat, takeover and the fences that enforce it."""
