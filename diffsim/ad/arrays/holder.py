"""The place that an array of a program is: it holds a core value and takes a new one when it is assigned to.

A core value never changes. An array that is a view in NumPy (a slice, a transpose, a reshape) remembers its base and how it was taken: it
reads the base anew after an assignment to it, and an assignment to the view goes on to the base.

Memory is written in place where nobody else can refer to it (`_owned`), so that a loop that fills an array entry by entry is
linear; otherwise the first assignment copies.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from diffsim.ad.arrays import guard, positions
from diffsim.ad.arrays.indices import Index, compose, last_writes, normalise
from diffsim.ad.arrays.views import IndexView, ReadOnlyView, View
from diffsim.ad.core import Interceptor, Tracer, bottom, is_plain, laid_out, local
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import blank
from diffsim.errors import DerivativeError, ReadOnlyError, StaleValueError

_Kind = TypeVar("_Kind", bound="Holder")


class Outside:
    """A NumPy array from outside, how it looked when it was read last, and by which run of a loop's body."""

    __slots__ = ("array", "look", "run")

    def __init__(self, array: np.ndarray, look: bytes | int) -> None:
        self.array, self.look, self.run = array, look, 0


class Holder:
    """A core value that can be replaced, and the views of it. `diffsim.ad.arrays.array.Array` is the one kind there is."""

    __slots__ = (
        "__weakref__",
        "_base",
        "_outside",
        "_owned",
        "_root",
        "_scalar",
        "_scope",
        "_seen",
        "_strides",
        "_value",
        "_version",
        "_view",
    )

    def __init__(self, value: Any, *, owned: bool = False, scalar: bool = False, strides: tuple[int, ...] | None = None) -> None:
        self._value = value
        self._owned = owned
        self._scalar = scalar
        self._strides = strides  # NumPy's, if they are not those of the value
        self._version = 0
        self._base: Holder | None = None
        self._root: Holder | None = None  # the last base, whose version all views compare theirs with
        self._view: Any = None  # how it was taken from its base
        self._seen = 0
        self._scope: Interceptor | None = local.interceptor
        self._outside: Outside | None = None

    @classmethod
    def _borrowing(cls: type[_Kind], array: np.ndarray) -> _Kind:
        """A NumPy array that a program has from somewhere else: it is read anew when it was edited, and never assigned to."""
        borrowed = cls(guard.private(array), strides=array.strides)
        borrowed._outside = Outside(array, guard.fingerprint(array))
        return borrowed

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape  # an assignment never changes it

    @property
    def dtype(self) -> Any:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    # reading

    def _current(self) -> Any:
        """The present core value, without giving up ownership."""
        root = self._root
        if local.interceptor is not None:
            guard.note_outside(self if root is None else root)
        whole = self if root is None else root
        if whole._outside is not None:
            whole._look_outside(whole._outside)
        if root is not None and self._seen != root._version:
            self._read_again(root)
        return self._value

    def _look_outside(self, outside: Outside) -> None:
        if local.interceptor is not None:
            if outside.run == local.interceptor.id:
                return  # one look in each run of a body is enough: the body cannot have edited it
            outside.run = local.interceptor.id
        look = guard.fingerprint(outside.array)
        if look != outside.look or local.interceptor is not None:  # a body that is run again must find the same values
            self._value = guard.private(outside.array) if local.depth else guard.snapshot(outside.array)
            self._version += look != outside.look
            outside.look = look

    def _read_again(self, root: Holder) -> None:
        """Views of views are read from the first stale one on, without recursion."""
        stale: list[Holder] = [self]
        while (base := stale[-1]._base) is not None and base is not root and base._seen != root._version:
            stale.append(base)
        before, local.interceptor = local.interceptor, root._scope  # the views belong there, wherever they are read
        try:
            for array in reversed(stale):
                assert array._base is not None
                array._value, array._seen = array._base._lent(array._view.read(array._base._value)), root._version
        finally:
            local.interceptor = before

    def _lent(self, part: Any) -> Any:
        """The value of a view. A small one is a copy, so that the memory of the array can still be written in place."""
        if self._owned and part.size * 4 <= self.size:
            return st.snapshot(part)
        self._owned = False
        return part

    def core(self) -> Any:
        """The present core value, for an operation that may keep it."""
        self._owned = False
        return self._current()

    def linked(self: _Kind, view: View, part: Any = None) -> _Kind:
        """A view of the array, `part` being its value if it has been read. That of a number is an array of its own."""
        if self._outside is not None and local.interceptor is None:  # a part is looked at in its turn, without the rest
            there = view.read(self._outside.array)
            if isinstance(there, np.ndarray) and np.may_share_memory(there, self._outside.array):
                return self._borrowing(there)
        value = self._current()
        linked = type(self)(self._lent(view.read(value) if part is None else part))
        if not self._scalar or isinstance(view, ReadOnlyView):
            linked._base, linked._view = self, view
            linked._root = self if self._root is None else self._root
            linked._seen = linked._root._version
        return linked

    def _layout(self) -> np.ndarray:
        """The strides that NumPy's array would have (see `View`)."""
        views, array = [], self
        while array._base is not None:
            views.append(array._view)
            array = array._base
        value = laid_out(array._value)
        laid = blank(value.shape, value.dtype, array._strides or value.strides)
        for view in reversed(views):
            laid = view.layout(laid)
        return laid

    def _placed(self, index: Index) -> tuple[Holder, Index]:
        """The array, and the place in it, of the entries at a basic index: a view of a view is one of the base."""
        if isinstance(self._view, IndexView):
            assert self._base is not None
            composed = compose(self._base.shape, self._view.index, index)
            if composed is not None:
                return self._base, composed
        return self, index

    # writing

    def _store(self, index: Index, value: Any) -> None:
        """Assign at an index."""
        self._check_writable(value)
        current = self._current()
        if positions.is_computed(index):
            self._replace(positions.written(current, index, value))
            return
        distinct = None
        if isinstance(value, Tracer):
            if not _is_mask_of(index, self.ndim):  # NumPy refuses them there
                value = _without_leading_ones(value)
            distinct = None if st.is_basic(index) else last_writes(index, self.shape)
        if self._base is not None:
            self._replace(st.setitem(current, value, index=index, distinct=distinct))
            return
        if not self._owned and self._strides is None:
            self._strides = laid_out(current).strides  # the copy may have others
        self._value = st.setitem(current, value, index=index, donate=self._owned, distinct=distinct)
        self._owned = True
        self._version += 1

    def _replace(self, value: Any) -> None:
        """Take a new core value of the same shape and type, and hand it on to the bases."""
        self._check_writable(value)
        array, root, changed = self, self._root, [(self, value)]
        if root is None:
            self._take(value)
            return
        while (base := array._base) is not root:
            assert base is not None
            value = array._view.put(base._current(), value)
            changed.append((base, value))
            array = base
        if isinstance(array._view, IndexView):
            root._store(array._view.index, value)
        else:
            root._take(array._view.put(root._current(), value))
        for array, value in changed:
            array._value, array._seen = value, root._version

    def add_at(self, index: Any, value: Any) -> None:
        """Add at an index, as often as an entry is named there."""
        value = np.asarray(value) if is_plain(value) else value
        index, _ = normalise_index(index)
        add = positions.added if positions.is_computed(index) else lambda x, index, v: st.index_add(x, v, index=index)
        self._replace(self._in_its_type(add(self.core(), index, _without_leading_ones(value))))

    def _in_its_type(self, value: Any) -> Any:
        """The result of an operation in place."""
        if value.dtype == self.dtype:
            return value
        if not np.can_cast(value.dtype, self.dtype, "same_kind"):
            raise DerivativeError(
                f"an in-place operation gives {value.dtype}, which the array's {self.dtype} cannot hold; use astype first"
            )
        return st.astype(value, dtype=self.dtype)

    def _take(self, value: Any) -> None:
        """Take a new core value as a base, in memory of the same order."""
        if laid_out(value).strides != laid_out(self._value).strides:
            self._store((Ellipsis,), value)
            return
        self._value, self._owned = value, False
        self._version += 1

    def _check_writable(self, value: Any) -> None:
        if self._scalar:
            raise TypeError("a number cannot be assigned to; make an array of it with diffsim.numpy.array(x)")
        root = self if self._root is None else self._root
        if root._scope is not local.interceptor:
            raise StaleValueError(
                "an array made outside is assigned to inside the body of a checkpointed loop or of remat, which is run again in the "
                "reverse sweep; pass it in as part of the state and return it, or make it inside"
            )
        if root._outside is not None:
            raise ReadOnlyError(
                f"assignment to a NumPy array of shape {root.shape} from outside of the derivative, or to a view of it: that would edit it "
                "for everybody, once for each time the function is run; assign to a copy, diffsim.numpy.array(a)"
            )
        guard.require_both_parts(value, self.dtype)
        if isinstance(value, Tracer) and value.dtype.kind in "fc" and self.dtype.kind not in "fc":
            raise DerivativeError(
                f"a differentiable {value.dtype} value is assigned to an array of {self.dtype}, which would lose its derivative; "
                f"make the array with a floating-point type, as in zeros({self.shape}, dtype={value.dtype}), or use ds.stop_gradient"
            )
        array: Holder | None = self
        while array is not None and array._view is not None:
            array._view.check_writable()
            array = array._base


def normalise_index(index: Any) -> tuple[Index, bool]:
    """An index as a tuple of plain parts, and a flag if it makes a view."""
    return normalise(index, _index_value)


def _index_value(part: Any) -> Any:
    if not isinstance(part, Holder):
        return part
    value = part._current()
    if value.dtype.kind not in "iub":
        raise IndexError(f"an index has the type {value.dtype}, expected integers or booleans; convert it with int() or astype(int)")
    return bottom(value)


def _is_mask_of(index: Index, rank: int) -> bool:
    mask = index[0] if len(index) == 1 else None
    return isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim == rank


def _without_leading_ones(value: Any) -> Any:
    """The value of an assignment with no more axes than broadcasting needs."""
    shape = list(value.shape)
    while shape and shape[0] == 1:
        del shape[0]
    return value if len(shape) == value.ndim else st.reshape(value, shape=tuple(shape))
