"""`$filter`: parser, expression tree, and its translation to Elasticsearch clauses."""
