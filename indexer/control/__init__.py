"""Documents in the control index: marks, the event ledger, last runs and replication status."""
