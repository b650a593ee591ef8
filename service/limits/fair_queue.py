"""A queue that alternates between keys: a key with many waiting requests delays its own, not those of other keys."""

import asyncio
from collections.abc import Mapping

Turn = asyncio.Future[None]


class FairQueue:
    """Waiting requests by key: in order of arrival within a key, next is the key that holds the fewest slots."""

    def __init__(self, held: Mapping[str, int]) -> None:
        """Start empty; `held` are the slots in use by each key that has any."""
        self._held = held
        # The key served last is last, so keys that hold the same number are served alternately.
        self._turns: dict[str, dict[Turn, None]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return self._length

    def length_of(self, key_id: str) -> int:
        """Return the number of waiting requests of a key."""
        return len(self._turns.get(key_id, ()))

    def keys(self) -> set[str]:
        """Return the keys with waiting requests."""
        return {*self._turns}

    def add(self, key_id: str) -> Turn:
        """Append a request; its turn is a future."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._turns.setdefault(key_id, {})[turn] = None
        self._length += 1
        return turn

    def discard(self, key_id: str, turn: Turn) -> None:
        """Remove a request if it still waits."""
        turns = self._turns.get(key_id, {})
        if turn in turns:
            del turns[turn]
            self._length -= 1
            if not turns:
                del self._turns[key_id]

    def next(self) -> tuple[str, Turn] | None:
        """Remove and return the request whose turn it is; None if none waits."""
        while self._turns:
            key_id = min(self._turns, key=lambda key_id: self._held.get(key_id, 0))
            turn = next(iter(self._turns[key_id]))
            self.discard(key_id, turn)
            if key_id in self._turns:
                self._turns[key_id] = self._turns.pop(key_id)
            # Skip a request whose client has just left: it is cancelled, but its task has not run yet.
            if not turn.done():
                return key_id, turn
        return None

    def drop_for(self, key_id: str) -> Turn | None:
        """Remove and return the newest request of the key that uses most, if it uses two more than `key_id`.

        What a key uses are its slots and its places in the queue.
        """
        greediest = max(self._turns, key=self._uses, default="")
        if self._uses(greediest) < self._uses(key_id) + 2:
            return None
        turn = next(reversed(self._turns[greediest]))
        self.discard(greediest, turn)
        return turn

    def _uses(self, key_id: str) -> int:
        return self._held.get(key_id, 0) + self.length_of(key_id)

    def ahead_of(self, key_id: str) -> int:
        """Return how many of the waiting requests are served before one more of a key."""
        own = self.length_of(key_id)
        level = self._held.get(key_id, 0) + own + 1
        others = (
            min(len(turns), max(0, level - self._held.get(other, 0)))
            for other, turns in self._turns.items()
            if other != key_id
        )
        return own + sum(others)
