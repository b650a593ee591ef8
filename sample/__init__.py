"""Sample data: a source directory of any size, generated from a seed around real house sales."""

from sample.output_directory import SampleError
from sample.source_summary import SourceSummary, WriteProgress
from sample.source_writer import sold_count, write_source

__all__ = ["SampleError", "SourceSummary", "WriteProgress", "sold_count", "write_source"]
