"""The language of kernels in tests, of the engine that DIFFSIM_ENGINE names: `from tests.language import ti`."""

from __future__ import annotations

from diffsim import engine

ti = engine.language()
