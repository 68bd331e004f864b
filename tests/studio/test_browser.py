"""The page of the studio in chromium: the loop, hostile data, other origins, keyboard, small screens."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from tests.support.report_data import HOSTILE
from tests.support.studio_page import (
    BROWSER_MARKS,
    DESK,
    PHONE,
    PICTURES,
    StudioPage,
    launch_browser,
    run_studio,
)

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("starlette", reason="the extra [studio] is not installed")
pytest.importorskip("uvicorn", reason="the extra [studio] is not installed")
pytestmark = BROWSER_MARKS
RULES = (
    ("keywords", "spam", {"words": "subscribe, my channel"}),
    ("regex", "spam", {"pattern": r"https?:|www\."}),
    ("keywords", "ham", {"words": "love, best, beautiful"}),
)


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as found:
        yield found


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def comments(tmp_path):
    """A file of 600 comments, and its rows."""
    texts = fs.datasets.simulate_comments(600, random_state=0).texts
    rows = [{"text": text, "likes": number % 7} for number, text in enumerate(texts)]
    return write_csv(tmp_path / "comments.csv", rows), rows


@pytest.fixture
def studio(comments):
    with run_studio(comments[0], "--classes", "ham,spam") as address:
        yield address


def fetch(visit, path):
    """JSON of the server, asked for by the page."""
    return visit.page.evaluate("async (path) => (await fetch(path)).json()", path)


def download(visit, name, directory):
    page = visit.page
    page.locator("#export > summary").click()
    with page.expect_download() as waiting:
        page.locator(f"#exports a[download='{name}']").click()
    path = directory / name
    waiting.value.save_as(path)
    return path


def load_rules(path):
    spec = importlib.util.spec_from_file_location("exported_rules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_items(visit):
    """All items as the server shows them, a page at a time."""
    items, total = [], 1
    while len(items) < total:
        answer = fetch(visit, f"/api/items?filter=all&offset={len(items)}&limit=50")
        items, total = items + answer["items"], answer["total"]
    return items


def check_export(rules, labels, items, data):
    """The exported rules cast the votes of the page, and give its labels."""
    votes = fs.apply(rules.FUNCTIONS, data, classes=rules.CLASSES)
    shown = [[-1 if vote is None else vote for vote in item["votes"]] for item in items]
    np.testing.assert_array_equal(np.asarray(votes.codes), shown)
    gold = [None if item["gold"] is None else rules.CLASSES[item["gold"]] for item in items]
    assert len(gold) - gold.count(None) == 10
    model = fs.LabelModel().fit(votes, gold=gold)
    covered = (np.asarray(votes.codes) >= 0).any(axis=1)
    shown = np.array([item["proba"] for item, has_votes in zip(items, covered, strict=True) if has_votes])
    np.testing.assert_allclose(model.predict_proba(votes)[covered], shown, atol=2e-4)
    with labels.open(encoding="utf-8", newline="") as file:
        written = [row["label"] for row in csv.DictReader(file)]
    shown_labels = ["" if item["label"] is None else rules.CLASSES[item["label"]] for item in items]
    assert written == shown_labels


def test_the_whole_loop(browser, studio, comments, tmp_path):
    with StudioPage.open(browser, studio) as visit:
        page = visit.page
        assert "600 items" in page.locator("#facts").inner_text()

        # Three rules, each with a preview; the table follows.
        tables = []
        for kind, label, fields in RULES:
            visit.add_rule(kind, label, **fields)
            tables.append(page.locator("#source-rows").inner_text())
        assert len(set(tables)) == len(RULES)
        page.locator("#source-rows td.accuracy:has-text('%')").nth(2).wait_for()
        assert all(text.endswith("%") for text in visit.cells("coverage"))

        # Ten gold labels by one key each.
        visit.show("Label next")
        page.locator("#items-count:has-text('label next')").wait_for()
        page.locator("#item-list .item").first.focus()
        for number in range(10):
            visit.label_current("2" if number % 3 else "1")
        page.locator("#facts:has-text('10 gold labels')").wait_for()
        page.locator("#comparison-h:has-text('10 gold labels')").wait_for()
        # After the last item of the list come ten others.
        page.locator("#item-list .key-button[aria-pressed=true]").first.wait_for(state="detached")
        assert page.locator("#item-list .item").count() == 10
        assert "Majority vote" in page.locator("#comparison").inner_text()

        # A suggestion is accepted, taken back and accepted again.
        card = page.locator("#suggestion-list .card").first
        card.wait_for()
        assert "Estimated precision" in card.inner_text()
        card.get_by_role("button", name="Accept").click()
        visit.rows.nth(3).wait_for()
        visit.rows.first.locator("td.coverage:has-text('%')").wait_for()
        with_suggestion = visit.rows.all_inner_texts()
        page.get_by_role("button", name="Undo").click()
        visit.rows.nth(3).wait_for(state="detached")
        page.get_by_role("button", name="Redo").click()
        visit.rows.nth(3).wait_for()
        visit.rows.first.locator("td.coverage:has-text('%')").wait_for()

        # A reload shows the same.
        visit.wait_for_quiet()
        names = page.locator("#source-rows .name").all_inner_texts()
        page.reload()
        visit.rows.nth(3).wait_for()
        visit.rows.first.locator("td.coverage:has-text('%')").wait_for()
        assert page.locator("#source-rows .name").all_inner_texts() == names
        assert len(with_suggestion) == visit.rows.count() == 4
        assert "10 gold labels" in page.locator("#facts").inner_text()

        # The exported rules cast the votes of the page, and the exported labels are those of the page.
        rules = load_rules(download(visit, "rules.py", tmp_path))
        labels = download(visit, "labels.csv", tmp_path)
        items = read_items(visit)
        assert visit.problems == []
    check_export(rules, labels, items, comments[1])


def test_rules_are_edited_disabled_and_deleted(browser, studio):
    with StudioPage.open(browser, studio) as visit:
        page = visit.page
        for kind, label, fields in RULES:
            visit.add_rule(kind, label, **fields)
        before = visit.row("subscribe, my channel").locator(".coverage").inner_text()
        page.get_by_role("button", name="Edit subscribe, my channel").click()
        assert page.input_value("#rule-words") == "subscribe, my channel"
        page.fill("#rule-words", "subscribe")
        page.click("#rule-submit")
        page.locator("#add-h:has-text('Add a rule')").wait_for()
        visit.wait_for_quiet()
        assert visit.rows.count() == 3
        assert visit.row("subscribe").locator(".coverage").inner_text() != before
        visit.row("subscribe").get_by_role("checkbox").uncheck()
        page.locator("#source-rows tr.disabled").wait_for()
        assert "2 of 3 sources enabled" in page.locator("#facts").inner_text()
        page.get_by_role("button", name="Delete subscribe").click()
        visit.rows.nth(2).wait_for(state="detached")
        assert visit.rows.count() == 2
        assert visit.problems == []


def test_errors_are_shown_next_to_the_field(browser, studio):
    with StudioPage.open(browser, studio) as visit:
        page = visit.page
        page.select_option("#rule-kind", "regex")
        page.fill("#rule-pattern", "(")
        page.locator("#rule-pattern-error:not([hidden])").wait_for()
        assert "regular expression" in page.locator("#rule-pattern-error").inner_text()
        assert page.get_attribute("#rule-pattern", "aria-invalid") == "true"
        page.fill("#rule-pattern", "song")
        page.locator("#preview:not([hidden])").wait_for()
        assert page.locator("#rule-pattern-error").is_hidden()
        # The browser writes refused requests to the console; nothing else may be there.
        assert all("400" in problem or "422" in problem for problem in visit.problems)


def test_catastrophic_pattern_does_not_hang_the_page(browser, tmp_path):
    rows = [{"text": "a" * 40 + "b", "n": number} for number in range(50)]
    data = write_csv(tmp_path / "slow.csv", rows)
    with run_studio(data, "--classes", "ham,spam") as address, StudioPage.open(browser, address) as visit:
        page = visit.page
        page.set_default_timeout(60_000)
        page.select_option("#rule-kind", "regex")
        page.fill("#rule-pattern", "(a+)+$")
        page.click("#rule-submit")
        # The page answers while the pattern runs: another search comes back at once.
        page.fill("#search", "aab")
        page.locator("#items-count:has-text('50 items')").wait_for(timeout=5_000)
        shown = page.locator("#source-rows .row-error:not([hidden]), #rule-form .error:not([hidden])")
        shown.first.wait_for()
        assert shown.first.inner_text().strip()


def test_items_are_found_and_explained(browser, studio):
    with StudioPage.open(browser, studio) as visit:
        page = visit.page
        for kind, label, fields in RULES:
            visit.add_rule(kind, label, **fields)
        page.fill("#search", "subscribe")
        page.locator("#item-list mark").first.wait_for()
        for text in page.locator("#item-list .text").all_inner_texts():
            assert "subscribe" in text.lower()
        page.fill("#search", "")
        visit.show("No votes")
        page.locator("#item-list .votes:has-text('No votes')").first.wait_for()
        visit.wait_for_quiet()
        assert set(page.locator("#item-list .votes").all_inner_texts()) == {"No votes"}
        visit.row(r"/https?:|www\./").locator(".name").click()
        page.locator("#filter-source:not([hidden])").wait_for()
        visit.wait_for_quiet()
        item = page.locator("#item-list .item").first
        item.get_by_role("button", name="Explain").click()
        item.locator(".why").wait_for()
        assert "www" in item.locator(".why").inner_text()
        # The filter survives a reload.
        page.reload()
        page.locator("#filter-source:not([hidden])").wait_for()
        assert visit.problems == []


def test_keyboard_reaches_everything(browser, studio):
    with StudioPage.open(browser, studio) as visit:
        page = visit.page
        page.locator("#item-list .item").nth(3).wait_for()
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        assert not page.locator("#help").is_visible()
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert page.locator(".item.current").get_attribute("data-key") == "1"
        visit.label_current("2")
        page.locator("[data-key='1'] .key-button[aria-pressed=true]:has-text('spam')").wait_for()
        page.keyboard.press("k")
        visit.label_current("u")
        page.locator("#facts:has-text('0 gold labels')").wait_for()
        page.keyboard.press("z")
        page.locator("#facts:has-text('1 gold label')").wait_for()
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        # Keys are text in a field.
        page.keyboard.type("12ju")
        assert page.input_value("#search") == "12ju"
        page.locator("#facts:has-text('1 gold label')").wait_for()
        assert visit.problems == []


# Lowest contrast of text with its background, and controls without a name.
ACCESSIBILITY = """
() => {
  const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const read = (text) => text.match(/[\\d.]+/g).map(Number);
  const background = (e) => {
    for (; e; e = e.parentElement) {
      const color = read(getComputedStyle(e).backgroundColor);
      if (color[3] !== 0) return color;
    }
    return [255, 255, 255];
  };
  const all = [...document.querySelectorAll("body *")];
  const shown = all.filter((e) => e.checkVisibility() && !e.closest(".hidden"));
  const texts = shown.filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  const contrasts = texts.filter((e) => !e.disabled).map((e) => {
    const [one, other] = [luminance(read(getComputedStyle(e).color)), luminance(background(e))];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  });
  const controls = shown.filter((e) => e.matches("button, input, select, a, summary"));
  const nameless = controls.filter((e) => {
    const label = e.labels && e.labels.length ? e.labels[0].textContent : "";
    return !(e.getAttribute("aria-label") || e.textContent.trim() || label.trim());
  });
  return [texts.length, Math.min(...contrasts), nameless.map((e) => e.outerHTML)];
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_controls_have_names(browser, studio, scheme):
    with StudioPage.open(browser, studio, scheme=scheme) as visit:
        for kind, label, fields in RULES:
            visit.add_rule(kind, label, **fields)
        visit.page.keyboard.press("Escape")
        visit.page.keyboard.press("n")
        visit.label_current("1")
        visit.page.locator("#suggestion-list .card").first.wait_for()
        n_texts, contrast, nameless = visit.page.evaluate(ACCESSIBILITY)
        assert n_texts > 100
        assert contrast >= 4.5  # AA of WCAG
        assert nameless == []
        landmarks = visit.page.locator("header, main, section[aria-labelledby], nav[aria-label]")
        assert landmarks.count() >= 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_hostile_data_does_not_execute_and_fits(browser, tmp_path, width, scheme):
    texts = [text.replace("\x00", "").replace("\ud800", "") for text in HOSTILE]
    name = "<img src=x onerror=alert(8)>"
    rows = [
        {"id": text[:50], "text": text, name: ["<b>ham", "spam'\">", ""][at % 3]}
        for at, text in enumerate(texts * 4)
    ]
    data = write_csv(tmp_path / "<b onclick=alert(9)>.csv", rows)
    with run_studio(data) as address, StudioPage.open(browser, address, width=width, scheme=scheme) as visit:
        page = visit.page
        page.locator("#item-list .item").nth(5).wait_for()
        if page.locator("#setup:not([hidden])").count():
            page.fill("#setup-classes", "<b>ham, spam'\">")
            page.click("#setup-form button")
        visit.add_rule("keywords", "<b>ham", words="<script>, x", name="</td><script>alert(10)</script>")
        page.locator("#item-list .item").first.get_by_role("button", name="Explain").click()
        page.locator("#item-list .inside:not([hidden])").first.wait_for()
        page.locator("#export > summary").click()
        visit.wait_for_quiet()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("main script, main img").count() == 0
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/studio-hostile-{width}-{scheme}.png", full_page=True)
        assert visit.problems == []


def test_other_origins_and_hosts_are_refused(browser, studio, tmp_path):
    origin, token = studio.split("/?token=")

    def status(path, **headers):
        request = urllib.request.Request(origin + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    port = origin.rsplit(":", 1)[1]
    cookie = {"Cookie": f"flyingsquid_studio_{port}={token}"}
    assert status("/api/state", **cookie) == 200
    assert status("/api/state") == 403
    assert status("/static/studio.js") == 403
    assert status("/api/state", Cookie=f"flyingsquid_studio_{port}=wrong") == 403
    assert status("/api/state", **cookie, Host="attacker.example") == 403
    assert status("/api/state", **cookie, Origin="http://attacker.example") == 403

    # A page of another origin, in the browser that is signed in.
    foreign = tmp_path / "foreign.html"
    foreign.write_text("<!DOCTYPE html><title>foreign</title>", encoding="utf-8")
    with StudioPage.open(browser, studio) as visit:
        page = visit.page.context.new_page()
        page.goto(foreign.as_uri())
        for method in ("GET", "POST"):
            answer = page.evaluate(
                """async ([address, method]) => {
                  try {
                    const body = method === "POST" ? "{}" : undefined;
                    return (await fetch(address, { method, credentials: "include", body })).status;
                  } catch (error) { return "refused"; }
                }""",
                [f"{origin}/api/{'undo' if method == 'POST' else 'state'}", method],
            )
            assert answer == "refused"
        frame = page.evaluate(
            """async (address) => new Promise((resolve) => {
              const frame = document.createElement("iframe");
              frame.addEventListener("load", () => {
                try { resolve(frame.contentDocument ? "readable" : "blocked"); } catch { resolve("blocked"); }
              });
              frame.src = address;
              document.body.append(frame);
            })""",
            origin + "/",
        )
        assert frame == "blocked"


def test_project_survives_a_restart(browser, comments):
    data, _ = comments
    with run_studio(data, "--classes", "ham,spam") as address, StudioPage.open(browser, address) as visit:
        visit.add_rule("keywords", "spam", words="subscribe")
    with run_studio(data) as address, StudioPage.open(browser, address) as visit:
        visit.rows.first.locator("td.coverage:has-text('%')").wait_for()
        assert visit.page.locator("#source-rows .name").all_inner_texts() == ["subscribe"]
        assert visit.problems == []


def test_page_reports_a_lost_connection_and_a_new_token(browser, comments):
    data, _ = comments
    with contextlib.ExitStack() as stack:
        with run_studio(data, "--classes", "ham,spam") as address:
            visit = stack.enter_context(StudioPage.open(browser, address))
        lost = visit.page.locator("#connection:not([hidden])")
        lost.wait_for()
        assert "Connection lost" in lost.inner_text()
        port = address.split("/?")[0].rsplit(":", 1)[1]
        with run_studio(data, "--port", port):
            visit.page.locator("#connection:has-text('Open the address')").wait_for()


def test_two_pages_follow_each_other(browser, studio):
    with StudioPage.open(browser, studio) as one, StudioPage.open(browser, studio) as two:
        one.add_rule("keywords", "spam", words="subscribe")
        two.rows.first.wait_for()
        two.page.get_by_role("button", name="Undo").click()
        one.rows.first.wait_for(state="detached")
        assert one.problems == two.problems == []


def test_project_file_is_the_only_file_written(browser, comments):
    data, _ = comments
    before = {path.name for path in data.parent.iterdir()}
    with run_studio(data, "--classes", "ham,spam") as address, StudioPage.open(browser, address) as visit:
        visit.add_rule("keywords", "spam", words="subscribe")
    (written,) = {path.name for path in data.parent.iterdir()} - before
    assert written == "comments.studio.json"
    json.loads((data.parent / written).read_text(encoding="utf-8"))


def test_classes_are_named_renamed_and_the_text_column_is_chosen(browser, tmp_path):
    rows = [{"title": f"Title {at}", "text": f"The text of item {at}"} for at in range(30)]
    data = write_csv(tmp_path / "two.csv", rows)
    with run_studio(data) as address, StudioPage.open(browser, address) as visit:
        page = visit.page
        assert page.locator("#add").is_hidden()
        page.fill("#setup-classes", "ham")
        page.keyboard.press("Enter")
        assert "two different classes" in page.locator("#setup-error").inner_text()
        page.fill("#setup-classes", "ham, spam")
        page.keyboard.press("Enter")
        page.locator("#add").wait_for()
        visit.add_rule("keywords", "spam", words="item 7")
        assert "The text of item 0" in page.locator("#item-list .item").first.inner_text()
        page.select_option("#text-column", "title")
        page.locator("#item-list .text:has-text('Title 0')").wait_for()
        page.click("#classes-open")
        page.fill("#setup-classes", "good, bad, other")
        page.keyboard.press("Enter")
        page.locator("#source-rows .chip:has-text('bad')").wait_for()
        assert page.locator("#rule-label option").all_inner_texts() == ["good", "bad", "other"]
        assert visit.problems == []
