"""The viewer in a real browser: actions of a user, and datasets that attack the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.viewer.card import export_card
from dataformats.viewer.dataset import ViewedDataset
from dataformats.viewer.snippets import Snippets
from dataformats.viewer.sql import quoted
from tests.deep.viewer.datasets import IMAGE, N_FIELDS, NAMES, SCRIPT, damage, write_hostile, write_kinds

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make .venv/deep")
axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed: make .venv/deep")

REAL = Path(__file__).parents[2] / "golden" / "real"
TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "bad_records.md"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
]
OWN = re.compile(r"http://127\.0\.0\.1:|file:|data:image/(jpeg|png);base64,")
DIGITS = ("--spec", "image=uint8[8,8]", "--spec", "label=int64")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")


class Server:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "dataformats", "view", *arguments, "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http\S+", self.process.stdout.readline())
        assert found is not None
        self.address = found[0]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(240)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Server]]:
    servers: dict[tuple[str, ...], Server] = {}

    def served(*arguments: str) -> Server:
        if arguments not in servers:
            servers[arguments] = Server(*arguments)
        return servers[arguments]

    yield served
    assert {server.end() for server in servers.values()} <= {0}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that may log no error and ask no other host."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(240_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if OWN.match(request.url) else wrong.append(request.url))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield page
    context.close()
    assert wrong == []


def opened(page: Any, server: Server, place: str = "") -> Any:
    page.goto(server.address + place)
    page.wait_for_selector("#main [data-record], #main .overview")
    return page


def records(page: Any) -> list[int]:
    numbers: list[int] = page.eval_on_selector_all(
        "#main [data-record]", "rows => rows.map((row) => +row.dataset.record)"
    )
    return numbers


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true; the page's policy forbids playwright's own way."""
    while_running(page, lambda: page.evaluate(expression), expression)


def while_running(page: Any, condition: Callable[[], object], what: str) -> None:
    """Wait until a condition is true, while the page runs."""
    for _ in range(4800):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{what}: {page.inner_text('main')[:500]}")


def until_shown(page: Any, numbers: list[int]) -> None:
    """Wait until the table shows these records."""
    shown = "[...document.querySelectorAll('#main [data-record]')].map((row) => row.dataset.record).join()"
    until(page, f"{shown} === '{','.join(map(str, numbers))}'")


def waits_for(page: Any, selector: str, text: str) -> None:
    playwright.expect(page.locator(selector).first).to_contain_text(text, timeout=240_000)


def test_pages_jumps_and_keys(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    waits_for(page, "#place", "0 – 49 of 1,797")
    page.keyboard.press("n")
    waits_for(page, "#place", "50 – 99")
    page.keyboard.press("End")
    waits_for(page, "#place", "1,750 – 1,796")
    page.keyboard.press("g")
    page.keyboard.type("1234")
    page.keyboard.press("Enter")
    waits_for(page, "#detail h2", "Record 1,234")
    assert 1234 in records(page)
    playwright.expect(page.locator("tr[data-record='1234']")).to_be_focused()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#detail")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    waits_for(page, "#detail h2", "Record 1,235")
    page.keyboard.press("k")
    waits_for(page, "#detail h2", "Record 1,234")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#detail")).to_be_hidden()
    page.keyboard.press("?")
    waits_for(page, "#help", "next and previous page")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 20, 22)"
    page.keyboard.press("2")
    until(page, "[...document.querySelectorAll('.picture')].filter((one) => one.naturalWidth === 8).length > 5")
    page.reload()
    page.wait_for_selector(".gallery")
    waits_for(page, "#place", "1,200 – 1,249")
    page.fill("#number", "1797")
    page.press("#number", "Enter")
    waits_for(page, ".notice", "from 0 to 1,796")


