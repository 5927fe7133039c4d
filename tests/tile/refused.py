"""Programs of the array collection that no tile program can do, and what the error says."""

from __future__ import annotations

REFUSED: dict[str, str] = {}
