"""Which engine runs kernels: Taichi, or Quadrants."""

from __future__ import annotations

import functools
import os
from typing import Any

from diffsim.base.messages import shown
from diffsim.engine.interface import Engine
from diffsim.engine.quadrants_engine import QuadrantsEngine
from diffsim.engine.taichi_engine import TaichiEngine
from diffsim.errors import BackendError

ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in (TaichiEngine, QuadrantsEngine)}
"""The engines by name."""
FIRST_LLVM_OF_ZEN_4 = 16
"""AMD's first processors with AVX-512 are newer than LLVM 15, which takes them for their predecessor, and uses AVX2."""
_present: Engine | None = None


def name_of(engine: str) -> str:
    """The name of an engine, where "auto" is that of the environment's DIFFSIM_ENGINE, else "taichi".

    Raises:
        BackendError: there is no such engine.
    """
    if isinstance(engine, str) and engine == "auto":
        engine = os.environ.get("DIFFSIM_ENGINE", TaichiEngine.name)
    if not isinstance(engine, str) or engine not in ENGINES:
        raise BackendError(f"engine = {shown(engine)} is unknown; choose one of {', '.join(ENGINES)} or auto")
    return engine


@functools.cache
def load(name: str) -> Engine:
    """The engine of this name.

    Raises:
        MissingPackageError: its package is not installed.
    """
    return ENGINES[name]()


def use(engine: Engine) -> None:
    """Make it the present one."""
    global _present
    _present = engine


def present() -> Engine:
    """The engine that runs, or that the first use would start."""
    return _present or load(name_of("auto"))


def chosen() -> str:
    """The name of the present engine, which need not be imported yet."""
    return _present.name if _present is not None else name_of("auto")


def language() -> Any:
    """The present engine's package: `ti` in kernels."""
    return present().language


def other_engine(module: str) -> str | None:
    """The name of the engine that a module, by its name, belongs to, unless it is the present one."""
    name = module.partition(".")[0]
    return name if name in ENGINES and name != chosen() else None
