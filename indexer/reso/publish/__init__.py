"""From the mirror to the index: an outbox of envelopes and a log of what was sent."""
