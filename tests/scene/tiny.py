"""Scenes that run in a moment: tables as a TOML file would have them."""

from __future__ import annotations

import copy
from typing import Any

from diffsim.scene import Scene

ACOUSTIC: dict[str, Any] = {
    "name": "tiny",
    "title": "A small body of another speed",
    "seed": 3,
    "grid": {"shape": [16, 15], "spacing": 10.0, "axes": ["z", "x"], "units": ["m", "m"]},
    "time": {"dt": 2.0e-3, "steps": 24},
    "equation": {"type": "acoustic", "order": 4, "sponge": 3},
    "sources": {
        "f": {"points": [[40.0, 30.0], [100.0, 35.0]], "wavelet": {"type": "ricker", "frequency": 40.0, "delay": 0.012}, "fire": "in turn"}
    },
    "receivers": {"p": {"lines": [{"start": [25.0, 110.0], "stop": [125.0, 110.0], "count": 5}]}},
    "unknowns": {"c": {"start": {"constant": 2000.0}, "lower": 1500.0, "upper": 2600.0, "scale": 100.0}},
    "truth": {
        "refine": 1.5,
        "noise": 0.02,
        "fields": {"c": {"constant": 2000.0, "gaussians": [{"centre": [75.0, 75.0], "width": 20.0, "amplitude": 200.0}]}},
    },
    "misfit": [{"of": "traces", "state": "p"}],
    "penalty": [{"type": "tikhonov", "unknown": "c", "order": 1, "length": 20.0, "weight": 1.0e-6}],
    "optimise": {"iterations": 6},
    "accept": [{"quantity": "loss_reduction", "at_least": 1.5}, {"quantity": "correlation", "at_least": 0.1}],
}

HEAT: dict[str, Any] = {
    "name": "warm",
    "seed": 5,
    "grid": {"shape": [12, 11], "spacing": 1.0},
    "time": {"dt": 0.2, "steps": 10},
    "equation": {"type": "heat"},
    "unknowns": {
        "T": {"start": {"constant": 0.0}},
        "kappa": {
            "start": {"constant": 0.5},
            "transform": "log",
            "scale": 0.3,
            "regions": {"layers": {"axis": "x", "tops": [5.0], "values": [0.0, 1.0]}},
        },
    },
    "truth": {
        "refine": 1.5,
        "noise": 0.01,
        "fields": {
            "T": {"gaussians": [{"centre": [5.0, 5.0], "width": 2.0, "amplitude": 3.0}]},
            "kappa": {"layers": {"axis": "x", "tops": [5.0], "values": [0.4, 0.7]}},
        },
    },
    "misfit": [{"of": "final", "state": "T"}],
    "penalty": [{"type": "total_variation", "unknown": "T", "weight": 1.0e-3, "epsilon": 0.1}],
    "optimise": {"iterations": 8},
    "accept": [{"quantity": "loss_reduction", "at_least": 5.0}],
}

WAVE: dict[str, Any] = {
    "name": "swell",
    "seed": 9,
    "grid": {"shape": [14, 16], "spacing": [500.0], "axes": ["y", "x"]},
    "time": {"dt": 2.5, "duration": 60.0},
    "equation": {"type": "long_wave", "sponge": 3},
    "fields": {"H": {"constant": 1000.0, "boxes": [{"lower": [0.0, 6900.0], "upper": [6500.0, 7500.0], "amplitude": -1000.0}]}},
    "receivers": {"eta": {"points": [[1500.0, 5000.0], [3200.0, 5100.0], [5000.0, 3000.0]]}},
    "unknowns": {"eta0": {"start": {"constant": 0.0}, "mask": {"field": "H", "above": 500.0, "margin": 2}, "smooth": 1.0}},
    "truth": {
        "refine": 1.5,
        "noise": 0.02,
        "fields": {"eta0": {"gaussians": [{"centre": [3000.0, 3500.0], "width": 800.0, "amplitude": 1.0}]}},
    },
    "misfit": [{"of": "traces", "state": "eta"}],
    "optimise": {"iterations": 5},
}

DRIVEN: dict[str, Any] = {
    "name": "driven",
    "seed": 13,
    "grid": {"shape": [6, 7], "spacing": [0.8, 1.0], "axes": ["y", "x"]},
    "time": {"dt": 0.2, "steps": 14},
    "equation": {
        "type": "heat",
        "boundary": {
            "y": {"type": "dirichlet", "value": "edge", "varies": ["x"]},
            "x": [
                {"type": "neumann", "flux": "lamp"},
                {"type": "robin", "a": 1.0, "b": 0.5, "value": "air", "varies": ["time", "y"]},
            ],
        },
    },
    "fields": {"kappa": {"constant": 0.5}},
    "receivers": {"T": {"points": [[0.8, 1.0], [1.6, 5.0], [3.2, 3.0]]}},
    "unknowns": {
        "lamp": {"start": {"constant": 0.5}, "smooth": 1.5, "scale": 2.0},
        "edge": {"start": {"constant": 1.0}, "lower": -4.0, "upper": 4.0},
        "air": {"start": {"constant": 1.0}, "transform": "log", "mask": {"lower": [0.4, 0.0], "upper": [3.0, 3.0]}},
    },
    "truth": {
        "refine": 1.5,
        "noise": 0.01,
        "fields": {
            "lamp": {"wavelet": {"type": "pulse", "delay": 1.2, "width": 0.5, "amplitude": 3.0}},
            "edge": {"gaussians": [{"centre": [3.0], "width": 1.0, "amplitude": 2.0}]},
            "air": {"layers": {"axis": "time", "tops": [1.0], "values": [1.0, 2.0]}},
        },
    },
    "misfit": [{"of": "traces", "state": "T"}],
    "penalty": [
        {"type": "tikhonov", "unknown": "lamp", "order": 1, "length": 0.4, "weight": 1.0e-4},
        {"type": "total_variation", "unknown": "air", "length": [0.4, 2.0], "weight": 1.0e-4, "epsilon": 0.1},
    ],
    "optimise": {"iterations": 8},
    "accept": [{"quantity": "loss_reduction", "at_least": 5.0}, {"quantity": "correlation", "of": "lamp", "at_least": 0.1}],
}


def tables(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with values at dotted keys (written with __) replaced; None removes one."""
    out = copy.deepcopy(base)
    for key, value in changes.items():
        *path, last = key.split("__")
        place = out
        for name in path:
            place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
        if value is None:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return out


def scene(base: dict[str, Any], **changes: Any) -> Scene:
    return Scene(**tables(base, **changes))


def as_toml(data: dict[str, Any]) -> str:
    """Tables as TOML, by inline tables alone: independent of the writer under test, and bad ones get through."""

    def value(v: Any) -> str:
        if isinstance(v, dict):
            return "{" + ", ".join(f"{k} = {value(x)}" for k, x in v.items()) + "}"
        if isinstance(v, list):
            return "[" + ", ".join(map(value, v)) + "]"
        return f'"{v}"' if isinstance(v, str) else str(v).lower() if isinstance(v, bool) else repr(v)

    return "\n".join(f"{k} = {value(v)}" for k, v in data.items())
