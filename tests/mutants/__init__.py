"""One-line mutations of the product, and whether the tests that should see them do: `make mutants`."""
