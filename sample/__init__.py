"""Sample data: a source directory of any size, generated from a seed around real house sales."""

from sample.source_writer import SampleError, SourceSummary, WriteProgress, sold_count, write_source

__all__ = ["SampleError", "SourceSummary", "WriteProgress", "sold_count", "write_source"]