def test_links_behind_the_end_show_the_last_page(page: Any, serve: Callable[..., Server]) -> None:
    """A file may have become shorter."""
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS), "#first=5000")
    waits_for(page, "#place", "1,750 – 1,796")
    page.goto("about:blank")
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS), "#first=5000&filter=label+%3D+3")
    waits_for(page, "#place", "151 – 183 of 183 matches")


def test_a_filter(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    page.keyboard.press("/")
    page.keyboard.type("label = 3 and record < 40")
    page.keyboard.press("Enter")
    waits_for(page, "#place", "1 – 3 of 3 matches")
    assert records(page) == [3, 13, 23]
    page.fill("#condition", "labl = 3")
    page.press("#condition", "Enter")
    waits_for(page, ".empty", "nearest: label")
    page.fill("#condition", f"label = 3 -- {'é' * 10_000}")
    page.press("#condition", "Enter")
    waits_for(page, ".empty", "The request is too long")
    page.fill("#condition", "label = 77")
    page.press("#condition", "Enter")
    waits_for(page, ".empty", "No record matches")
    page.click("text=Show all records")
    waits_for(page, "#place", "0 – 49 of 1,797")


def test_distributions_and_the_largest_images(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS), "#view=overview")
    waits_for(page, ".scan", "Statistics of all 1,797 records")
    waits_for(page, ".sound", "No damaged record")
    assert page.locator(".common li").count() == 10
    waits_for(page, ".common li", "183")
    page.click(".common .value >> text=3")
    waits_for(page, "#place", "of 183 matches")
    assert page.input_value("#condition") == "label = 3"
    opened(page, serve(str(REAL / "photos.tfrecord")), "#view=overview")
    card = page.locator(".card", has_text="image")
    card.get_by_text("Show them").click()
    page.wait_for_selector(".gallery")
    waits_for(page, "#place", "1 – 10 of 10 largest image")
    sizes = page.eval_on_selector_all(".picture", "all => all.map((one) => parseFloat(one.title.split(', ')[1]))")
    assert len(sizes) == 10
    assert sizes == sorted(sizes, reverse=True)


def test_back_and_forward_return_to_each_place(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    waits_for(page, "#place", "0 – 49 of 1,797")
    start = page.evaluate("history.length")
    actions: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: page.keyboard.press("n"), "#place", "50 – 99 of 1,797"),
        (lambda: page.keyboard.press("n"), "#place", "100 – 149 of 1,797"),
        (lambda: page.click("tr[data-record='102']"), "#detail h2", "Record 102"),
        (lambda: page.click("th:has-text('label') .sort"), "th[aria-sort='ascending'] .name", "label"),
        (lambda: page.fill("#condition", "label > 7"), "#place", "1,797"),
        (lambda: page.press("#condition", "Enter"), "#place", "of 354 matches"),
        (lambda: page.click("[data-view='overview']"), ".scan", "Statistics of all 1,797"),
    ]
    places = [page.url]
    for act, selector, text in actions:
        act()
        waits_for(page, selector, text)
        if page.url != places[-1]:
            places.append(page.url)
    assert page.evaluate("history.length") - start == len(places) - 1 == 6
    for move, targets in ((page.go_back, places[-2::-1]), (page.go_forward, places[1:-1])):
        for place in targets:
            move()
            page.wait_for_url(place)
    waits_for(page, "#place", "of 354 matches")
    waits_for(page, "#detail", "Record 102")
    labels = labels_of_digits()
    order = sorted((n for n, label in enumerate(labels) if label > 7), key=labels.__getitem__)[:50]
    until_shown(page, order)
    page.reload()
    until_shown(page, order)
    assert page.input_value("#condition") == "label > 7"
    page.go_back()
    waits_for(page, "#place", "of 1,797")
    page.go_back()
    playwright.expect(page.locator("th[aria-sort]")).to_have_count(0)
    page.go_back()
    playwright.expect(page.locator("#detail")).to_be_hidden()


