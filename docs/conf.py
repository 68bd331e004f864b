"""Configuration of Sphinx: `make docs` builds the pages with MyST, and treats warnings as errors."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from importlib import import_module
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
exclude_patterns = ["_build"]
default_role = "code"  # docstrings quote code with one backtick as well as with two
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # fitted attributes that are also properties would otherwise be described twice

# Types in docstrings are prose, "array of shape (n, K)", and a word of it may be the name of two objects.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "FlyingSquid"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False  # see LICENSE
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip(app: object, what: str, name: str, obj: object, would_skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn generates for metadata routing."""
    return True if name.endswith("_request") or name == "get_metadata_routing" else None


def relink(app: Any, path: Path, parent: str, content: list[str]) -> None:
    """Rewrite the links of an included page, which are relative to its own directory."""

    def from_here(link: re.Match[str]) -> str:
        target = (DOCS / path).resolve().parent / link[1]
        if target.resolve() == ROOT / "examples" / "README.md":
            target = DOCS / "examples.md"
        return f"]({os.path.relpath(target, (DOCS / parent).parent)}"

    content[0] = re.sub(r"\]\((?!https?:)([^)#\s]+)", from_here, content[0])


# The public names, from reference/public_names.toml: "fs.LabelModel", each with what it is for.
PUBLIC = tomllib.loads((DOCS / "reference" / "public_names.toml").read_text("utf-8"))
NAMES = {name for section in PUBLIC["names"].values() for name in section}


def resolve(name: str) -> Any:
    """Return the object with a name such as "fs.analysis.findings"."""
    found: Any = flyingsquid
    for part in name.split(".")[1:]:
        found = getattr(found, part) if hasattr(found, part) else import_module(f"{found.__name__}.{part}")
    return found


def directive(name: str) -> str:
    """Return the autodoc directive of a public name."""
    found, path = resolve(name), name.replace("fs.", "flyingsquid.", 1)
    if inspect.ismodule(found):
        return f".. automodule:: {path}\n   :no-members:\n"
    if inspect.isclass(found):
        kind = "autoexception" if issubclass(found, BaseException) else "autoclass"
        members = PUBLIC["members"].get(name)
        return f".. {kind}:: {path}\n" + (f"   :members: {', '.join(members)}\n" if members else "")
    if callable(found):
        return f".. autofunction:: {path}\n"
    return f".. py:data:: {path}\n"  # the table above states its purpose


def origin(name: str) -> str:
    """Return the public name whose section describes a returned type."""
    while name not in NAMES:
        name = PUBLIC["returned"].get(name) or name.rpartition(".")[0]
    return name


def describe_section(title: str) -> str:
    """Return a table of the names of a section, and their descriptions."""
    names = PUBLIC["names"][title]
    table = [f"| {{py:obj}}`{n} <flyingsquid{n[2:]}>` | {reason} |" for n, reason in names.items()]
    homes = {name.rpartition(".")[0] for name in names}
    described = [] if len(homes) > 1 or "fs" in homes else [*homes]
    for name in names:
        described += [name, *(one for one in PUBLIC["returned"] if origin(one) == name)]
    blocks = "\n".join(directive(name) for name in described)
    return "\n".join(["| name | purpose |", "|---|---|", *table, "", "```{eval-rst}", blocks + "```"])


def describe_namespaces() -> str:
    """Return a table of the namespaces and their public names."""
    members: dict[str, list[str]] = {}
    for name in sorted(NAMES - {"fs.exceptions"}):
        home, _, last = name.rpartition(".")
        members.setdefault(home.replace("fs", "flyingsquid", 1), []).append(f"`{last}`")
    rows = [f"| `{home}` | {len(names)} | {', '.join(names)} |" for home, names in sorted(members.items())]
    return "\n".join(["| namespace | number | names |", "|---|--:|---|", *rows])


def fill_in_names(app: object, docname: str, source: list[str]) -> None:
    """Replace the tables that docs/api_reference.py wrote for readers of the repository."""
    source[0] = re.sub(r"\n\n```$", "\n```", source[0], flags=re.MULTILINE)  # blank ends of code blocks
    if docname == "reference/api":
        regions = r"<!-- names: (.*?) -->\n.*?<!-- end of names -->"
        source[0] = re.sub(regions, lambda m: describe_section(m[1]), source[0], flags=re.DOTALL)


def unlink_words(app: object, doctree: Any) -> None:
    """Remove links from the words of types: in "array of shape (n, K)", shape is not `Votes.shape`."""
    for node in list(doctree.findall(lambda node: node.tagname == "pending_xref")):
        if node.get("reftype") == "class" and re.fullmatch(r"[a-z_]+", node.get("reftarget", "")):
            node.replace_self(node.children)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    from sphinx.domains.python._object import PyObject  # tests import this file without Sphinx

    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"  # as in the docstrings; Sphinx writes "Variables"
    app.connect("source-read", fill_in_names)
    app.connect("include-read", relink)
    app.connect("doctree-read", unlink_words)
    app.connect("autodoc-skip-member", skip)
