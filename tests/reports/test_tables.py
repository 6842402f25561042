import math
import re

import pytest
from record_examples import record

from blendfield.reports import Column, Table, text_table
from blendfield.reports.tables import best_rows, formatted, html_table


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (None, None, "–"),
        (math.nan, 2, "–"),
        (math.inf, 2, "∞"),
        (-math.inf, None, "−∞"),
        ("word", 3, "word"),
        (1234567, None, "1,234,567"),
        (-3, None, "−3"),
        (3, 2, "3.00"),
        (0.0, None, "0"),
        (0.1234, None, "0.123"),
        (123.456, None, "123"),
        (1234.5, None, "1,234"),
        (-0.5, None, "−0.500"),
        (1.26e-7, None, "1.3 × 10⁻⁷"),
        (1.2e9, None, "1.2 × 10⁹"),
        (2.345, 1, "2.3"),
    ],
)
def test_numbers(value, decimals, text):
    assert formatted(value, decimals) == text


def test_best_is_best_as_shown():
    columns = [Column("name"), Column("low", "", 1, "low"), Column("high", "", None, "high"), Column("neither")]
    table = Table("t", columns, [["a", 0.11, 1.0, 1], ["b", 0.12, None, 2], ["c", 0.3, 2.0, 3]])
    assert best_rows(table) == [set(), {0, 1}, {2}, set()]
    assert best_rows(Table("t", columns[:2], [["a", 1.0], ["b", None]])) == [set(), set()]  # nothing to compare


def test_text_columns_stand_below_each_other():
    lines = text_table(record().tables[0]).splitlines()
    assert lines == [
        "Errors in full",
        "",
        "method  rings (%)  passes",
        "-------------------------",
        "ours         0.10     120",
        "rival           –   4,800",
        "",
        "A note.",
    ]
    starred = Table("t", [Column("m"), Column("e", "", 1, "low")], [["a", 1.0], ["b", 12.0]])
    assert text_table(starred).splitlines()[2:] == ["m     e", "-------", "a   1.0*", "b  12.0"]


def test_html_is_escaped_and_scrolls_in_its_box():
    html = html_table(Table("<t>", [Column("<m>"), Column("e", "%", 1, "low")], [["<a>", 1.0], ["b", 2.0]], "1 < 2"))
    assert html.startswith('<div class="scroll" role="region" tabindex="0" aria-label="&lt;t&gt;">')
    assert html.count("<tr>") == 3
    assert '<th scope="row">&lt;a&gt;</th><td class="number"><strong>1.0</strong></td>' in html
    assert "1 &lt; 2" in html
    assert not re.search(r"<[a-z]>(?!<)", html.replace("<table>", ""))