def test_going_back_before_a_sort_has_started(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    waits_for(page, "#place", "0 – 49 of 1,797")
    page.fill("#condition", "label > 7")
    page.press("#condition", "Enter")
    waits_for(page, "#place", "of 354 matches")
    held: list[Any] = []
    page.route("**/api/sort*", lambda route: held.append(route))
    page.click("th:has-text('label') .sort")
    while_running(page, lambda: held, "a sort starts")
    page.go_back()
    page.go_back()
    page.wait_for_timeout(300)
    held[0].continue_()  # asks for a sort of the matches of a filter that the page no longer wants
    waits_for(page, "#place", "0 – 49 of 1,797")
    until_shown(page, list(range(50)))
    playwright.expect(page.locator("th[aria-sort]")).to_have_count(0)


def test_steps_through_records_are_one_entry(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS), "#field=label&first=40&count=25")
    assert page.locator("thead th").count() == 2
    page.keyboard.press("Enter")
    waits_for(page, "#detail h2", "Record 40")
    before = page.evaluate("history.length")
    for record in range(41, 68):
        page.keyboard.press("j")
        waits_for(page, "#detail h2", f"Record {record}")
    page.wait_for_url(re.compile("record=67"))
    assert page.evaluate("history.length") == before
    page.go_back()
    playwright.expect(page.locator("#detail")).to_be_hidden()
    waits_for(page, "#place", "40 – 64 of 1,797")
    page.goto(page.url.partition("#")[0] + "#field=lable")
    waits_for(page, ".notice", "fields that this dataset lacks: lable")


def test_sorted_columns(page: Any, serve: Callable[..., Server]) -> None:
    labels = [record["label"] for record in dataformats.open(str(REAL / "digits-*.tfrecord"))]
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    playwright.expect(page.locator(".sort")).to_have_count(1)  # images have no order
    for direction in ("ascending", "descending"):
        order = sorted(range(len(labels)), key=labels.__getitem__, reverse=direction == "descending")
        page.click("th:has-text('label') .sort")
        playwright.expect(page.locator(f"th[aria-sort='{direction}']")).to_have_count(1)
        until_shown(page, order[:50])
        page.keyboard.press("n")
        until(page, f"document.querySelector('#main [data-record]')?.dataset.record === '{order[50]}'")
    page.click("th:has-text('label') .sort")
    until(page, "document.querySelector('#main [data-record]')?.dataset.record === '0'")
    playwright.expect(page.locator("th[aria-sort]")).to_have_count(0)


def test_two_pages_sort_and_filter_at_once(page: Any, serve: Callable[..., Server]) -> None:
    server = serve(str(REAL / "digits-*.tfrecord"), *DIGITS)
    other = page.context.new_page()
    opened(page, server, "#filter=label+%3D+3&ascending=label")
    opened(other, server, "#filter=label+%3D+4&descending=label")
    for one, first in ((page, 3), (other, 4)):
        waits_for(one, "#place", f"of {sum(label == first for label in labels_of_digits())} matches")
        assert records(one)[:2] == [index for index, label in enumerate(labels_of_digits()) if label == first][:2]
    other.close()


def labels_of_digits() -> list[int]:
    return [record["label"] for record in dataformats.open(str(REAL / "digits-*.tfrecord"))]


def test_bars_of_histograms_filter(page: Any, serve: Callable[..., Server]) -> None:
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    page.wait_for_selector("th[data-field='1'] .histogram")
    box = page.locator("th[data-field='1'] .histogram").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.45 * box["width"], box["y"] + 30)
    page.mouse.up()
    counts = [sum(label == one for label in labels_of_digits()) for one in range(10)]
    waits_for(page, "#place", f"of {sum(counts[2:5])} matches")
    assert page.input_value("#condition") == "label >= 2 and label < 5"
    page.locator("th[data-field='1'] .histogram").click(position={"x": 0.35 * box["width"], "y": 10})
    waits_for(page, "#place", f"of {counts[3]} matches")
    assert page.input_value("#condition") == "label >= 2 and label < 5 and label >= 3 and label < 4"


