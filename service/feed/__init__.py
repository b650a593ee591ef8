"""The feed beside the contract: what changed, everything at once, and proof of equality (decision 12)."""
