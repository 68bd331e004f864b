"""How the numbers were made, for whoever wants to make them again."""

from __future__ import annotations

from flyingsquid._version import __version__
from flyingsquid.reports.escape import safe
from flyingsquid.reports.page import Section
from flyingsquid.reports.study import Study


def method_section(study: Study) -> Section:
    """The model, its method and where the balance comes from; what the fit warned of."""
    model = study.model
    told: list[tuple[str, str]] = []
    if model is None:
        told.append(("Model", f"none: {study.failure}"))
    else:
        kind = type(model).__name__
        told.append(
            (
                "Model",
                f"{kind}, as passed" if study.given else f"{kind}() with its defaults, fitted on these votes",
            )
        )
        diagnostics = getattr(model, "diagnostics_", None)
        if diagnostics is not None:
            reason = f"; {diagnostics.reason}" if diagnostics.reason else ""
            told.append(("Method", f"{diagnostics.method}{reason}"))
            told.append(("Class balance", diagnostics.class_balance))
            test = diagnostics.fit_test
            if test is not None:
                told.append(
                    (
                        "Test of independence",
                        f"chi² {test.statistic:,.1f} on {test.degrees:,} degrees of freedom, p "
                        f"{_p_value(test.p_value)}",
                    )
                )
    told += [("Warning", text) for text in study.warned]
    told.append(("Known labels", _gold(study)))
    told.append(("Version", f"flyingsquid {__version__}"))
    rows = "".join(
        f'<tr><th scope="row">{safe(what)}</th><td>{safe(text, 2_000)}</td></tr>' for what, text in told
    )
    return Section("method", "How this was made", f'<div class="scroll"><table>{rows}</table></div>')


def _p_value(p: float) -> str:
    return f"= {p:.2g}" if p > 1e-300 else "< 1e-300"


def _gold(study: Study) -> str:
    gold = study.items.gold
    if gold is None:
        return "none were given"
    known = f"{int((gold >= 0).sum()):,} of {len(gold):,} items"
    if study.given:
        return f"{known}; they judge the labels. A model that was fitted with them looks better than it is"
    return f"{known}; they judge the labels and take no part in making them"
