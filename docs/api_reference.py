"""Fill the generated tables of the documentation: ``python -m docs.api_reference``.

These are the tables of public names and members in the API reference, of namespaces on the versioning page
and of modules on a page of their own. They come from docs/reference/public_names.toml and from docstrings,
so that the pages can be read in the repository. Sphinx replaces the tables of the API reference by the
documentation of every name (docs/conf.py).
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from docs.conf import DOCS, PUBLIC, ROOT, describe_namespaces, resolve

PAGES = (DOCS / "reference" / "api.md", DOCS / "versioning.md", DOCS / "reference" / "modules.md")
SOURCE = ROOT / "src" / "flyingsquid"
LONGEST = 60  # parameters of a function in a table, in characters
REGION = re.compile(r"(<!-- names: (.*?) -->\n)(.*?)(<!-- end of names -->)", re.DOTALL)


def fill(text: str) -> str:
    """Return a page with all its tables made again."""
    return REGION.sub(lambda m: f"{m[1]}{_region(m[2])}\n{m[4]}", text)


def _region(title: str) -> str:
    if title == "all namespaces":
        return describe_namespaces()
    if title == "all modules":
        return _modules()
    names = PUBLIC["names"][title]
    rows = [f"| {_linked(name)} | {purpose} |" for name, purpose in names.items()]
    parts = ["\n".join(["| name | purpose |", "|---|---|", *rows])]
    parts += [_members(name) for name in names if name in PUBLIC["members"]]
    return "\n\n".join(parts)


def _modules() -> str:
    """Return a table of modules for every package, with the first line of each docstring."""
    packages: dict[Path, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py"), key=lambda path: (path.parent != SOURCE, path)):
        if not path.name.startswith("__"):
            summary, *_ = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").splitlines()
            link = f"[`{path.name}`](../../{path.relative_to(ROOT).as_posix()})"
            packages.setdefault(path.parent, []).append(f"| {link} | {_plain(summary)} |")
    heads = {path: f"## `{path.relative_to(SOURCE.parent).as_posix()}/`" for path in packages}
    return "\n\n".join(
        "\n".join([heads[path], "", "| module | content |", "|---|---|", *rows])
        for path, rows in packages.items()
    )


def _linked(name: str) -> str:
    """Return a name with its parameters, linked to the file that defines it."""
    found = resolve(name)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return f"`{name}`"
    path = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
    shown = name if inspect.isclass(found) else f"{name}{_shortened(_parameters(found))}"
    return f"[`{shown}`](../../{path.as_posix()})"


def _members(name: str) -> str:
    """Return the signature of a class and a table of its public members."""
    found = resolve(name)
    rows = []
    for member in PUBLIC["members"][name]:
        value = inspect.getattr_static(found, member)
        # classmethod has __func__, and scikit-learn's available_if has fn.
        method = getattr(value, "__func__", getattr(value, "fn", value))
        shown = f"{member}{_parameters(method, is_method=True)}" if inspect.isfunction(method) else member
        rows.append(f"| `{shown}` | {_summary(value) or _attribute(found, member)} |")
    return "\n".join(
        [f"**`{name}{_parameters(found)}`**", "", "| member | description |", "|---|---|", *rows]
    )


def _parameters(found: Any, *, is_method: bool = False) -> str:
    """Return the parameters of a callable, with defaults and without types."""
    parameters = list(inspect.signature(found).parameters.values())[int(is_method) :]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    text = str(inspect.Signature(plain)).replace("'", '"')
    return re.sub(r'<class "numpy\.(\w+)">', r"\1", text)


def _shortened(parameters: str) -> str:
    """Return the parameters of a function without its options if there are many."""
    if len(parameters) <= LONGEST:
        return parameters
    required = re.match(r"\((?:\w+(?:, |$))*", parameters)
    return f"{required[0] if required else '('}...)"


def _summary(value: object) -> str:
    """Return the first paragraph of a docstring in one line."""
    return _plain(" ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split()))


def _plain(text: str) -> str:
    """Return a sentence of a docstring as Markdown in a table."""
    return re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", r"`\1\2`", text).replace("|", r"\|")


def _attribute(owner: type, name: str) -> str:
    """Return the description of an attribute in its class, its bases, or LabelModel if fitted."""
    for one in (*owner.__mro__, *([resolve("fs.LabelModel")] if name.endswith("_") else [])):
        text = inspect.cleandoc(one.__doc__ or "")
        if found := re.search(rf"^(?:\w+, )*{name}(?:, \w+)* : (.*)\n((?:    .*\n?)*)", text, re.MULTILINE):
            sentence = " ".join(found[2].split()).partition(". ")[0].rstrip(".")
            return _plain(f"{sentence} ({found[1]})." if sentence else f"{found[1]}.")
    return ""


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text("utf-8")), encoding="utf-8")
