"""How the pages are built: `make docs`. Sphinx with MyST, strictly: a warning is an error."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import flyingsquid

DOCS = Path(__file__).parent.resolve()
ROOT = DOCS.parent

project = "flyingsquid"
author = "FlyingSquid contributors"
version = release = flyingsquid.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "pictures/*.py"]
default_role = "code"  # docstrings quote code with one backtick as well as with two
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # a fitted attribute may also be a property, and is then described twice

# Types in docstrings are words, "array of shape (n, K)", and a word may happen to be the name of two things.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "flyingsquid"
html_static_path: list[str] = []
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False  # LICENSE says it
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip(app: object, what: str, name: str, obj: object, would_skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn generates: the requests of metadata routing."""
    return True if name.endswith("_request") or name == "get_metadata_routing" else None


def relink(app: Any, path: Path, parent: str, content: list[str]) -> None:
    """Let links of an included page, which are relative to its own place, lead there from here."""

    def from_here(link: re.Match[str]) -> str:
        target = (DOCS / path).resolve().parent / link[1]
        if target.resolve() == ROOT / "examples" / "README.md":
            target = DOCS / "examples.md"
        return f"]({os.path.relpath(target, (DOCS / parent).parent)}"

    content[0] = re.sub(r"\]\((?!https?:)([^)#\s]+)", from_here, content[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("include-read", relink)
    app.connect("autodoc-skip-member", skip)
