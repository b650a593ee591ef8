"""Turning a source line into a document: decode, validate, normalize, build."""
