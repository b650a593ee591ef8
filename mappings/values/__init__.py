"""Values of records as they are stored and compared: numbers, the forms of texts, normal spellings."""
