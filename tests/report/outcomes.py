"""Small outcomes of every kind that a report must cope with. Nothing is computed: the fields are bumps, the traces wavelets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.scene.disk.outcome import Axis, Compared, Divided, Line, Memory, Outcome, Progress, Snapshots, Taken, UnknownField

TITLE = 'Uplift <script>alert("$1")</script> & co'
HISTORY = tuple(Progress(k, k + 1, 2.0 * 0.5**k, 0.1 * 0.7**k, 0.25 * k) for k in range(8))
ACCEPTED = (Line("loss reduction", 128.0, "at least 100", True), Line("correlation of m", 0.9512, "at least 0.9", True, "a note"))
CERTIFICATE = (
    Line("dot product, m", 3.21e-15, "at most 1e-12", True),
    Line("Taylor with gradient, random 1", float("nan"), "1.9 to 2.1", True, "linear"),
    Line("Taylor with gradient, m at the edge", float("nan"), "", None, "a kink at this point", needed=False),
)


def rng(*key: int) -> np.random.Generator:
    return np.random.default_rng([9, *key])


def bump(shape: tuple[int, ...], at: float = 0.5, width: float = 0.15) -> np.ndarray:
    places = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    return np.exp(-sum((x - at) ** 2 for x in places) / width**2)


def unknown_of(shape: tuple[int, ...], base: float, height: float, unit: str, mask: np.ndarray | None = None) -> UnknownField:
    start = np.full(shape, base)
    noise = rng(*shape).standard_normal(shape)
    return UnknownField(
        start, start + 0.9 * height * bump(shape, 0.52), -bump(shape) + 0.1 * noise, 0.01 * noise, start + height * bump(shape), mask, unit
    )


def recorded(shots: int, times: np.ndarray, receivers: int, amplitude: float, unit: str) -> Compared:
    delay = times[-1] * (0.3 + 0.4 * np.arange(receivers) / receivers)
    wave = amplitude * np.exp(-(((times[:, None] - delay) / (0.05 * times[-1])) ** 2)) * np.ones((shots, 1, 1))
    noise = 0.02 * amplitude
    return Compared(wave + noise * rng(shots).standard_normal(wave.shape), 0 * wave, 0.95 * wave, noise, unit)


def seen(shape: tuple[int, ...], times: np.ndarray, unit: str, block: int = 1, plane: tuple[int, int] | None = None) -> Snapshots:
    """A bump that moves, of both signs, twice as high at the answer; each block of cells has one value."""
    blocks = tuple(-(-n // block) for n in shape)
    film = np.stack([bump(blocks, at) - bump(blocks, at - 0.2) for at in np.linspace(0.2, 0.8, len(times))])
    return Snapshots(times, 0.5 * film, film, block, unit, plane)


def outcome(axes: tuple[Axis, ...], unknowns: dict[str, UnknownField], times: np.ndarray, **more: Any) -> Outcome:
    parts: dict[str, Any] = {
        "name": "small",
        "title": TITLE,
        "summary": "What was it?",
        "equation": "long_wave",
        "axes": axes,
        "background": {},
        "background_units": {},
        "sources": {},
        "receivers": {},
        "times": times,
        "traces": {},
        "finals": {},
        "unknowns": unknowns,
        "loss_parts": {"traces of eta": (2.0, 0.0150), "tikhonov of m": (0.0, 0.000625)},
        "history": HISTORY,
        "stopped": "the loss hardly falls any more",
        "accepted": ACCEPTED,
        "certificate": CERTIFICATE,
        "schedule": "Binomial(steps=240, slots=7)",
        "gradient": Taken(4.2, 4.0, 9.5, 198_000_000, 200_000_000),
        "divided": Divided((2, 3), 1, 0.125, 36, 0.2, 1.0),
        "memory": Memory(182_400_000, 183_100_000, 1_612_000_000),
        "versions": {"diffsim": "0.1.0", "taichi": "1.7.4"},
        "machine": {"arch": "x64", "precision": "f32", "threads": 2, "lanes": 16, "cores": 2},
        "seed": 20260,
        "seconds": {"data": 1.5, "optimise": 75.0},
        "settings": {"grid": {"shape": [24, 30]}, "misfit": [{"of": "traces", "weight": 1.5}], "note": "<b>bold</b>"},
    }
    return Outcome(**{**parts, **more})


def coast() -> Outcome:
    """2-D, degrees, land, a mask, many receivers: like a tsunami."""
    shape = (24, 30)
    depth = np.linspace(-300, 900, shape[1]) * np.ones(shape)
    depth = np.maximum(depth, 0)
    mask = depth > 200
    mask[:3] = False
    axes = (Axis("latitude", "degrees north", np.linspace(48, 50, 24)), Axis("longitude", "degrees east", np.linspace(234, 238, 30)))
    places = np.stack([rng(1).uniform(48.2, 49.8, 14), rng(2).uniform(236, 237.8, 14)], axis=1)
    times = np.arange(241) * 30.0
    return outcome(
        axes,
        {"eta0": unknown_of(shape, 0.0, 1.5, "m", mask)},
        times,
        background={"H": depth},
        background_units={"H": "m"},
        receivers={"eta": places},
        traces={"eta": recorded(1, times, 14, 0.02, "m")},
        snapshots={"eta": seen(shape, times[60::60], "m", block=7)},
    )


def crosswell() -> Outcome:
    """2-D, metres, tall, shots, few receivers, no certificate, one acceptance line failed."""
    shape = (30, 15)
    axes = (Axis("z", "m", 20.0 * np.arange(30)), Axis("x", "m", 20.0 * np.arange(15)))
    times = np.arange(201) * 1e-3
    return outcome(
        axes,
        {"c": unknown_of(shape, 2000.0, -300.0, "m/s")},
        times,
        equation="acoustic",
        sources={"f": np.array([[100.0, 20.0], [300.0, 20.0], [500.0, 20.0]])},
        receivers={"p": np.array([[100.0, 260.0], [300.0, 260.0], [500.0, 260.0]])},
        traces={"p": recorded(3, times, 3, 2e-5, "Pa")},
        snapshots={"p": seen(shape, times[50::50], "Pa")},
        accepted=(ACCEPTED[0], replace(ACCEPTED[1], value=0.4321, passed=False)),
        certificate=(),
    )


def image() -> Outcome:
    """2-D, final fields only, two unknowns, no receivers, no settings."""
    shape = (20, 26)
    axes = (Axis("row", "m", 1e-3 * np.arange(20)), Axis("x", "m", 1e-3 * np.arange(26)))
    late = 8 * bump(shape, width=0.3)
    pair = Compared((late + 0.1 * rng(3).standard_normal(shape))[None], 0 * late[None], 0.97 * late[None], 0.1, "K")
    mask = bump(shape, width=0.5) > 0.2
    unknowns = {"T": unknown_of(shape, 0.0, 12.0, "K", mask), "kappa": unknown_of(shape, 1e-7, 5e-8, "m²/s", mask)}
    return outcome(axes, unknowns, np.arange(101) * 0.5, equation="heat", finals={"T": pair}, settings={})


def line() -> Outcome:
    """1-D, one source and one receiver, a final field too; nothing to accept."""
    axes = (Axis("x", "m", 50.0 * np.arange(400)),)
    times = np.arange(101) * 0.2
    final = Compared(bump((400,))[None], 0 * bump((400,))[None], 0.9 * bump((400,))[None], 0.0, "m")
    return outcome(
        axes,
        {"eta0": unknown_of((400,), 0.0, 1.0, "m", np.arange(400) > 50)},
        times,
        background={"H": np.full(400, 100.0)},
        background_units={"H": "m"},
        sources={"f": np.array([[4000.0]])},
        receivers={"eta": np.array([[9000.0]])},
        traces={"eta": recorded(1, times, 1, 0.5, "m")},
        finals={"eta": final},
        snapshots={"eta": seen((400,), times[40::30], "m", block=3)},
        accepted=(),
        title="",
        history=HISTORY[:1],
    )


def block() -> Outcome:
    """3-D."""
    shape = (8, 10, 12)
    axes = tuple(Axis(name, "m", 10.0 * np.arange(n)) for name, n in zip("zyx", shape, strict=True))
    times = np.arange(51) * 1e-4
    return outcome(
        axes,
        {"c": unknown_of(shape, 1500.0, 200.0, "m/s")},
        times,
        equation="acoustic",
        sources={"f": np.array([[30.0, 20.0, 20.0]])},
        receivers={"p": np.array([[30.0, 70.0, 90.0], [50.0, 20.0, 90.0]])},
        traces={"p": recorded(1, times, 2, 1.0, "Pa")},
        snapshots={"p": seen((8, 12), times[25::25], "Pa", plane=(1, 4))},
    )


def driven() -> Outcome:
    """2-D, and unknowns over time, over time and a side, along a side, and a number; no field at all is unknown or known."""
    axes = (Axis("y", "m", 0.1 * np.arange(6)), Axis("x", "m", 0.1 * np.arange(7)))
    times = np.arange(41) * 0.05
    time, side = Axis("time", "s", times[:-1]), axes[0]
    late = np.ones(40, bool)
    late[:5] = False
    unknowns = {
        "lamp": replace(unknown_of((40,), 1.0, 3.0, "K/m", late), axes=(time,)),
        "air": replace(unknown_of((40, 6), 0.0, 2.0, "K", None), axes=(time, side)),
        "edge": replace(unknown_of((6,), 0.0, 2.0, "K", None), axes=(side,)),
        "held": replace(
            unknown_of((1,), 0.0, 2.0, ""), answer=np.array([1.9]), truth=np.array([2.0]), axes=(Axis("number", "", np.zeros(1)),)
        ),
    }
    return outcome(
        axes, unknowns, times, equation="own", receivers={"T": np.array([[0.2, 0.3]])}, traces={"T": recorded(1, times, 1, 2.0, "K")}
    )


def design() -> Outcome:
    """2-D, without data: a mode is sent, and measured by two monitors."""
    shape = (14, 16)
    axes = tuple(Axis(name, "µm", 0.1 * np.arange(n)) for name, n in zip("yx", shape, strict=True))
    times = np.arange(31) * 0.05
    mask = np.zeros(shape, bool)
    mask[4:10, 5:11] = True
    binary = np.where(bump(shape) > 0.5, 4.0, 1.0)
    return outcome(
        axes,
        {"eps": replace(unknown_of(shape, 1.0, 3.0, "1", mask), answer=binary, truth=None)},
        times,
        equation="maxwell",
        lines={"mode of Jz": np.array([[0.0, 0.2], [1.3, 0.2]]), "monitor out": np.array([[1.2, 0.0], [1.2, 1.5]])},
        measured={"transmission of out over sent, frequency 1": (0.0125, 0.9321)},
        loss_parts={"1 - transmission of out over sent": (0.9875, 0.0679)},
        snapshots={"Ez": seen(shape, times[10::10], "1")},
    )


def bodies() -> Outcome:
    """2-D: two unknowns whose truths are bumps at different places."""
    shape = (20, 24)
    axes = tuple(Axis(name, "m", 5.0 * np.arange(n)) for name, n in zip("zx", shape, strict=True))
    start, high, low = np.zeros(shape), bump(shape, 0.3, 0.1), bump(shape, 0.7, 0.1)
    unknowns = {
        "vp": UnknownField(start, 2 * high + low, -high, 0 * high, high, None, "m/s"),
        "vs": UnknownField(start, -low, -low, 0 * low, low, None, "m/s"),
    }
    return outcome(axes, unknowns, np.arange(3.0), equation="elastic")


KINDS: tuple[Callable[[], Outcome], ...] = (coast, crosswell, image, line, block, driven, design, bodies)
FIGURES = {
    "coast": {
        "setting",
        "snapshots_eta",
        "unknown_eta0",
        "gradient_eta0",
        "traces_eta",
        "gather_eta",
        "residuals_eta",
        "spectrum_eta",
        "loss",
    },
    "crosswell": {"setting", "snapshots_p", "unknown_c", "gradient_c", "traces_p", "residuals_p", "spectrum_p", "loss"},
    "image": {"setting", "unknown_T", "unknown_kappa", "gradient_T", "gradient_kappa", "final_T", "loss"},
    "line": {"setting", "snapshots_eta", "unknown_eta0", "gradient_eta0", "traces_eta", "spectrum_eta", "final_eta", "loss"},
    "block": {"setting", "snapshots_p", "unknown_c", "gradient_c", "traces_p", "residuals_p", "spectrum_p", "loss"},
    "design": {"setting", "snapshots_Ez", "unknown_eps", "gradient_eps", "loss"},
    "bodies": {"setting", "unknown_vp", "unknown_vs", "crosstalk", "gradient_vp", "gradient_vs", "loss"},
    "driven": {f"{kind}_{name}" for kind in ("unknown", "gradient") for name in ("lamp", "air", "edge", "held")}
    | {"setting", "traces_T", "spectrum_T", "loss"},
}
