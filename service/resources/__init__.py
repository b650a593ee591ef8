"""The operations of the contract."""

from service.resources.operations import OPERATIONS

__all__ = ["OPERATIONS"]
