import pytest
from format_models import SMALL_UAI

import blendfield as bf


@pytest.mark.parametrize("name", ["a.uai", "a.fg", "a.uai.gz", "a.fg.xz"])
def test_the_suffix_decides(tmp_path, file, name):
    graph, potentials = bf.read_model(file("small.uai", SMALL_UAI))
    bf.write_model(tmp_path / name, graph, potentials)
    again, tables = bf.read_model(tmp_path / name)
    assert again.regions == graph.regions
    for table, expected in zip(tables, potentials, strict=True):
        assert table.ravel().tolist() == pytest.approx(expected.ravel().tolist(), abs=1e-14)


def test_a_format_by_name(file):
    path = file("small.txt", SMALL_UAI)
    assert bf.read_model(path, format="uai")[0].num_given == 3
    with pytest.raises(bf.FileFormatError, match=r"expected a name that ends in one of \.uai, \.fg, \.wcsp, \.cfn"):
        bf.read_model(path)
    with pytest.raises(bf.FileFormatError, match=r"ends in one of \.uai, \.fg "):
        bf.write_model("x.wcsp", bf.RegionGraph([2], []), [])
