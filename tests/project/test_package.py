"""Installed package: the files of the wheel and the sdist, their metadata, and types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import flyingsquid

ROOT = Path(__file__).parents[2]
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = _SETTINGS["project"]
README = _SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A directory with the wheel and the sdist."""
    pytest.importorskip("hatchling")
    pytest.importorskip("hatch_fancy_pypi_readme")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    answer = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def about(wheel):
    """A function that gives the text of a file about the package."""
    return lambda name: wheel.read(f"flyingsquid-{flyingsquid.__version__}.dist-info/{name}").decode()


@pytest.mark.system
@pytest.mark.extra
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    source = ROOT / "src"
    ours = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    expected = {name for name in ours if "__pycache__" not in name and ".egg-info" not in name}
    assert expected >= {"flyingsquid/py.typed", "flyingsquid/reports/page.css", "flyingsquid/reports/page.js"}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected
    # Benchmarks and the reproduction of the paper stay in the repository.
    assert not [name for name in expected if re.search(r"bench|reproduc|peers|(^|/)paper", name)]
    assert sum(entry.compress_size for entry in wheel.infolist()) < MOST_BYTES


@pytest.mark.system
@pytest.mark.extra
def test_metadata_of_the_wheel_is_complete(about):
    facts = Parser().parsestr(about("METADATA"))
    assert facts["Name"] == "flyingsquid"
    assert facts["Version"] == flyingsquid.__version__
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Description-Content-Type"] == "text/markdown"
    assert about("entry_points.txt").split("\n")[:2] == [
        "[console_scripts]",
        "flyingsquid = flyingsquid.cli.main:main",
    ]
    assert "Apache License" in about("licenses/LICENSE")


@pytest.mark.system
@pytest.mark.extra
def test_the_page_of_the_package_index_leads_nowhere_wrong(about):
    """It is the README without links to files, which would lead nowhere."""
    page = Parser().parsestr(about("METADATA")).get_payload()
    assert not re.findall(r"\]\((?!https://)", page)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    words = re.findall(r"(?<!!)\[([^\]]+)\]\([^)]+\)", readme)
    assert len(words) > 20
    assert all(name in page for name in words)
    plain = [line for line in readme.splitlines() if "](" not in line and "[" not in line and ")" not in line]
    assert set(plain) <= set(page.splitlines())


@pytest.mark.system
@pytest.mark.extra
def test_the_sdist_holds_what_the_tests_need(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {
        "pyproject.toml", "README.md", "LICENSE", "Makefile", "conftest.py", "constraints.txt",
        "constraints-lowest.txt", ".ci/run", "tests/project/test_package.py", "docs/index.md",
        "examples/spam.py",
    }  # fmt: skip
    assert not [name for name in names if name.startswith((".venv", "build/", "dist/"))]
    assert path.stat().st_size < 2 * MOST_BYTES


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [flyingsquid.__version__]


def test_the_lowest_versions_are_those_of_the_project():
    """Every lower bound of the core and of the small extras is what `make test-lowest` installs."""
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split(" #")[0].split("==") for line in lines if line and not line.startswith("#"))
    extras = PROJECT["optional-dependencies"]
    listed = [*PROJECT["dependencies"], *(line for name in extras for line in extras[name])]
    for line in listed:
        name, _, bound = re.sub(r"\[.*\]", "", line).partition(">=")
        assert name in pinned or line not in PROJECT["dependencies"], f"constraints-lowest.txt lacks {name}"
        lowest = ".".join([*bound.split("."), "0", "0"][:3])
        assert pinned.get(name, lowest) == lowest, f"{name} is allowed from {bound} on, not tested there"
    assert set(pinned) <= {re.split(r"[\[>]", line)[0] for line in listed} | {"pyparsing"}  # matplotlib's


def test_the_readme_shows_no_picture_that_the_package_index_has_not():
    """The page of the package has only the text: a relative picture is a broken one."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for each in README["substitutions"]:
        page = re.sub(each["pattern"], each["replacement"], page)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)|<img[^>]*src=\"([^\"]*)\"", page)
    assert not [p for pair in pictures for p in pair if p and not p.startswith("https://")]
    assert "studio.webp" not in page
    assert not re.search(r"^!", page, re.M)


USER = """
import numpy as np
from numpy.typing import NDArray
import flyingsquid as fs

votes: NDArray[np.int64] = np.array([[0, 1, 1], [1, 1, -1]])
reveal_type(fs.LabelModel().fit(votes))
reveal_type(fs.LabelModel().accuracies_)
reveal_type(fs.LabelModel().predict_proba(votes))
reveal_type(fs.LabelModel().predict(fs.Votes.from_classes(votes)))
reveal_type(fs.Moments.of(votes) + fs.Moments.of(votes))
reveal_type(fs.ABSTAIN)
reveal_type(fs.datasets.load_breast_cancer().votes)
fs.LabelModl
fs.LabelModel(metod=fs.solvers.Triplet("best"))
"""
SEEN = [
    r'"flyingsquid\.models\.label_model\.LabelModel"',
    r'"numpy\.ndarray\[.*float64\]\]"',
    r'"numpy\.ndarray\[.*Any\]\]"',
    r'"numpy\.ndarray\[.*Any\]\]"',
    r'"flyingsquid\.moments\.moments\.Moments"',
    r'"int"',
    r'"flyingsquid\.votes\.votes\.Votes"',
    r'no attribute "LabelModl"',
    r'Unexpected keyword argument "metod"',
]


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.extra
def test_a_users_mypy_sees_types(wheel, tmp_path):
    """Those of names that are loaded on first use too; a misspelled one is an error."""
    pytest.importorskip("mypy")
    installed = tmp_path / "site-packages"
    wheel.extractall(installed)
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    # As of an installed package, our own errors are not told. Large packages are not read, to save time.
    skipped = ",".join(f"{name}.*" for name in ("torch", "pandas", "pyarrow", "polars", "dask", "numba"))
    settings = "[mypy]\nstrict = True\n[mypy-flyingsquid.*]\nfollow_imports = silent\n"
    settings += f"[mypy-{skipped}]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(settings, encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", "user.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in answer.stdout.splitlines() if "Revealed" in line or "error:" in line]
    assert len(lines) == len(SEEN), answer.stdout + answer.stderr
    for line, pattern in zip(lines, SEEN, strict=True):
        assert re.search(pattern, line), answer.stdout
