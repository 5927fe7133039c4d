"""A report of every kind of outcome, written once for all tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from diffsim.plot import style
from diffsim.report import write_report
from diffsim.scene.disk.outcome import Outcome
from tests.sampled import sampled

from .outcomes import KINDS

IN_GATE = [kind for kind in KINDS if kind.__name__ in ("line", "driven", "design", "crosswell")]
"""Kinds with one axis and several, a truth or none, and each verdict. To draw the figures of a kind takes five seconds."""

COARSE = 60
"""Dots an inch: enough to tell a blank figure."""


@dataclass(frozen=True)
class Written:
    kind: str
    outcome: Outcome
    page: Path

    @property
    def folder(self) -> Path:
        return self.page.parent

    @property
    def html(self) -> str:
        return self.page.read_text(encoding="utf-8")


@pytest.fixture(scope="session", params=sampled(KINDS, gate=IN_GATE), ids=lambda make: make.__name__)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    outcome = request.param()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", COARSE)
        page = write_report(outcome, tmp_path_factory.mktemp("report") / "new" / request.param.__name__)
    return Written(request.param.__name__, outcome, page)
