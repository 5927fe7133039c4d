"""The ways in which an array can be a view of another: the entries that it reads, and the effect of an assignment to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.indices import Index
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import reshaped
from diffsim.errors import ReadOnlyError


class View:
    """How an array was taken from its base.

    Views also work on *layouts*: arrays with the strides that NumPy's would have and no memory behind them. They tell whether a
    reshape is a view.
    """

    __slots__ = ()

    def read(self, base: Any) -> Any:
        """The core value of the view, from that of its base."""
        raise NotImplementedError

    def layout(self, base: np.ndarray) -> np.ndarray:
        """The layout of the view, from that of its base."""
        return self.read(base)

    def put(self, base: Any, value: Any) -> Any:
        """The core value of the base when the view has taken `value`."""
        raise NotImplementedError

    def check_writable(self) -> None:
        """Raise if it must not be assigned to."""


class IndexView(View):
    """Entries at a basic index."""

    __slots__ = ("index",)

    def __init__(self, index: Index) -> None:
        self.index = index

    def read(self, base: Any) -> Any:
        return st.getitem(base, index=self.index)

    def put(self, base: Any, value: Any) -> Any:
        return st.setitem(base, value, index=self.index)


class ReshapeView(View):
    """The same entries in another shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def read(self, base: Any) -> Any:
        return st.reshape(base, shape=self.shape)

    def layout(self, base: np.ndarray) -> np.ndarray:
        view = reshaped(base, self.shape)
        assert view is not None
        return view

    def put(self, base: Any, value: Any) -> Any:
        return st.reshape(value, shape=base.shape)


class TransposeView(View):
    """The axes in another order."""

    __slots__ = ("axes",)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def read(self, base: Any) -> Any:
        return st.transpose(base, axes=self.axes)

    def put(self, base: Any, value: Any) -> Any:
        return st.transpose(value, axes=tuple(int(i) for i in np.argsort(self.axes)))


class DiagonalView(View):
    """The main diagonals of the matrices in the last two axes."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return st.diagonal(base, offset=0)

    def layout(self, base: np.ndarray) -> np.ndarray:
        return np.diagonal(base, 0, -2, -1)

    def put(self, base: Any, value: Any) -> Any:
        return st.setitem(base, value, index=st.diagonal_index(base.shape, 0))


class PartView(View):
    """The real or the imaginary parts of a complex array."""

    __slots__ = ("imaginary",)

    def __init__(self, imaginary: bool) -> None:
        self.imaginary = imaginary

    def read(self, base: Any) -> Any:
        return st.imag(base) if self.imaginary else st.real(base)

    def layout(self, base: np.ndarray) -> np.ndarray:
        return base.imag if self.imaginary else base.real

    def put(self, base: Any, value: Any) -> Any:
        return st.like(st.real(base) + 1j * value if self.imaginary else value + 1j * st.imag(base), base)


class ReadOnlyView(View):
    """A result that is in NumPy a view that cannot be assigned to.

    Args:
        read: core value of the base -> core value of the view.
        layout: the same of layouts.
    """

    __slots__ = ("_layout", "_read")

    def __init__(self, read: Callable[[Any], Any], layout: Callable[[np.ndarray], np.ndarray]) -> None:
        self._read, self._layout = read, layout

    def read(self, base: Any) -> Any:
        return self._read(base)

    def layout(self, base: np.ndarray) -> np.ndarray:
        return self._layout(base)

    def check_writable(self) -> None:
        raise ReadOnlyError(
            "assignment to a broadcast array or to a diagonal, whose entries are those of another array; assign to that array, or to "
            "a copy()"
        )
