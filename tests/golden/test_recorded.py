"""Every method gives the recorded results."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from tests.golden.recorded import CASES, FILE, as_text

RECORDED = json.loads(FILE.read_text("utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_what_it_was(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit warns about is tested elsewhere
        found = as_text(CASES[name]())
    assert found.keys() == RECORDED[name].keys()
    for fact, values in found.items():
        np.testing.assert_allclose(
            np.asarray(values, float),
            np.asarray(RECORDED[name][fact], float),
            rtol=1e-6,
            atol=1e-7,
            err_msg=fact,
        )


def test_nothing_is_recorded_that_is_not_compared():
    assert RECORDED.keys() == CASES.keys()
