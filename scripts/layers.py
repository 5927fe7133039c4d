"""How much of a plane wave comes back from absorbing layers, by angle: CPML of several settings, and the sponge.

From the root of the repository:

    PYTHONPATH=. python scripts/layers.py

A packet of amplitude 1 runs into a layer at an angle, at ten cells a wavelength (`tests/layers/plane_waves.py`). The figure is the largest
difference of pressure to a run on a larger grid, between the layers, when the reflection is back in the middle. Long packets (1.5
wavelengths to 1/e) have nearly one wavelength and angle; short ones (0.4) many.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import diffsim as ds
from tests.layers.plane_waves import FirstOrder, Packet, SecondOrder, Sponged, final_pressure

ANGLES = (0, 30, 45, 60, 75, 80)
CASES: list[tuple[str, Callable[..., ds.Equation], dict[str, float]]] = [
    ("CPML, velocity and pressure", FirstOrder, {}),
    ("CPML, pressure alone", SecondOrder, {}),
    ("CPML, reflection=1e-6", FirstOrder, {"reflection": 1e-6}),
    ("CPML, grading=2", FirstOrder, {"grading": 2.0}),
    ("CPML, kappa=2", FirstOrder, {"kappa": 2.0}),
    ("CPML, kappa=7", FirstOrder, {"kappa": 7.0}),
    ("sponge", Sponged, {}),
    ("sponge, reflection=1e-6", Sponged, {"reflection": 1e-6}),
]


def main() -> None:
    ds.init(precision="f64")
    for length in (1.5, 0.4):
        for cells in (10, 20):
            packets = [Packet(angle, length) for angle in ANGLES]
            larger = {
                kind: [final_pressure(kind, packet, cells, beyond=packet.inner) for packet in packets] for kind in (FirstOrder, SecondOrder)
            }
            print(f"\n{cells} cells, packets of {length} wavelengths" + "".join(f"{angle:>8}°" for angle in ANGLES))
            for name, kind, settings in CASES:
                reference = larger[FirstOrder if kind is FirstOrder else SecondOrder]
                differences = [
                    np.abs(final_pressure(kind, packet, cells, **settings) - there).max()
                    for packet, there in zip(packets, reference, strict=True)
                ]
                print(f"{name:<40}" + "".join(f"{value:9.1e}" for value in differences), flush=True)


if __name__ == "__main__":
    main()
