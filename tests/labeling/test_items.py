"""Rows and other items as labeling functions receive them."""

from __future__ import annotations

import collections
import copy
import pickle

import numpy as np
import pytest

from flyingsquid.labeling.functions import Record, list_items


def test_a_record_has_attributes_and_items():
    x = list_items([{"text": "a", "get": 3, "_id": 7}])[0]
    assert (x.text, x["text"], x["get"], x._id) == ("a", "a", 3, 7)
    assert (x.get("text"), x.get("absent"), x.get("absent", 0)) == ("a", None, 0)
    assert "text" in x
    assert "absent" not in x
    assert (list(x), len(x), dict(x)) == (["text", "get", "_id"], 3, {"text": "a", "get": 3, "_id": 7})
    assert x == {"text": "a", "get": 3, "_id": 7}
    assert repr(Record({"a": 1})) == "Row(a=1)"


def test_a_row_cannot_be_written_to():
    x = list_items([{"text": "a"}])[0]
    with pytest.raises(AttributeError):
        x.text = "b"
    with pytest.raises(TypeError):
        x["text"] = "b"


def test_a_row_says_which_columns_there_are():
    x = list_items([{"text": "a", "id": 1}])[0]
    with pytest.raises(AttributeError, match="no column 'txt'; the row has text, id"):
        _ = x.txt
    assert not hasattr(x, "__array__")


def test_a_row_can_be_copied_and_pickled():
    x = list_items([{"text": "a"}])[0]
    assert copy.copy(x) == pickle.loads(pickle.dumps(x)) == copy.deepcopy(x) == x


def test_items_that_are_no_mappings_stay_what_they_are():
    items = ["text", 3, np.zeros(2), object()]
    assert all(a is b for a, b in zip(list_items(items), items, strict=True))


def test_reading_a_row_does_not_change_a_defaultdict():
    data = collections.defaultdict(list, text="a")
    x = Record(data)
    assert (x.text, hasattr(x, "title"), "title" in x) == ("a", False, False)
    assert list(data) == ["text"]
