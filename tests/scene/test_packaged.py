"""Every packaged scene, made smaller, runs through the command, and its numbers are those that were stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from diffsim.command import cli
from diffsim.plot import style
from diffsim.scene import Outcome, scene_files
from tests.sampled import sampled

STORED = 1e-6
"""Relative error of a stored number: rounding errors of f64 are far below, a changed constant, weight or seed far above."""


class Small(NamedTuple):
    """A packaged scene in small.

    Attributes:
        changes: of the scene, as `--set` takes them. The physics stays as it is.
        loss, slope: value and largest entry of the gradient at the start. Where that predicts nothing, the loss is 1 by its normalisation.
        later: each part of the loss at the answer, which for a density is binary.
    """

    changes: Sequence[str]
    loss: float
    slope: float
    later: Sequence[float]


SMALL = {
    "tsunami": Small(
        [
            "grid.shape=[91, 120]",
            "time.dt=13.0",
            "time.duration=2600.0",
            "equation.sponge=5",
            "unknowns.eta0.smooth=1.0",
            "unknowns.eta0.mask.margin=5",
        ],
        1.0,
        0.01124271219991481,
        (0.01826365075655599, 1.5259074810652174e-05),
    ),
    "acoustic_crosswell": Small(
        [
            "grid.shape=[61, 51]",
            "grid.spacing=10.0",
            "time.dt=1.6e-3",
            "time.steps=150",
            "equation.sponge=10",
            "sources.f.lines.0.count=3",
            "receivers.p.lines.0.count=10",
            "unknowns.c.smooth=1.0",
        ],
        0.18188372983621717,
        0.0007698660985959697,
        (0.008105656965483076, 0.00019644481071701635),
    ),
    "elastic_crosswell": Small(
        [
            "grid.shape=[36, 31]",
            "grid.spacing=8.0",
            "time.dt=1.2e-3",
            "time.steps=210",
            "equation.layer=6",
            "sources.fx.lines.0.count=2",
            "sources.fx.wavelet.frequency=15.0",
            "receivers.vx.lines.0.count=6",
            "receivers.vy.lines.0.count=6",
            "unknowns.vp.smooth=1.0",
            "unknowns.vs.smooth=1.0",
            "unknowns.rho.smooth=1.0",
        ],
        0.02850530253420283,
        0.0010885970696124896,
        (0.005445721136759851, 0.00419678401090599, 2.9602107818329545e-06, 7.454414131471844e-06, 1.065887543115621e-06),
    ),
    "earthquake": Small(
        [
            "grid.shape=[14, 16, 16]",
            "grid.spacing=500.0",
            "grid.origin=[-750.0, -3750.0, -3750.0]",
            "time.dt=0.036",
            "time.steps=50",
            "equation.layer=[[0, 3], 3, 3]",
            *(f"unknowns.{name}.smooth=1.0" for name in ("szz", "syy", "sxx", "syz", "sxz", "sxy")),
        ],
        3.0,
        0.04759886440315014,
        (0.2963192220602101, 0.4033333851534397, 0.3855254117630508),
    ),
    "metal_film": Small(
        [
            "grid.shape=[33, 50]",
            "grid.spacing=0.1",
            "grid.origin=[0.05, 0.05]",
            "time.dt=0.062",
            "time.steps=100",
            "equation.layer=5",
            "sources.Jz.lines.0.count=2",
        ],
        0.036029813549306906,
        0.001333573405357143,
        (0.014101296279218902,),
    ),
    "waveguide_bend": Small(
        [
            "grid.shape=[44, 44]",
            "grid.spacing=0.125",
            "grid.origin=[0.0625, 0.0625]",
            "time.dt=0.085",
            "time.steps=380",
            "equation.layer=5",
            "unknowns.eps.radius=1.2",
            "stage=[]",
        ],
        0.9976867192435724,
        0.0035295767351066947,
        (0.38827601552251256,),
    ),
    "microwave_wall": Small(
        [
            "grid.shape=[42, 39]",
            "grid.spacing=0.02",
            "time.dt=1.3e-2",
            "time.steps=120",
            "equation.layer=6",
            "sources.Jz.lines.0.count=3",
            "receivers.Ez.lines.0.count=8",
            "unknowns.eps.smooth=2.0",
        ],
        0.6032214367957206,
        0.0033716498298132776,
        (0.09559944898799658, 1.448236935966223e-07),
    ),
    "acoustic_salt": Small(
        [
            "grid.shape=[31, 71]",
            "grid.spacing=50.0",
            "time.dt=6.0e-3",
            "time.steps=150",
            "equation.order=4",
            "equation.layer=[[0, 5], 5]",
            "sources.f.lines.0.count=3",
            "receivers.p.lines.0.count=10",
            "unknowns.c.smooth=1.0",
            "stage=[]",
        ],
        0.12643810549629347,
        0.0003840563913791753,
        (0.051614374280411685,),
    ),
    "heat_mri": Small(
        ["grid.shape=[64, 64]", "grid.spacing=4.0e-3", "time.dt=12.0"],
        1.0,
        0.0068219802299491214,
        (0.0428848539245519, 1.0754038941874558e-07),
    ),
    "pattern": Small(
        [
            "grid.shape=[32, 32]",
            "grid.spacing=2.0",
            "grid.origin=[1.0, 1.0]",
            "unknowns.F.smooth=2.0",
            "unknowns.k.smooth=2.0",
            "time.steps=100",
        ],
        0.43179316669178713,
        0.00519534910486372,
        (0.05085693883138673, 0.11642072638556983),
    ),
    "heat_inclusion": Small(
        ["grid.shape=[20, 20]", "grid.spacing=5.0e-3", "grid.origin=[2.5e-3, 2.5e-3]", "time.dt=40.0", "time.steps=24"],
        0.0011934856858128084,
        7.260560254372658e-06,
        (0.00044689433436301404, 6.409555222080972e-08),
    ),
    "tracer_river": Small(
        ["grid.shape=[16, 32]", "grid.spacing=2.0", "time.dt=0.8", "time.steps=40", "unknowns.u.smooth=0.5"],
        1.0,
        0.17373820788000766,
        (0.024360944739231404, 7.212918091137179e-06),
    ),
    "smoke": Small(
        [
            "grid.shape=[20, 20]",
            "grid.spacing=0.05",
            "grid.origin=[0.025, 0.025]",
            "time.dt=0.1",
            "time.steps=20",
            "unknowns.u.smooth=1.0",
            "unknowns.v.smooth=1.0",
        ],
        0.5856757817126619,
        0.004323307933487649,
        (0.20982090006520804, 7.06257922836305e-07, 9.961426748573336e-07),
    ),
    "runup_bay": Small(
        [
            "grid.shape=[20, 26]",
            "grid.spacing=[0.0225, 0.03]",
            "time.dt=8.0",
            "equation.sponge=2",
            "unknowns.eta.mask.margin=2",
            "unknowns.eta.smooth=1.0",
        ],
        1.0,
        0.03454118143454074,
        (0.048772515259559605, 0.00013875324496509544),
    ),
    "dam_break_valley": Small(
        ["grid.shape=[8, 40]", "grid.spacing=50.0", "grid.origin=[25.0, 25.0]", "time.dt=0.6"],
        0.007488743382191979,
        0.008029593598766975,
        (0.00111510717300522,),
    ),
    "double_gyre": Small(
        [
            "grid.shape=[15, 15]",
            "grid.spacing=6.0e4",
            "grid.origin=[6.0e4, 6.0e4]",
            "time.dt=43200.0",
            "time.steps=12",
            "unknowns.psi.smooth=1.0",
        ],
        0.3843169291882013,
        0.012754592035998751,
        (0.007631719797557223, 0.006107166117224099, 1.7060318895326455e-05),
    ),
    "body_drag": Small(
        [
            "grid.shape=[16, 28]",
            "grid.spacing=0.0625",
            "grid.origin=[0.03125, 0.03125]",
            "time.dt=0.02",
            "time.steps=40",
            "minimise.0.window=[0.6, 0.8]",
        ],
        2.6243922453018462,
        0.41235489646665563,
        (2.0637270404514476,),
    ),
    "tsunami_nonlinear": Small(
        [
            "grid.shape=[46, 60]",
            "time.dt=9.0",
            "time.duration=1800.0",
            "equation.sponge=3",
            "unknowns.eta.smooth=0.5",
            "unknowns.eta.mask.margin=3",
        ],
        1.0,
        0.04048315468917344,
        (0.05089546117096012, 1.1575025615328723e-05),
    ),
    "lorenz96_windows": Small(
        ["grid.shape=[10]", "time.windows=6", "receivers.x.lines=[{start = [0.0], stop = [9.0], count = 10}]", "stage=[]"],
        4381.281526215251,
        55.91515066463256,
        (459.607105808101, 6.456519576325135),
    ),
}


def test_every_packaged_scene_is_tried() -> None:
    assert set(SMALL) == set(scene_files())


GATE = ("heat_mri",)
"""The others compile for longer than they run. The gate also runs the whole tsunami, from a wheel."""


@pytest.mark.parametrize("name", sampled(SMALL, gate=GATE))
def test_a_packaged_scene_in_small(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "DPI", 30)
    small = SMALL[name]
    changes = [*small.changes, "optimise.iterations=3", "accept=[]"]
    sets = [word for change in changes for word in ("--set", change)]
    assert cli.main(["run", name, *sets, "--arch", "cpu", "--precision", "f64", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    outcome = Outcome.load(tmp_path / "out")
    history, parts = outcome.history, [last for _, last in outcome.loss_parts.values()]
    assert [row.iteration for row in history] == [0, 1, 2, 3]
    losses = [row.loss for row in history]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
    assert (losses[0], history[0].gradient_norm) == pytest.approx((small.loss, small.slope), rel=STORED)
    assert parts == pytest.approx(small.later, rel=STORED)
