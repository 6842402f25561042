import os
import stat

import pytest

from blendfield.files import written_atomically


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
