"""`brokerage index`: build, update, replicate, verify and roll back the indices."""
