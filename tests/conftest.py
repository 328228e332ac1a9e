"""Options shared by all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-goldens", action="store_true", help="rewrite golden files and documented output")


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-goldens"))


settings.register_profile("here", deadline=None)  # a loaded machine is no defect
settings.load_profile("here")
