"""Where the evidence lies: `../shared`, beside the checkout. Tests that need it are skipped where it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not here")
