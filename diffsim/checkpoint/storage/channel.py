"""Input and output of the file of a `DiskStore`, without the system's cache if the system allows.

A write through the cache is a copy to memory that the system has to find. That memory is outside of any budget, and it counts where the
memory of a job is limited. It costs time if it must be cleared, taken from another process or, in a virtual machine, requested from the
host. During that time a core is busy that the steps need, and measurements of another file do not predict how long it takes. Without the
cache a write takes the time of the disk, and almost no time of a core.
"""

from __future__ import annotations

import errno

from diffsim.base.system import CACHED, DIRECT, choose_way, read_at, write_at

_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)


class Channel:
    """The input and output of one file. One thread at a time may use it.

    Args:
        descriptor: descriptor of the file, open for reading and writing, and not shared. The caller closes it.

    Attributes:
        best: the flag for reading and writing blocks.
    """

    def __init__(self, descriptor: int) -> None:
        self.best = DIRECT
        self._descriptor = descriptor
        self._way = CACHED

    def put_block(self, block: memoryview, place: int) -> None:
        """Write whole pages that are aligned to pages, in memory and in the file.

        Raises:
            OSError: from the system.
        """
        self._put(block, place, self.best)

    def get_block(self, block: memoryview, place: int) -> int:
        """Read whole pages that are aligned to pages, in memory and in the file. Return the number of bytes.

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
        """Read from a place into a buffer, through the cache. Return the number of bytes.

        Raises:
            OSError: from the system.
        """
        return self._get(view, place, CACHED)

    def _put(self, data: memoryview, place: int, way: int) -> None:
        done = 0
        while done < len(data):  # the system may write less than requested
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
        """The other flag, if the file system does not support this one or a call ended within a page. Otherwise raise the error."""
        if way == CACHED or error.errno not in _REFUSED:
            raise error
        self.best = CACHED
        return CACHED

    def _take(self, way: int) -> None:
        """Set the flag for the next call."""
        if way != self._way:
            choose_way(self._descriptor, way)
            self._way = way
