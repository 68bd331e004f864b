"""Escaping: any string becomes harmless text, and long names are shortened."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.reports.page import escape_name, escape_text, shorten
from tests.support.report_data import Reader


@given(st.text(alphabet=st.characters(), max_size=300))  # lone surrogates too
def test_any_text_becomes_one_text_that_a_page_does_not_obey(text):
    for shown in (escape_text(text), escape_name(text)):
        reader = Reader(f'<p title="{shown}">{shown}</p>')
        assert [tag for tag, _ in reader.elements] == ["p"]
        assert "".join(reader.texts) == reader.of("p")[0]["title"]
        shown.encode()  # no lone surrogate is left
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", shown)


@given(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=200))
def test_ordinary_text_is_shown_as_it_is(text):
    assert "".join(Reader(f"<p>{escape_text(text)}</p>").texts) == text


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.integers(2, 40))
def test_names_are_cut_to_what_fits(text, most):
    assert len(shorten(text, most)) <= most
    assert "\n" not in shorten(text, most)
