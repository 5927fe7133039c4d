"""Sides in the words of a user: what to write where they are given by the names of axes, or by a word of another equation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from diffsim.base.arguments import one_of
from diffsim.base.messages import name_shown, shown
from diffsim.errors import ParameterError

MEANINGS = {
    "a wall": ("wall", "walls", "no_slip", "slip", "free_slip", "solid", "rigid", "closed", "reflecting", "reflective"),
    "an open side": ("open", "outflow", "outlet", "radiation", "radiating", "absorbing", "transmissive", "non_reflecting"),
    "an inlet": ("inflow", "inlet", "reservoir", "freestream", "farfield", "velocity", "tide"),
    "a joined side": ("periodic", "cyclic", "wrap", "circular"),
    "a side without flux": (
        "mirror",
        "insulated",
        "insulating",
        "adiabatic",
        "no_flux",
        "zero_gradient",
        "zero_flux",
        "reflect",
        "symmetric",
    ),
}
"""A meaning -> the words that have it, of equations here or elsewhere."""


def require_no_names(what: str, sides: object, axes: Sequence[str] | None = None) -> None:
    """Refuse sides by the names of axes, the form of scenes: in Python an entry stands at the place of its axis.

    Args:
        what: the argument, such as "sides".
        sides: as the user gives them.
        axes: names of the axes, in their order; None: not known here. Those of a grid may be others.

    Raises:
        ParameterError: they are a mapping. The message has the form to write.
    """
    if not isinstance(sides, Mapping):
        return
    known = axes is not None and set(sides) <= set(axes)
    order = list(axes) if axes is not None and known else [*sides]
    entries = [_written(sides[axis]) if known and axis in sides else "..." for axis in order]  # in another order walls would change places
    text = f"({', '.join(entries)}{',' * (len(entries) == 1)})"
    of = ", ".join(order) if known else "of the grid's axes"
    raise ParameterError(
        f"{what} = {shown(dict(sides))}, expected one entry, or one for each axis without its name, in the order {of}; "
        f"write {what} = {text}, and two sides of an axis as a pair (low side, high side)"
    )


def _written(entry: Any) -> str:
    """An entry as Python code."""
    if isinstance(entry, (list, tuple)):
        return f"({', '.join(map(_written, entry))})"
    return f'"{entry}"' if isinstance(entry, str) else shown(entry)


def one_word(name: str, word: object, known: Collection[str]) -> str:
    """One of the known words of sides.

    Raises:
        ParameterError: another one. The message says which known words have its meaning.
    """
    try:
        return str(one_of(name, word, known))
    except ParameterError as error:
        remedy = alike_here(word, known)
        if not remedy:
            raise
        text = str(error)
    raise ParameterError(f"{text}; {remedy}")


def alike_here(word: object, known: Collection[str]) -> str:
    """The remedy for a word that is not known: those with its meaning that are; "": there are none."""
    spelt = word.lower().replace("-", "_").replace(" ", "_") if isinstance(word, str) else ""
    for meaning, words in MEANINGS.items():
        alike = [name_shown(each) for each in known if each in words]
        if spelt in words and alike:
            return f"{meaning} is {' or '.join(alike)} here"
    return ""
