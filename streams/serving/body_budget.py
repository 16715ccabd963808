"""The memory for bodies of requests that are read at one time, of all callers and of one address.

Who finds none left waits, within the time that its request has, and meanwhile nothing of it is read: TCP holds the sender back.
"""

import asyncio
from collections import Counter

from schemas.units import Bytes


class BodyBudget:
    """For one event loop."""

    def __init__(self, most: Bytes, of_one_address: Bytes) -> None:
        self._most, self._of_one = most, of_one_address
        self._held: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def held(self) -> int:
        """Bytes that are in memory now."""
        return self._held.total()

    async def take(self, address: str, size: int) -> None:
        """Wait until there is room for so many bytes more, and take them."""
        while not self._fits(address, size):
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            try:
                await freed
            finally:
                self._waiting.remove(freed)
        self._held[address] += size

    def give_back(self, address: str, size: int) -> None:
        """So many bytes are no longer in memory."""
        self._held[address] -= size
        if self._held[address] <= 0:
            del self._held[address]
        for freed in self._waiting:
            if not freed.done():
                freed.set_result(None)

    def _fits(self, address: str, size: int) -> bool:
        return self.held + size <= self._most and self._held.get(address, 0) + size <= self._of_one
