"""Sources of envelopes: folders, files, CSV with a column map, standard input."""
