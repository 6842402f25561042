"""Data made by others lies outside the repository, where BLENDFIELD_DATA says."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def data():
    """data("uai2014"): the folder of that set; the test is skipped where it is absent."""

    def folder(name):
        path = Path(os.environ.get("BLENDFIELD_DATA", "")) / name
        if "BLENDFIELD_DATA" not in os.environ or not path.is_dir():
            pytest.skip(f"data set {name} is not there (set BLENDFIELD_DATA)")
        return path

    return folder


@pytest.fixture
def file(tmp_path):
    """file("a.uai", text): writes it and returns its path as a string."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write
