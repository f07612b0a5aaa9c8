"""Folders of its own for every test."""

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("GTP_DATA", str(tmp_path / "gtp-data"))
    monkeypatch.setenv("GTP_CACHE", str(tmp_path / "gtp-cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
