"""Functions of a kernel whose text differs in names, levels and numbers alone are one function, which has these as arguments.

Such are the stages of a Runge-Kutta method. LLVM then has each of them once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEAST = 40
"""Lines of a function from which on it is compared with others. Shorter ones LLVM puts in the place of their calls."""

WORTH = 0.3
"""Share of the lines of a source that has to be saved: a function that is called costs some per cent more than its lines in place."""
REPEATED = 0.1
"""That share in a kernel that goes back through the laps of a loop, for which it has each lap twice, forward and with its adjoint."""

_TOKEN = re.compile(r"F\([^()]*\)|[A-Za-z_]\w*")
_ACCESS = re.compile(r"\b([A-Za-z_]\w*)\[(?:(\w+_(?:at|lap|first|start)_\d+) \+ )?")
_PASSED = re.compile(r"\b([A-Za-z_]\w*), (\w+_(?:at|lap|first|start)_\d+|0)(?=[,)])")
_TILE = re.compile(r"\btile_from\((\w+), (?:(\w+_(?:at|lap|first|start)_\d+) \+ )?(?=at\b)")
_POSITION = re.compile(r"^ *(a\d+) = ((?:\w+_(?:at|lap|first|start)_\d+ \+ )?at(?: [-+] \d+)?)$")
_VALUE = re.compile(r"\b[av]\d+\b")
_PLACE = re.compile(r"@\d+[\[~]?|\$\d+:[\w.]+|#")
_CALL = re.compile(r"^( *called = )(\w+)\((.*)\)$")
_LOOP = re.compile(r"^ *(?:for|while) ")


@dataclass
class Function:
    """A function of a source.

    Attributes:
        name: of it.
        kinds: argument -> the annotation of its type.
        body: its lines.
    """

    name: str
    kinds: dict[str, str]
    body: list[str]

    @property
    def lines(self) -> list[str]:
        declared = ", ".join(f"{name}: {kind}" for name, kind in self.kinds.items())
        return ["@ti.real_func", f"def {self.name}({declared}) -> ti.i32:", *self.body, "    return 0", ""]

    def renamed(self, names: Mapping[str, str]) -> Function:
        """The function with calls of others by other names."""
        calls = [(line, _CALL.match(line)) for line in self.body]
        body = [line if call is None else f"{call[1]}{names.get(call[2], call[2])}({call[3]})" for line, call in calls]
        return Function(self.name, self.kinds, body)


@dataclass
class Form:
    """A function with places in the place of names, levels and numbers.

    Attributes:
        text: the same for functions that are alike.
        arrays: place -> array, and the variable with the start of its level, or "0".
        names: place -> other argument.
        numbers: all numbers, in the order of the text.
    """

    text: str = ""
    arrays: dict[tuple[str, str], str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)


def _in_place(body: Sequence[str]) -> list[str]:
    """The lines with each position of a tile where it is read: which reads share one depends on their levels."""
    lines, positions = [], dict[str, str]()
    for line in body:
        match = _POSITION.match(line)
        if match is not None:
            positions[match[1]] = match[2]
        else:
            lines.append(_VALUE.sub(lambda name: positions.get(name[0], name[0]), line) if "tile_from(" in line else line)
    return lines


def form_of(function: Function) -> Form:
    form, kinds, lines = Form(), function.kinds, list[str]()
    of_cells = {name for name, kind in kinds.items() if kind == "Array" or kind.startswith(("field_of_", "ring_of_"))}

    def place(array: str, start: str) -> str:
        return form.arrays.setdefault((array, start), f"@{len(form.arrays)}")

    def access(match: re.Match[str]) -> str:
        array, start = match.groups()
        return f"{place(array, start or '0')}[" if array in of_cells else match[0]

    def tile(match: re.Match[str]) -> str:
        array, start = match.groups()
        return f"tile_from({place(array, start or '0')}~" if array in of_cells else match[0]

    def passed(match: re.Match[str]) -> str:
        array, start = match.groups()
        return place(array, start) if array in of_cells else match[0]

    def token(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("F("):
            form.numbers.append(word)
            return "#"
        if word in kinds:
            kind = "Array" if word in of_cells else kinds[word]
            return form.names.setdefault(word, f"${len(form.names)}:{kind}")
        return values.setdefault(word, f"v{len(values)}") if _VALUE.fullmatch(word) else word

    values: dict[str, str] = {}
    for line in _in_place(function.body):
        line = _PASSED.sub(passed, line) if _CALL.match(line) else _ACCESS.sub(access, _TILE.sub(tile, line))
        lines.append(_TOKEN.sub(token, line))
    form.text = "\n".join(lines)
    return form


class Merged:
    """One function for several.

    Args:
        members: these functions, and their forms.

    Attributes:
        names: of these functions.
        function: the one.
    """

    def __init__(self, members: Sequence[tuple[Function, Form]]) -> None:
        first, form = members[0]
        self.names = [function.name for function, _ in members]
        self._members = {function.name: (function, each) for function, each in members}
        columns: list[tuple[str, ...]] = list(zip(*(each.numbers for _, each in members), strict=True))
        differ = dict.fromkeys(column for column in columns if len(set(column)) > 1)
        self._numbers = [columns.index(column) for column in differ]
        arrays = {place: f"{array}__array_{place[1:]}" for (array, _), place in form.arrays.items()}
        self._started = {place for _, each in members for (_, start), place in each.arrays.items() if start != "0"}
        starts = {place: f"{array}__start_{place[1:]}" for (array, _), place in form.arrays.items() if place in self._started}
        names = {place: name for name, place in form.names.items()}
        written = {column: f"c{number}" for number, column in enumerate(differ)}
        numbers = iter([written.get(column, column[0]) for column in columns])

        def original(match: re.Match[str]) -> str:
            place = match[0].rstrip("[~")
            if place == "#":
                return next(numbers)
            if place in names:
                return names[place]
            if place == match[0]:
                return f"{arrays[place]}, {starts.get(place, '0')}"
            array, start = arrays[place], f"{starts[place]} + " if place in starts else ""
            return f"{array}, {start}" if match[0].endswith("~") else f"{array}[{start}"

        kinds = {name: kind for place in arrays for name, kind in ((arrays[place], "Array"), (starts.get(place, ""), "ti.i32")) if name}
        kinds |= {name: place.partition(":")[2] for place, name in names.items()} | dict.fromkeys(written.values(), "F")
        self.function = Function(first.name, kinds, _PLACE.sub(original, form.text).split("\n"))

    def passed(self, name: str, arguments: Sequence[str]) -> list[str]:
        """The arguments with which it does what a member does with these."""
        function, form = self._members[name]
        known = dict(zip(function.kinds, arguments, strict=True)) | {"0": "0"}
        passed = list[str]()
        for (array, start), place in form.arrays.items():
            passed += [known[array], known.get(start, start)] if place in self._started else [known[array]]
        return [*passed, *(known[part] for part in form.names), *(form.numbers[at] for at in self._numbers)]

    def call(self, name: str, arguments: Sequence[str]) -> str:
        """The call that does what the call of a member with these arguments did."""
        return f"{self.function.name}({', '.join(self.passed(name, arguments))})"


def merged(functions: Sequence[Function], kernel: Sequence[str], worth: float = WORTH) -> tuple[list[Function], list[str]]:
    """Functions that are alike as one, and the kernel with calls of these, if that is worth it.

    Args:
        functions: each after those that it calls.
        kernel: its lines.
        worth: the share of all lines that has to be saved.
    """
    before, functions, kernel = (list(functions), list(kernel)), list(functions), list(kernel)
    for calling in (False, True):  # callers of functions that are alike may be alike
        alike: dict[str, list[tuple[Function, Form]]] = {}
        for function in functions:
            if len(function.body) >= LEAST and any(map(_CALL.match, function.body)) is calling:
                form = form_of(function)
                alike.setdefault(form.text, []).append((function, form))
        ones = {name: one for one in map(Merged, filter(lambda members: len(members) > 1, alike.values())) for name in one.names}
        out: dict[str, Function] = {}
        for function in functions:
            one = ones[function.name].function if function.name in ones else function
            out.setdefault(one.name, Function(one.name, one.kinds, [called(line, ones) for line in one.body]))
        functions, kernel = list(out.values()), [called(line, ones) for line in kernel]
    least, lines = (sum(len(function.body) for function in each) for each in (functions, before[0]))
    return (functions, kernel) if least <= (1 - worth) * lines else before


def definitions(functions: Sequence[Function], kernel: Sequence[str]) -> list[str]:
    """The lines that define the functions of a kernel.

    LLVM puts a function in the place of its only call. One with several calls reads the address of an array from its arguments at each
    access, for a store may have changed them, as far as LLVM knows. So its lines are those of another function, which it alone calls: in
    their place the addresses are values, and a loop reads no more than the cells.

    Args:
        functions: each after those that it calls.
        kernel: its lines.
    """
    calls = Counter(match[2] for line in (*kernel, *(line for each in functions for line in each.body)) if (match := _CALL.match(line)))
    lines = list[str]()
    for function in functions:
        if calls[function.name] > 1 and any(map(_LOOP.match, function.body)):
            inner = Function(f"{function.name}_lines", function.kinds, function.body)
            function = Function(function.name, function.kinds, [f"    called = {inner.name}({', '.join(function.kinds)})"])
            lines += inner.lines
        lines += function.lines
    return lines


def called(line: str, ones: Mapping[str, Merged]) -> str:
    """A line, with the function that stands for the one that it calls."""
    match = _CALL.match(line)
    if match is None or match[2] not in ones:
        return line
    return match[1] + ones[match[2]].call(match[2], _arguments(match[3]))


def paired(line: str, forms: Mapping[str, tuple[str, Function, Form]]) -> str:
    """A line that passes arguments in the order in which the function uses them, each array with its level.

    Args:
        line: of a source.
        forms: the functions that it may call: name -> another name, the function, and its form.
    """
    match = _CALL.match(line)
    if match is None or match[2] not in forms:
        return line
    name, function, form = forms[match[2]]
    known = dict(zip(function.kinds, _arguments(match[3]), strict=True)) | {"0": "0"}
    pairs = [f"{known[array]}, {known[start]}" for array, start in form.arrays]
    return f"{match[1]}{name}({', '.join([*pairs, *(known[part] for part in form.names)])})"


def _arguments(passed: str) -> list[str]:
    """The arguments of a call."""
    arguments, depth = [""], 0
    for letter in passed:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += letter
    return [argument.strip() for argument in arguments]
