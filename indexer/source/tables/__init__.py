"""Tables with a column map: files and archives of delimited text, whose rows become envelopes."""
