import os
import signal
import stat
import subprocess
import sys

import pytest

from blendfield import files
from blendfield.files import written_atomically


@pytest.fixture(autouse=True, params=["nameless", "named"])
def way(request, monkeypatch):
    """With files that have no name while they are written, and where the system has none."""
    if request.param == "named":
        monkeypatch.setattr(files, "_open_nameless", lambda folder: None)


def test_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "record"
    path.write_bytes(b"old")
    with written_atomically(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["record"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_after_an_error(tmp_path, fault):
    path = tmp_path / "record"
    path.write_bytes(b"old")

    def fail_half_way():
        with written_atomically(path) as file:
            file.write(b"half")
            raise fault

    with pytest.raises(fault):
        fail_half_way()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["record"]


def test_has_the_rights_of_an_ordinary_file(tmp_path):
    with written_atomically(tmp_path / "record") as file:
        file.write(b"new")
    (tmp_path / "plain").write_bytes(b"new")
    assert stat.S_IMODE(os.stat(tmp_path / "record").st_mode) == stat.S_IMODE(os.stat(tmp_path / "plain").st_mode)


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_nothing_is_left_by_a_process_killed_while_it_writes(tmp_path):
    path = tmp_path / "record"
    path.write_bytes(b"old")
    code = (
        "import sys, time; from blendfield.files import written_atomically\n"
        "with written_atomically(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); print('half', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["record"]


def test_what_a_process_killed_at_the_last_moment_left_is_removed(tmp_path):
    (tmp_path / ".record.tmp").write_bytes(b"whole, but never moved")
    with written_atomically(tmp_path / "record") as file:
        file.write(b"new")
    assert (tmp_path / "record").read_bytes() == b"new"
    if files._open_nameless(str(tmp_path)) is not None:
        assert os.listdir(tmp_path) == ["record"]
