"""A studio in its own process, and its page in chromium: shared by tests, the benchmark and the pictures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BROWSER_MARKS = [
    pytest.mark.system,
    pytest.mark.extra,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]
PHONE, DESK = 360, 1280
# Where to leave pictures of the pages, for whoever wants to look at them.
PICTURES = os.environ.get("FLYINGSQUID_PICTURES")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")
_START_SECONDS = 120.0
_TIMEOUT_MS = 20_000


@contextmanager
def run_studio(data: Path, *options: str) -> Iterator[str]:
    """Start ``flyingsquid studio`` on a file, and yield the address with the token."""
    command = [sys.executable, "-m", "flyingsquid", "studio", str(data), *options]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield _read_address(process, output)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _read_address(process: subprocess.Popen[bytes], output: Any) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        output.seek(0)
        text = output.read()
        if found := _ADDRESS.search(text):
            return found.group()
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The studio did not start: {text}")
        time.sleep(0.05)


@contextmanager
def launch_browser() -> Iterator[Any]:
    """Yield chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class StudioPage:
    """The page of a studio, the steps that a person takes on it, and everything that went wrong on it."""

    page: Any
    address: str
    problems: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(
        cls,
        browser: Any,
        address: str,
        *,
        width: int = 1280,
        height: int = 860,
        scheme: str = "light",
        scale: float = 1,
    ) -> Iterator[StudioPage]:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            device_scale_factor=scale,
            accept_downloads=True,
        )
        page = context.new_page()
        page.set_default_timeout(_TIMEOUT_MS)
        visit = cls(page, address)
        page.on("console", lambda message: visit.problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: visit.problems.append(f"error: {error}"))
        page.on("dialog", visit._dismiss)
        page.on("request", visit._check_request)
        try:
            page.goto(address)
            page.locator("html[data-revision]").wait_for()
            yield visit
        finally:
            context.close()

    def _dismiss(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check_request(self, request: Any) -> None:
        own = self.address.split("/?")[0]
        if not request.url.startswith((own + "/", "data:", "blob:")):
            self.problems.append(f"request: {request.url}")

    @property
    def rows(self) -> Any:
        """Rows of the table of sources."""
        return self.page.locator("#source-rows tr")

    def row(self, name: str) -> Any:
        """Row of the source with this name."""
        return self.rows.filter(has=self.page.get_by_role("button", name=name, exact=True))

    def add_rule(self, kind: str, label: str, **fields: str) -> None:
        """Fill the form, add the rule, and wait until the table has estimates for it."""
        page, n_rows = self.page, self.rows.count()
        page.select_option("#rule-kind", kind)
        if "name" in fields and not page.locator("#rule-name").is_visible():
            page.locator("#rule-options > summary").click()
        for name, value in fields.items():
            if name in {"operator", "number"}:
                page.select_option(f"#rule-{name}", value)
            else:
                page.fill(f"#rule-{name}", value)
        page.select_option("#rule-label", label=label)
        page.locator("#preview:not([hidden])").wait_for()
        page.click("#rule-submit")
        self.rows.nth(n_rows).wait_for()
        self.rows.first.locator("td.coverage:has-text('%')").wait_for()
        page.locator("#rule-submit:not(:disabled)").wait_for()
        page.locator("#preview").wait_for(state="hidden")

    def cells(self, column: str) -> list[str]:
        """Texts of a column of the table of sources."""
        return list(self.page.locator(f"#source-rows td.{column}").all_inner_texts())

    def show(self, name: str) -> None:
        """Choose a filter of the items."""
        self.page.get_by_label(name, exact=True).check(force=True)

    def label_current(self, key: str) -> None:
        """Press a key of a class, and wait until the server has the gold label."""
        with self.page.expect_response("**/api/actions"):
            self.page.keyboard.press(key)

    def wait_for_quiet(self, milliseconds: int = 400) -> None:
        """Wait until the page has not asked for anything for a while."""
        self.page.wait_for_load_state("domcontentloaded")
        quiet_since = time.monotonic()
        busy = [0.0]
        listener = lambda request: busy.__setitem__(0, time.monotonic())  # noqa: E731
        self.page.on("request", listener)
        while time.monotonic() - max(quiet_since, busy[0]) < milliseconds / 1000:
            self.page.wait_for_timeout(50)
        self.page.remove_listener("request", listener)
