"""The taichi module: imported on first use, without its banner, and with faster translation of diffsim's sources."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from diffsim.engine import translation

GENERATED = "<diffsim generated "
"""Prefix of the file names of generated sources."""
UNREAD = (GENERATED, str(Path(__file__).parents[1]) + os.sep)
"""Prefixes of the file names of sources that users do not debug. Taichi walks a function of this package at each call of it."""


@functools.cache
def taichi() -> Any:
    """The taichi module, imported without its banner."""
    if "taichi" not in sys.modules:  # once it is imported, the variable only makes `init` print that it has no effect
        os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
        os.environ.setdefault("TI_LOG_LEVEL", "error")
    import taichi
    from taichi.lang.ast.ast_transformer_utils import ASTTransformerContext

    texts = ASTTransformerContext.get_pos_info

    def positions(context: Any, node: Any) -> str:
        """The place of a node in the source, for errors. Taichi wraps a text for every node, which takes half of Python's time for a
        kernel."""
        return "" if str(context.file).startswith(UNREAD) else texts(context, node)

    ASTTransformerContext.get_pos_info = positions
    translation.install()
    return taichi
