# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.13.0+cpu", "deepwave==0.1.0", "numpy==2.4.6"]
# [tool.diffsim-bench]
# title = "PyTorch, Deepwave"
# index = "https://download.pytorch.org/whl/cpu"
# notes = """
# Acoustic and elastic waves by Deepwave (its compiled propagators, no absorbing layer), the rest by PyTorch's operations. With 20 \
# slots: 20 equal segments, by Deepwave's `checkpoint_segments` and `torch.utils.checkpoint`. One more step than the others: a trace \
# is read at the start of Deepwave's step."""
# ///
"""PyTorch: Deepwave's propagators for waves, eager operations for the rest. Denormal numbers are flushed, as diffsim does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import deepwave
import numpy as np
import torch
from exchange import Problem, Results, serve
from torch.utils.checkpoint import checkpoint

COURANT = 0.7
"""Above that of the rows, so that Deepwave takes the time step of the others; by default it halves a step beyond 0.6."""


def acoustic(problem: Problem) -> Callable[[], Results]:
    started(problem)
    warnings.filterwarnings("ignore", category=deepwave.ZeroWidthFaceWarning)  # edges that reflect are meant
    settings = problem.settings
    amplitudes = np.append(problem["wavelet"], np.float32(0)) / np.float32(-(settings["dx"] ** 2))  # a last step, to be recorded
    amplitudes = torch.tensor(amplitudes)[None, None]
    sources, receivers = torch.tensor(problem["source"])[None], torch.tensor(problem["receivers"])[None]

    def propagated(speed: Any) -> Any:
        return deepwave.scalar(
            speed,
            settings["dx"],
            settings["dt"],
            source_amplitudes=amplitudes,
            source_locations=sources,
            receiver_locations=receivers,
            accuracy=settings["order"],
            pml_width=0,
            pml_freq=settings["frequency"],
            courant_number=COURANT,
            checkpoint_segments=problem.slots or None,
        )

    def forward() -> Results:
        with torch.no_grad():
            outputs = propagated(torch.tensor(problem["speed"]))
        return {"pressure": outputs[1][0].numpy(), "traces": outputs[-1][0].T.numpy()}  # the pressure before the last step

    def gradient() -> Results:
        speed = torch.tensor(problem["speed"], requires_grad=True)
        (0.5 * (propagated(speed)[-1] ** 2).sum()).backward()
        return {"gradient": speed.grad.numpy()}

    return gradient if problem.gradient else forward


def elastic(problem: Problem) -> Callable[[], Results]:
    """A force acts on the velocity of Deepwave's next step. Receivers lie apart from the source, so records do not tell the difference."""
    started(problem)
    warnings.filterwarnings("ignore", category=deepwave.ZeroWidthFaceWarning)
    settings, names = problem.settings, ("vp", "vs", "rho")
    amplitudes = torch.tensor(np.append(np.float32(0), problem["wavelet"]) / np.float32(settings["dx"] ** 2))[None, None]
    sources, receivers = torch.tensor(problem["source"])[None], torch.tensor(problem["receivers"])[None]

    def propagated(vp: Any, vs: Any, rho: Any) -> Any:
        return deepwave.elastic(
            rho * (vp**2 - 2 * vs**2),
            rho * vs**2,
            1 / rho,
            settings["dx"],
            settings["dt"],
            source_amplitudes_y=amplitudes,
            source_locations_y=sources,
            receiver_locations_y=receivers,
            accuracy=settings["order"],
            pml_width=0,
            pml_freq=settings["frequency"],
            checkpoint_segments=problem.slots or None,
        ).receiver_amplitudes_y

    def forward() -> Results:
        with torch.no_grad():
            return {"traces": propagated(*(torch.tensor(problem[name]) for name in names))[0].T.numpy()}

    def gradient() -> Results:
        medium = [torch.tensor(problem[name], requires_grad=True) for name in names]
        (0.5 * (propagated(*medium) ** 2).sum()).backward()
        return {name: values.grad.numpy() for name, values in zip(names, medium, strict=True)}

    return gradient if problem.gradient else forward


def diffusion(problem: Problem) -> Callable[[], Results]:
    started(problem)
    scale = problem.settings["dt"] / problem.settings["dx"] ** 2
    initial, steps = torch.tensor(problem["initial"]), problem.steps

    def advanced(T: Any, kx: Any, ky: Any, first: int, last: int) -> Any:
        for _ in range(first, last):
            x = torch.nn.functional.pad(kx * (T[1:] - T[:-1]), (0, 0, 1, 1))
            y = torch.nn.functional.pad(ky * (T[:, 1:] - T[:, :-1]), (1, 1))
            T = T + (x[1:] - x[:-1]) + (y[:, 1:] - y[:, :-1])
        return T

    def faces(kappa: Any) -> tuple[Any, Any]:
        return 0.5 * scale * (kappa[1:] + kappa[:-1]), 0.5 * scale * (kappa[:, 1:] + kappa[:, :-1])

    def forward() -> Results:
        with torch.no_grad():
            return {"temperature": advanced(initial, *faces(torch.tensor(problem["kappa"])), 0, steps).numpy()}

    def gradient() -> Results:
        kappa = torch.tensor(problem["kappa"], requires_grad=True)
        kx, ky = faces(kappa)
        T = initial
        for first, last in problem.segments() if problem.slots else []:
            T = checkpoint(advanced, T, kx, ky, first, last, use_reentrant=False)
        if not problem.slots:
            T = advanced(T, kx, ky, 0, steps)
        (0.5 * (T**2).sum()).backward()
        return {"gradient": kappa.grad.numpy()}

    return gradient if problem.gradient else forward


def product(problem: Problem) -> Callable[[], Results]:
    started(problem)

    def gradient() -> Results:
        x = torch.tensor(problem["x"], requires_grad=True)
        value = (torch.cumprod(x, 0) * x).sum()
        value.backward()
        return {"value": value.detach().numpy(), "gradient": x.grad.numpy()}

    return gradient


def started(problem: Problem) -> None:
    torch.set_num_threads(problem.threads)
    torch.set_flush_denormal(True)


if __name__ == "__main__":
    serve({"acoustic": acoustic, "diffusion": diffusion, "elastic": elastic, "product": product})
