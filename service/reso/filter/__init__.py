"""`$filter`: tokenizer, parser, expression tree, and its translation to Elasticsearch clauses."""
