"""Sample data: a source directory of any size, generated from a seed around real house sales."""

from sample.directory import SampleError
from sample.source import sold_count, write_source
from sample.summary import Progress, SourceSummary

__all__ = ["Progress", "SampleError", "SourceSummary", "sold_count", "write_source"]
