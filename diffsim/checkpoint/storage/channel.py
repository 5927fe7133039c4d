"""Bytes to and from the file of a `DiskStore`, past the system's cache wherever the system can.

A write through the cache is a copy to memory that the system has to find. That memory is beyond any budget and counts where a job's
memory is limited; and it is costly where it must be cleared, taken from somebody else or, in a virtual machine, asked of the host: a core
is busy all the while, which the steps miss, and no measurement of another file tells how long. Past the cache a write takes what the
disk takes, and next to nothing else.
"""

from __future__ import annotations

import errno

from diffsim.system import CACHED, DIRECT, choose_way, read_at, write_at

_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)


class Channel:
    """The input and output of one file; of one thread at a time.

    Args:
        descriptor: of the file, open for reading and writing, and not shared. It stays the caller's to close.

    Attributes:
        best: the flag with which blocks go to the file and back.
    """

    def __init__(self, descriptor: int) -> None:
        self.best = DIRECT
        self._descriptor = descriptor
        self._way = CACHED

    def put_block(self, block: memoryview, place: int) -> None:
        """Write whole pages that begin at a page, in memory and in the file.

        Raises:
            OSError: from the system.
        """
        self._put(block, place, self.best)

    def get_block(self, block: memoryview, place: int) -> int:
        """Fill whole pages that begin at a page, in memory and in the file; return how many bytes there were.

        Raises:
            OSError: from the system.
        """
        return self._get(block, place, self.best)

    def put(self, data: bytes | memoryview, place: int) -> None:
        """Write any bytes anywhere, through the cache.

        Raises:
            OSError: from the system.
        """
        self._put(memoryview(data), place, CACHED)

    def get(self, view: memoryview, place: int) -> int:
        """Fill a buffer from a place on, through the cache; return how many bytes there were.

        Raises:
            OSError: from the system.
        """
        return self._get(view, place, CACHED)

    def _put(self, data: memoryview, place: int, way: int) -> None:
        done = 0
        while done < len(data):  # the system may write less than it is asked to
            try:
                self._take(way)
                done += write_at(self._descriptor, data[done:], place + done)
            except OSError as error:
                way = self._other(error, way)

    def _get(self, view: memoryview, place: int, way: int) -> int:
        done = 0
        while done < len(view):
            try:
                self._take(way)
                count = read_at(self._descriptor, view[done:], place + done)
            except OSError as error:
                way = self._other(error, way)
                continue
            if not count:
                break
            done += count
        return done

    def _other(self, error: OSError, way: int) -> int:
        """The way that is left if a file system has no other, or a call ended within a page; the error if neither is what is wrong."""
        if way == CACHED or error.errno not in _REFUSED:
            raise error
        self.best = CACHED
        return CACHED

    def _take(self, way: int) -> None:
        """Make a way that of the next call."""
        if way != self._way:
            choose_way(self._descriptor, way)
            self._way = way