def test_export_downloads_and_copies(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, serve(str(REAL / "photos.tfrecord")), "#filter=width+%3E+300&ascending=width&field=name&field=width")
    waits_for(page, "#place", "matches")
    page.keyboard.press("e")
    page.locator(".snippet", has_text="Copy as Python").get_by_role("button").click()
    waits_for(page, ".snippet button", "Copied")
    names: dict[str, Any] = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    assert len(names["records"]) > 1
    with page.expect_download() as started:
        page.click("#exporter button:text('JSON lines')")
    started.value.save_as(tmp_path / "records.jsonl")
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["width"] for line in lines] == [record["width"] for record in names["records"]]


def test_every_kind_of_value(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    opened(page, serve(str(write_kinds(tmp_path / "kinds"))))
    assert page.locator("tbody svg.spark").count() > 30
    assert page.locator("tbody canvas.heat").count() == 30
    assert page.locator("tbody tr[data-record='4'] .code ~ img.thumb").count() == 2  # in a document
    page.click("tr[data-record='4']")
    until(page, "document.querySelector('#detail .whole')?.naturalWidth === 320")
    until(page, "document.querySelector('#detail audio')?.duration > 0.2")
    until(page, "document.querySelector('#detail video')?.videoWidth === 64")
    until(page, "document.querySelectorAll('#detail .items .whole')[1]?.naturalWidth === 320")
    assert page.locator("#detail .tree summary").count() >= 2
    waits_for(page, "#detail .is-array", "float32[400], 400 values")
    page.keyboard.press("3")
    waits_for(page, ".scan", "Statistics of all 30 records")


def test_damage_is_found_and_explained(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    copy = tmp_path / "photos.tfrecord"
    shutil.copy(REAL / "photos.tfrecord", copy)
    damage(copy, 7)
    opened(page, serve(str(copy)))
    waits_for(page, "tr.damaged", "ChecksumError")
    assert records(page) == list(range(12))
    page.keyboard.press("3")
    waits_for(page, ".problem", "1 damaged record")
    waits_for(page, "#damage", "1 damaged")
    page.click(".problem .link")
    waits_for(page, "#detail h2", "Record 7")
    waits_for(page, "#detail .problem", "ChecksumError")


def test_nothing_is_exported_without_fields(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": \n' * 3)
    opened(page, serve(str(tmp_path / "x.jsonl"), "--format", "jsonl"))
    page.keyboard.press("e")
    waits_for(page, "#exporter .bad", "no field is shown")


def test_a_hostile_dataset(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    opened(page, serve(str(write_hostile(tmp_path / "hostile.tfrecord"))))
    waits_for(page, "thead", "<script>window.hacked = 1</script>")
    waits_for(page, "tr.damaged", "ChecksumError")
    assert len(records(page)) == 8
    assert page.locator("thead th").count() == 13
    page.click("tr[data-record='5']")
    waits_for(page, "#detail", "the first 100,000 of 10,000,000 bytes")
    page.locator("#detail summary").nth(1).click()  # a key "__proto__"
    waits_for(page, "#detail .tree details details", SCRIPT)
    page.keyboard.press("f")
    page.fill("#chooser input[type=search]", "field1991")
    page.check("#chooser li input")
    page.click("#chooser header button")
    playwright.expect(page.locator("thead")).to_contain_text("field1991")
    page.keyboard.press("e")
    waits_for(page, ".snippet", "__proto__")
    with page.expect_download() as started:
        page.click("#exporter button:text('JSON lines')")
    waits_for(page, ".notice", "1 damaged record left out")
    assert len(Path(started.value.path()).read_text().splitlines()) == 7
    page.click("th:has-text('javascript:') .sort")
    until(page, "document.querySelector('#main [data-record]').dataset.record !== '0'")
    assert records(page)[-1] == 3
    for key in ("2", "3"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    waits_for(page, ".scan", "Statistics of all")
    waits_for(page, ".facts", f"{N_FIELDS:,}")
    assert page.evaluate("window.hacked") is None


def test_answer_cut_short_is_an_error(page: Any, serve: Callable[..., Server]) -> None:
    """The page keeps its rows: they are drawn again."""
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS))
    page.route("**/api/records?*", lambda route: route.fulfill(status=200, body='{"rows": ['))
    page.keyboard.press("n")
    waits_for(page, "[data-notice='records']", "JSON")
    for key in ("2", "1"):
        page.keyboard.press(key)
    assert records(page) == list(range(50))


def test_views_drawn_before_new_fields_arrive(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    """They have the old rows."""
    opened(page, serve(str(write_hostile(tmp_path / "hostile.tfrecord"))))
    waits_for(page, "tr.damaged", "ChecksumError")
    held: list[Any] = []
    page.route("**/api/records?*", lambda route: held.append(route))  # a built-in method is refused
    page.keyboard.press("f")
    page.fill("#chooser input[type=search]", "field1991")
    page.check("#chooser li input")
    page.click("#chooser header button")
    for key in ("2", "1"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    while_running(page, lambda: held, "records are requested")
    page.unroute("**/api/records?*")
    page.reload()
    playwright.expect(page.locator("thead")).to_contain_text("field1991")


def test_steps_of_a_run_give_a_skip_list(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    source = dataformats.open(str(REAL / "digits-*.tfrecord"))
    loader = dataformats.Loader(source, 4, seed=7, world_size=2)
    state = str(REAL / "state.json")
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS, "--state", state, "--step", "12"))
    for button, step in (("", 12), ("Next step", 13), ("Previous step", 12)):
        if button:
            page.click(f"button[aria-label='{button}']")
        waits_for(page, "#run", f"Step {step}")
        waits_for(page, "#place", f"of step {step}")
        expected = [one.index for one in loader.trace(step)]
        until(page, f"document.querySelector('#main [data-record]')?.dataset.record === '{expected[0]}'")
        assert records(page) == expected
    waits_for(page, "#run code", "loader.skip(96, 104)")
    page.select_option("#run select", "1")
    waits_for(page, "#place", "of step 12, rank 1")
    waits_for(page, "#run code", "loader.skip(100, 104)")
    bad = [one.index for one in loader.trace(12) if one.rank == 1][:2]
    until(page, f"+document.querySelector('#main [data-record]').dataset.record === {bad[0]}")
    for record in (*bad, bad[1], bad[1]):  # the last one is removed, and added again
        page.click(f"tr[data-record='{record}']")
        waits_for(page, "#detail h2", f"Record {record:,}")
        page.click("text=Skip record")
    with page.expect_download() as started:
        page.click("text=Download skip list of 2 records")
    started.value.save_as(tmp_path / "skip.json")
    second = dataformats.Loader(source, 4, seed=7, skip=tmp_path / "skip.json")
    assert second.state_dict()["skip_list"] == loader.skip_list(bad).digest


def test_comparison_shows_both_values(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    first, second = write_hostile(tmp_path / "a.tfrecord"), tmp_path / "b.tfrecord"
    shutil.copy(first, second)
    damage(second, 6)
    with dataformats.create(tmp_path / "c.tfrecord", spec={NAMES[0]: "utf8", "more": "int64"}) as writer:
        writer.extend({NAMES[0]: "same" if i % 2 else IMAGE, "more": i} for i in range(30))
    page.goto(serve(str(first), "--against", str(second)).address)
    waits_for(page, "#progress", "8 and 8 records: 2 differ, 2 cannot be read")
    waits_for(page, ".difference .differs", "checksum of a record")
    assert page.locator(".difference h3 .name").all_inner_texts() == ["Record 3", "Record 6"]
    page.goto(serve(str(tmp_path / "c.tfrecord"), "--against", str(first)).address)
    waits_for(page, "#types", SCRIPT)
    waits_for(page, "#progress", "30 and 8 records: 30 differ, 1 cannot be read")
    waits_for(page, ".difference .differs", f"≠ {SCRIPT}")
    waits_for(page, ".difference .differs td:nth-child(2)", IMAGE)
    page.keyboard.press("End")
    waits_for(page, "#place", "21 – 30 of 30")
    waits_for(page, ".difference .differs", "There is no such record.")
    page.reload()
    waits_for(page, "#place", "21 – 30 of 30")
    page.keyboard.press("p")
    waits_for(page, "#place", "11 – 20 of 30")
    waits_for(page, ".difference h3 .name", "Record 10")  # the place is shown before its records arrive
    with page.context.expect_page() as opening:
        page.locator(".difference >> text=Open in A").first.click()
    waits_for(opening.value, "#detail h2", "Record 10")
    assert page.evaluate("window.hacked") is None


def serious_faults(page: Any, part: str = "html") -> list[tuple[str, str, list[str]]]:
    """Return the serious faults that axe-core finds in a part of a page: in light, and in dark those of contrast."""
    if page.evaluate("!window.axe"):
        page.evaluate(axe.AXE_SCRIPT)
    found = []
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=scheme)
        options = {"resultTypes": ["violations"], "preload": False} | ({} if rules is None else {"runOnly": rules})
        answer = page.evaluate("([part, options]) => axe.run(part, options)", [part, options])
        faults = [one for one in answer["violations"] if one["impact"] in ("serious", "critical")]
        found += [(f"{page.url} {part} {scheme}", one["id"], [node["html"] for node in one["nodes"]]) for one in faults]
    return found


def test_pages_are_accessible(browser: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    kinds, damaged = write_kinds(tmp_path / "kinds", 2), tmp_path / "photos.tfrecord"
    shutil.copy(REAL / "photos.tfrecord", damaged)
    damage(damaged, 7)
    export_card(ViewedDataset(str(kinds)), tmp_path / "card", 50)
    page = browser.new_page(bypass_csp=True, reduced_motion="reduce")
    opened(page, serve(str(kinds)))
    found = serious_faults(page)
    for key, part in (("Enter", "#detail"), ("2", ".gallery"), ("?", "#help"), ("f", "#chooser"), ("e", "#exporter")):
        page.keyboard.press("Escape")
        page.keyboard.press(key)
        page.wait_for_selector(f"{part} *")
        found += serious_faults(page, part)
    opened(page, serve(str(damaged)), "#view=overview")
    page.wait_for_selector(".problem")
    found += serious_faults(page, "#main")
    page.keyboard.press("1")
    page.wait_for_selector("tr.damaged")
    found += serious_faults(page, "#main")
    state = ("--state", str(REAL / "state.json"), "--step", "12")
    opened(page, serve(str(REAL / "digits-*.tfrecord"), *DIGITS, *state))
    page.click("text=Skip record")
    found += serious_faults(page, "body")
    page.goto(serve(str(damaged), "--against", str(REAL / "digits-*.tfrecord")).address)
    page.wait_for_selector(".difference")
    found += serious_faults(page)
    page.goto(f"file://{tmp_path / 'card' / 'index.html'}")
    found += serious_faults(page)
    page.close()
    assert found == []


def test_card_opens_from_a_file(page: Any, tmp_path: Path) -> None:
    for path in (write_hostile(tmp_path / "x.tfrecord"), write_kinds(tmp_path / "kinds")):
        export_card(ViewedDataset(str(path)), tmp_path / f"card of {path.name}", 50)
        page.goto(f"file://{tmp_path}/card of {path.name}/index.html")
        waits_for(page, "h1", path.name)
    until(page, "[...document.images].length === 90 && [...document.images].every((one) => one.naturalWidth > 0)")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 246, 244)"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 20, 22)"


def test_tutorial_skips_the_bad_record(
    page: Any, serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the pictures of the tutorial if `DATAFORMATS_SCREENSHOTS` names a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(REAL.parent)
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(cells) > 8
    exec("".join(cell for cell in cells if not re.search(r"%%sh|plt", cell)), {"__name__": "tutorial"})
    page.set_viewport_size({"width": 1000, "height": 720})
    opened(page, serve(str(tmp_path / "train.tfrecord"), "--state", str(tmp_path / "state.json"), "--step", "19"))
    row = "document.querySelector(\"[data-record='301']\")"
    until(page, f"{row} && ({row}.scrollIntoView(), true)")  # in one step: the table is drawn again when more arrives
    assert "null" not in page.inner_text("#run")
    picture(page, "step")
    page.click("[data-record='301']")
    waits_for(page, "#detail h2", "Record 301")
    page.click("text=Skip record")
    waits_for(page, "#run", "Download skip list of 1 record")
    assert page.eval_on_selector_all(".skipped", "rows => rows.map((row) => row.dataset.record)") == ["301"]
    picture(page, "skip")


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("DATAFORMATS_SCREENSHOTS"):
        page.wait_for_timeout(500)  # images are loaded one by one
        page.screenshot(path=Path(folder) / f"bad_records_{name}.png")


def test_the_address_needs_token_and_host(serve: Callable[..., Server]) -> None:
    address = serve(str(REAL / "photos.tfrecord")).address
    *_, token, _ = address.split("/")

    def status(url: str, **headers: str) -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=240) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    assert status(address) == 200
    assert status(address, Host="evil.example") == 403
    assert status(address.replace(token, token[:-1])) == 404
    assert status(address.replace(token, "")) == 404
    assert status(address + "static/../../app.py") == 404


def test_links_outlive_a_server_with_a_token(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, token = str(REAL / "photos.tfrecord"), "0123456789-abcdef_"
    server = Server(path, "--token", token)
    page = browser.new_page()
    opened(page, server, "#filter=width+%3E+300&ascending=name")
    photos = dataformats.open(path)
    order = sorted((n for n, one in enumerate(photos) if one["width"] > 300), key=lambda n: photos[n]["name"])
    until_shown(page, order)  # the sort ends after the filter
    port = re.findall(r":(\d+)/", server.address)[0]
    assert server.end() == 0
    monkeypatch.setenv("DATAFORMATS_TOKEN", token)
    again = Server(path, "--port", port)
    assert again.address == server.address
    page.reload()
    until_shown(page, order)
    page.close()
    assert again.end() == 0


def test_copied_command_runs_in_bash(tmp_path: Path) -> None:
    names = ("a\nb'c", "$(exit 9)", "\\x\u202e", "\x1b[2J")
    with dataformats.create(tmp_path / "x y.tfrecord", spec=dict.fromkeys(names, "int64")) as writer:
        writer.extend(dict.fromkeys(names, index) for index in range(3))
    condition = " + ".join(quoted(name) for name in names) + " > 4"
    chosen = Snippets(ViewedDataset(str(tmp_path / "x y.tfrecord")), names, condition)
    assert chosen.command().isprintable() or chosen.command()[:-1].isprintable()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    printed = subprocess.run(["bash", "-c", chosen.command()], capture_output=True, env=environment, check=True).stdout
    assert [json.loads(line) for line in printed.splitlines()] == [dict.fromkeys(names, 2)]


def test_page_reports_an_ended_server(browser: Any) -> None:
    server = Server(str(REAL / "photos.tfrecord"))
    page = browser.new_page()
    opened(page, server)
    assert server.end() == 0
    page.keyboard.press("3")
    waits_for(page, ".notice", "The server has ended")
    page.close()
