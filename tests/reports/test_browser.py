"""The report in a browser: no error, no request, sorting, details, hostile data, phone and dark mode."""

from __future__ import annotations

from pathlib import Path

import pytest

import flyingsquid as fs
from tests.support.report_data import hostile, ordinary
from tests.support.studio_page import BROWSER_MARKS, DESK, PHONE, PICTURES, launch_browser

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: Path(fs.report(**make(), path=folder / f"{name}.html"))
        for name, make in (("ordinary", ordinary), ("hostile", hostile))
    }


class Visit:
    """An open page, and everything that should not have happened on it."""

    def __init__(self, browser, path, *, width=DESK, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.address = path.as_uri()
        self.page.goto(self.address)

    def _dialog(self, dialog):
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        if request.url != self.address:
            self.wrong.append(f"request: {request.url}")

    def column(self, at):
        return self.page.locator(f"table.sortable tbody tr > :nth-child({at})").all_inner_texts()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["ordinary", "hostile"])
def test_page_opens_quietly_and_fits(browser, pages, name, width, scheme):
    with Visit(browser, pages[name], width=width, scheme=scheme) as visit:
        page = visit.page
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.hover("svg.plot >> nth=0")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # No mark of a plot reaches past the page either, which would be cut off.
        assert page.evaluate("Math.max(...[...document.querySelectorAll('h1,h2,h3,p,figure')]"
                             ".map(e => e.getBoundingClientRect().right))") <= width  # fmt: skip
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/{name}-{width}-{scheme}.png", full_page=True)
        assert visit.wrong == []


def test_table_sorts_on_click_and_by_keyboard(browser, pages):
    with Visit(browser, pages["ordinary"]) as visit:
        page = visit.page
        heads = page.locator("table.sortable thead th")
        button = page.get_by_role("button", name="Source")
        button.click()
        assert visit.column(1) == sorted(visit.column(1))
        assert heads.nth(0).get_attribute("aria-sort") == "ascending"
        button.focus()
        page.keyboard.press("Enter")
        assert visit.column(1) == sorted(visit.column(1), reverse=True)
        assert heads.nth(0).get_attribute("aria-sort") == "descending"
        page.get_by_role("button", name="Accuracy, estimated").click()
        shown = [float(text.split("%")[0]) for text in visit.column(2)]
        assert shown == sorted(shown, reverse=True)
        assert shown != sorted(shown)
        assert heads.nth(0).get_attribute("aria-sort") is None
        assert visit.wrong == []


def test_contested_items_open_and_show_text_and_contributions(browser, pages):
    with Visit(browser, pages["ordinary"]) as visit:
        item = visit.page.locator("details.item").first
        inside = item.locator(".inside")
        assert not inside.is_visible()
        item.locator("summary").click()
        assert inside.is_visible()
        assert "The text of item" in inside.inner_text()
        assert "judge" in inside.locator("svg").text_content()
        assert visit.wrong == []


def test_theme_can_be_changed(browser, pages):
    with Visit(browser, pages["ordinary"]) as visit:
        color = "getComputedStyle(document.body).backgroundColor"
        light = visit.page.evaluate(color)
        visit.page.get_by_role("button", name="Dark").click()
        assert visit.page.evaluate(color) != light
        visit.page.get_by_role("button", name="Light").click()
        assert visit.page.evaluate(color) == light
        assert visit.wrong == []


def test_no_script_but_its_own_runs(browser, pages, tmp_path):
    """The policy would stop a script even if escaping did not."""
    text = pages["ordinary"].read_text("utf-8")
    broken = tmp_path / "broken.html"
    planted = "<main><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    broken.write_text(text.replace("<main>", planted), "utf-8")
    with Visit(browser, broken) as visit:
        assert visit.page.title() == "Eight judges"
        assert any("Content Security Policy" in what for what in visit.wrong)


def test_page_prints(browser, pages):
    with Visit(browser, pages["ordinary"], scheme="dark") as visit:
        visit.page.emulate_media(media="print")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(visit.page.pdf()) > 20_000
        assert visit.wrong == []
