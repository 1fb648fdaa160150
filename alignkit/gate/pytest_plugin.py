"""A pytest plugin that compares preprocessing in tests, also with approved baselines.

`assert_preprocess_aligned` compares two stacks; the fixture ``preprocess_baseline`` compares one
with its approved baseline in ``alignkit.baseline/<test module>/<test>`` beside the test.
Nothing of alignkit is imported until a test uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from alignkit.datasets.unlabelled_images import ImageSource
    from alignkit.experiment.yaml_argument import Stack

UPDATE = "--alignkit-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("alignkit", "preprocessing baselines")
    group.addoption(
        UPDATE,
        metavar="REASON",
        nargs="?",
        const=f"pytest {UPDATE}",
        help="approve what the tests find as their baselines, for this reason; refused in CI",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to approve anything in CI before a test runs."""
    if config.getoption(UPDATE):
        from alignkit.baseline.approval import refuse_in_ci
        from alignkit.errors import ConfigError

        # before the first test, so that nobody waits for a run that approves nothing
        try:
            refuse_in_ci(UPDATE)
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None


@dataclass(frozen=True)
class PreprocessBaseline:
    """Value of the fixture ``preprocess_baseline``."""

    folder: Path
    reason: str | None

    def check(self, path: Stack, images: ImageSource, name: str = "path") -> None:
        """Fail if a stage returns other pixels than the approved ones, or none are approved."""
        from alignkit.gate.assertion import compare_or_approve

        problem = compare_or_approve(self.folder, name, path, images, reason=self.reason)
        if problem:
            pytest.fail(f"{problem}\nIf this is meant: pytest {UPDATE} 'why'", pytrace=False)


@pytest.fixture
def preprocess_baseline(request: pytest.FixtureRequest) -> PreprocessBaseline:
    """Compare a stack with its approved baseline; ``--alignkit-update REASON`` approves."""
    # a parametrised test's name holds brackets and other characters that no folder should
    test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")
    folder = request.path.parent / "alignkit.baseline" / request.path.stem / test
    return PreprocessBaseline(folder, request.config.getoption(UPDATE))


@pytest.fixture
def assert_preprocess_aligned() -> Callable[..., Any]:
    """Return `alignkit.assert_preprocess_aligned`, so that a test needs no import."""
    from alignkit.gate.assertion import assert_preprocess_aligned as call

    return call
