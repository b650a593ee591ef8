"""Positions in the writes of a generation: a `_seq_no` for each shard, in which all writes up to it are included.

An index of one shard has a plain number in its `_meta` and in checkpoints, any other a list.
"""

from typing import TypeAlias

StoredSeqNos: TypeAlias = int | list[int]


def stored_seq_nos(seq_nos: list[int]) -> StoredSeqNos:
    """Return what is stored for the numbers of all shards."""
    return seq_nos[0] if len(seq_nos) == 1 else seq_nos


def read_seq_nos(stored: StoredSeqNos) -> list[int]:
    """Return the numbers of all shards."""
    return [stored] if isinstance(stored, int) else stored


def shard_numbers(seq_nos: list[int]) -> list[int | None]:
    """Return the shards to search one by one; None for the only one."""
    return [None] if len(seq_nos) == 1 else [*range(len(seq_nos))]
