"""The search of scripts/survey/fwi.toml by Deepwave and SciPy: run by scripts/bench/fwi.py, in an interpreter that has both and torch.

It has the same grid, time step, order in space, stages, filters, variables, bounds and optimiser. Its absorbing edges are Deepwave's.
"""

from __future__ import annotations

import json
import math
import sys
import time

import deepwave
import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize

PML = 20
"""Cells of its absorbing layer, as it has by default; more change its records by less than 0.1 %."""


def predicted(given, speed):
    """Records of all shots, shots x samples x receivers, at each time step."""
    outputs = deepwave.scalar(
        speed,
        given["spacing"],
        given["dt"],
        source_amplitudes=given["amplitudes"],
        source_locations=given["sources"],
        receiver_locations=given["receivers"],
        accuracy=8,
        pml_width=PML,
        pml_freq=given["frequency"],
    )
    return outputs[-1].transpose(1, 2)


def filtered(values, gain, length):
    """The zero-phase filter of the scene, along time."""
    if gain is None:
        return values
    spectrum = torch.fft.rfft(values, length, dim=1) * gain[None, :, None]
    return torch.fft.irfft(spectrum, length, dim=1)[:, : values.shape[1]]


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # its reverse sweep takes three times as long with denormal numbers
    arrays = dict(np.load(path))
    settings = json.loads(str(arrays["settings"]))
    start, free, data = arrays["start"], arrays["free"], torch.tensor(arrays["data"], dtype=torch.float32)
    edge, every = settings["edge"], settings["every"]
    inner = (slice(edge, -edge), slice(edge, -edge))  # its absorbing cells lie outside of its model
    lower, upper, scale = settings["lower"], settings["upper"], settings["scale"]
    shots = data.shape[0]
    wavelet = torch.tensor(arrays["wavelet"], dtype=torch.float32)
    points = {name: torch.tensor(arrays[name] - edge) for name in ("sources", "receivers")}
    problem = {
        "spacing": settings["spacing"],
        "dt": settings["dt"],
        "amplitudes": -wavelet.repeat(shots, 1, 1) / settings["spacing"] ** 2,
        "sources": points["sources"][:, None, :],
        "receivers": points["receivers"][None].repeat(shots, 1, 1),
        "frequency": settings["frequency"],
    }
    base = np.log((start - lower) / (upper - start))

    def field(theta, smooth):
        moved = np.zeros(start.shape)
        moved[free] = theta
        return lower + (upper - lower) / (1 + np.exp(-(base + scale * gaussian_filter(moved, smooth, mode="reflect"))))

    began, before, gradients, losses = time.perf_counter(), time.process_time(), 0, []
    now = base.copy()
    for stage in settings["stages"]:
        base, theta = now, np.zeros(int(free.sum()))
        gain, length = None, 0
        if stage["corner"]:
            length = settings["length"]
            frequencies = np.fft.rfftfreq(length, settings["dt"] * every)
            with np.errstate(over="ignore"):
                gain = torch.tensor(1 / (1 + (frequencies / stage["corner"]) ** 8), dtype=torch.float32)
        wanted = filtered(data, gain, length)
        half = 0.5 * float((wanted**2).sum())

        def objective(theta, stage=stage, wanted=wanted, gain=gain, length=length, half=half):
            nonlocal gradients
            gradients += 1
            speed = field(theta, stage["smooth"])
            inside = torch.tensor(speed[inner], dtype=torch.float32, requires_grad=True)
            residual = filtered(predicted(problem, inside)[:, ::every], gain, length) - wanted
            loss = 0.5 * (residual**2).sum() / half
            loss.backward()
            by_cell = np.zeros(start.shape)
            by_cell[inner] = inside.grad.double().numpy()
            by_cell *= (speed - lower) * (upper - speed) / (upper - lower) * scale
            print(
                f"Deepwave: gradient {gradients}, loss {loss.item():.4g}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True
            )
            return loss.item(), gaussian_filter(by_cell, stage["smooth"], mode="reflect")[free]

        result = minimize(
            objective, theta, jac=True, method="L-BFGS-B", options={"maxiter": stage["iterations"], "ftol": 1e-9, "gtol": 0.0}
        )
        losses.append(float(result.fun))
        speed = field(result.x, stage["smooth"])
        np.save(f"{path}.stage{len(losses)}.npy", speed)
        now = np.log((speed - lower) / (upper - speed))
    seconds, processor = time.perf_counter() - began, time.process_time() - before
    with torch.no_grad():
        residual = predicted(problem, torch.tensor(speed[inner], dtype=torch.float32))[:, ::every] - data
    unexplained = math.sqrt(float((residual**2).mean()) / float((data**2).mean()))
    np.save(path + ".answer.npy", speed)
    print(json.dumps({"seconds": seconds, "processor": processor, "gradients": gradients, "losses": losses, "unexplained": unexplained}))


if __name__ == "__main__":
    main()
