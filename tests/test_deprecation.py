"""What goes away says so first."""

from __future__ import annotations

import pytest

from flyingsquid._deprecation import deprecated, renamed_argument


@deprecated(since="1.2", removed_in="1.4", instead="fresh()")
def stale(x):
    """Twice x."""
    return 2 * x


@renamed_argument("n_cls", "n_classes", since="1.2", removed_in="1.4")
def count(*, n_classes=2):
    return n_classes


def test_a_deprecated_function_works_and_warns_at_the_caller():
    with pytest.warns(
        DeprecationWarning, match=r"stale\(\) is deprecated since 1.2.*use fresh\(\)"
    ) as caught:
        assert stale(3) == 6
    assert caught[0].filename == __file__
    assert stale.__doc__ == "Twice x.\n\nDeprecated since 1.2, goes in 1.4: use fresh()."


def test_an_argument_keeps_its_old_name_for_a_while():
    with pytest.warns(DeprecationWarning, match="n_cls=.* is called n_classes= since 1.2") as caught:
        assert count(n_cls=5) == 5
    assert caught[0].filename == __file__
    assert count(n_classes=4) == 4


def test_both_names_at_once_are_an_error():
    with pytest.raises(TypeError, match="got both n_cls= and n_classes="):
        count(n_cls=5, n_classes=5)
