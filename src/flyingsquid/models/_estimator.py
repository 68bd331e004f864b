"""Base class with scikit-learn's estimator contract that does not import scikit-learn.

Importing scikit-learn takes several times as long as importing NumPy and SciPy, and fitting a label model
does not need it. So parameters and their representation are implemented here. Features that only scikit-learn
uses (tags, metadata routing, HTML) are delegated to a counterpart: a class with the same methods that
inherits from scikit-learn's classes and is created when it is first needed.
"""

from __future__ import annotations

import inspect
import threading
from collections import defaultdict
from functools import lru_cache
from typing import Any, Self

from flyingsquid._values import format_list, format_value
from flyingsquid.exceptions import NotFittedError, OptionError

# Methods whose arguments scikit-learn can route.
_ROUTED = ("fit", "partial_fit", "predict", "predict_proba", "decision_function", "score")


@lru_cache
def _counterpart(estimator: type) -> Any:
    """Return a class with the methods of ``estimator`` that inherits from scikit-learn."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    names = ("__init__", *(name for name in _ROUTED if hasattr(estimator, name)))
    methods = {name: getattr(estimator, name) for name in names}
    return type(estimator.__name__, (ClassifierMixin, BaseEstimator), methods)


def _as_counterpart(estimator: Estimator) -> Any:
    """Return an instance of the counterpart with the same parameters and fitted attributes."""
    kind: Any = type(estimator)
    copy = object.__new__(_counterpart(kind))
    vars(copy).update(vars(estimator))
    return copy


class _MetadataRequest:
    """Method ``set_<method>_request`` of scikit-learn, for methods that take metadata."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if not hasattr(_counterpart(owner), self._name):
            raise AttributeError(f"{owner.__name__} takes no metadata in this method: {self._name}.")
        return inspect.getattr_static(_counterpart(owner), self._name).__get__(estimator, owner)


class Estimator:
    """Base of all estimators: parameters are the arguments of ``__init__``, as in scikit-learn.

    ``clone``, pipelines, ``GridSearchCV``, metadata routing and ``check_estimator`` accept it.
    ``isinstance(model, sklearn.base.BaseEstimator)`` is False.
    """

    _estimator_type = "classifier"  # read by scikit-learn before 1.6 instead of the tags

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the default of every parameter, in the order of ``__init__``."""
        if cls.__init__ is object.__init__:
            return {}
        parameters = list(inspect.signature(cls.__init__).parameters.values())
        return {parameter.name: parameter.default for parameter in parameters[1:]}  # without self

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(cls._defaults())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of nested estimators, as ``<parameter>__<nested>``.
        """
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{nested}": of for nested, of in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``<parameter>__<nested>`` sets a parameter of a nested estimator."""
        valid = self.get_params(deep=False) if params else {}
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in params.items():
            name, delimiter, rest = key.partition("__")
            if name not in valid:
                raise OptionError(
                    f"`{name}` must be a parameter of {type(self).__name__}: {format_list(sorted(valid))}."
                )
            if delimiter:
                nested[name][rest] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        shown = (
            (name, format_value(getattr(self, name)), default) for name, default in self._defaults().items()
        )
        changed = (f"{name}={value}" for name, value, default in shown if value != format_value(default))
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    def _lock(self) -> threading.RLock:
        """Lock for methods that change the learned state, so that threads take turns."""
        # Created on first use, because __init__ sets only parameters; setdefault is atomic.
        lock: threading.RLock | None = self.__dict__.get("_learning")
        return self.__dict__.setdefault("_learning", threading.RLock()) if lock is None else lock

    def _snapshot(self) -> Self:
        """Return a shallow copy, for methods that read the learned state more than once.

        It keeps the learned state of this moment even if another thread fits the model meanwhile.
        """
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()  # in one step, because another thread may add the lock
        return {name: value for name, value in state.items() if name != "_learning"}

    # ------------------------------------------------------------------ for scikit-learn

    set_fit_request = _MetadataRequest()
    set_partial_fit_request = _MetadataRequest()
    set_predict_request = _MetadataRequest()
    set_predict_proba_request = _MetadataRequest()
    set_score_request = _MetadataRequest()

    def get_metadata_routing(self) -> Any:
        """Return the metadata requests for scikit-learn."""
        return self._get_metadata_request()

    def _get_metadata_request(self) -> Any:
        return _as_counterpart(self)._get_metadata_request()

    def __sklearn_tags__(self) -> Any:
        return _as_counterpart(self).__sklearn_tags__()

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))


def not_fitted(message: str) -> NotFittedError:
    """Return an error that also inherits from scikit-learn's ``NotFittedError``."""
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError

    return _not_fitted_type(SklearnNotFittedError)(message)


@lru_cache
def _not_fitted_type(other: type) -> Any:
    return type("NotFittedError", (NotFittedError, other), {"__module__": NotFittedError.__module__})
