from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder for each test, never the user's."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(folder))
    return folder
