"""The structure of pages; how they look is for a browser and a pair of eyes."""

import re
from html.parser import HTMLParser

import pytest
from record_examples import history, record

import blendfield as bf
from blendfield import reports

pytest.importorskip("matplotlib")

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects identifiers, links, sources and headings."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.sources, self.counts, self.headings = [], [], [], {}, []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            if name in attributes:
                self.sources.append(attributes[name])
        if tag == "img":
            assert attributes["alt"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3", "summary"):
            self.headings.append(data)


def outline(path):
    page = path.read_text("utf-8")
    found = Outline(page)
    assert len(set(found.ids)) == len(found.ids)
    for source in found.sources:  # needs nothing but itself
        assert source.startswith("data:") or source.removeprefix("#") in found.ids, source
    assert not re.search(r"<script|@import|url\((?!#)|https?://(?!www\.w3\.org)", page)
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    return page, found


def test_page_of_one_run(tmp_path):
    path = reports.write_report([record()], tmp_path / "out")
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "bounds.png",
        "errors.png",
        "index.html",
        "objective.png",
        "seen-found.png",
        "tables.txt",
    ]
    page, found = outline(path)
    assert found.headings == [
        "One run",
        "Figures",
        "Seen & found",
        "Errors",
        "Bounds",
        "Objective",
        "Tables",
        "Errors in full",
        "Notes",
        "Details",
        "Configuration",
        "Seeds",
        "Versions",
        "Made",
    ]
    assert found.counts["img"] == 4
    assert found.counts["svg"] == 6  # three drawings, wide and narrow
    assert "Only 0.25 % are wrong &lt;and that is all&gt;." in page
    order = [page.index(text) for text in ("Only 0.25 %", "Test error", "Figures</h2>", "Tables</h2>", "Details</h2>")]
    assert order == sorted(order)
    for shown in ("1.2 × 10⁻⁷", "12.5 s", "blendfield denoise --quick", bf.__version__):
        assert shown in page
    text = (path.parent / "tables.txt").read_text("utf-8")
    assert "Test error  0.250 %  (of ten images)" in text
    assert "rival           –   4,800" in text


def test_page_of_a_bare_run(tmp_path):
    path = reports.write_report([reports.RunRecord("k", "t", "a")], tmp_path)
    _, found = outline(path)
    assert found.headings == ["t", "Details", "Versions", "Made"]


def test_comparison(tmp_path):
    runs = [
        record("First", 0.5),
        record("Second", 0.25, configuration={"epsilon": 0.5, "rivals": True, "objective": "x"}, seeds={"noise": 4}),
        record("Second", 0.75, histories={}, key_numbers=[]),
    ]
    path = reports.write_report(runs, tmp_path)
    page, found = outline(path)
    assert "Second (1) has the best test error: 0.250 %; the worst is 0.500 %." in page
    assert found.headings[:7] == [
        "3 runs compared",
        "Figures",
        "Certified gap against passes",
        "Tables",
        "Key numbers",
        "What they were given, where it differs",
        "The runs",
    ]
    assert found.headings.count("Second") == 2
    text = (tmp_path / "tables.txt").read_text("utf-8")
    assert re.search(r"First +0\.500 +1\.2 × 10⁻⁷\nSecond \(1\) +0\.250\* +1\.2 × 10⁻⁷\nSecond \(2\) +– +–\n", text)
    assert re.search(r"epsilon +1 +0\.5 +1\n", text)
    assert re.search(r"seed of noise +3 +4 +3\n", text)
    assert "rivals" not in text  # the same in all
    assert len(list(tmp_path.glob("*.png"))) == 1 + 3 * 4


def test_objectives_are_compared_where_they_are_the_same(tmp_path):
    runs = [
        record(name, histories={name: history(rate)}, figures=[], configuration={"objective": "grid, C = 1"})
        for name, rate in (("slow", 0.05), ("fast", 0.2))
    ]
    _, found = outline(reports.write_report(runs, tmp_path))
    assert "Objective against passes and seconds" in found.headings


def test_ties(tmp_path):
    path = reports.write_report([record("a"), record("b")], tmp_path)
    assert "All runs agree in test error: 0.250 %." in path.read_text("utf-8")


def test_no_runs(tmp_path):
    with pytest.raises(bf.OptionError, match="at least one run"):
        reports.write_report([], tmp_path)


def test_report_from_files_is_the_same(tmp_path):
    written = record()
    read = reports.read_run(reports.write_run(tmp_path / "run.json", written))
    one = reports.write_report([written], tmp_path / "one")
    two = reports.write_report([read], tmp_path / "two")
    for file in one.parent.iterdir():
        assert file.read_bytes() == (two.parent / file.name).read_bytes(), file.name
