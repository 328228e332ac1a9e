"""Who is told how far a long read has come. A command line sets `WATCHER`; libraries leave it alone."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

WATCHER: ContextVar[Callable[[int, int], None] | None] = ContextVar("WATCHER", default=None)  # done, in all
