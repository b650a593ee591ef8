"""Which records keys were sent."""
