"""The viewer in a real browser: actions of a user, and datasets that attack the page."""

from __future__ import annotations

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
from tests.deep.docs.test_docs import DOCS, blocks_of
from tests.deep.viewer.datasets import N_FIELDS, SCRIPT, damage, write_hostile, write_kinds

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make .venv/deep")

REAL = Path(__file__).parents[2] / "golden" / "real"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
]
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
        code = self.process.wait(60)
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
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if "://127.0.0.1:" in request.url else wrong.append(request.url))
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
    for _ in range(1200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression}: {page.inner_text('main')[:500]}")


def waits_for(page: Any, selector: str, text: str) -> None:
    playwright.expect(page.locator(selector).first).to_contain_text(text, timeout=60_000)


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


def test_every_kind_of_value(page: Any, serve: Callable[..., Server], tmp_path: Path) -> None:
    opened(page, serve(str(write_kinds(tmp_path / "kinds"))))
    assert page.locator("tbody svg.spark").count() > 30
    assert page.locator("tbody canvas.heat").count() == 30
    page.click("tr[data-record='4']")
    until(page, "document.querySelector('#detail .whole')?.naturalWidth === 320")
    until(page, "document.querySelector('#detail audio')?.duration > 0.2")
    until(page, "document.querySelector('#detail video')?.videoWidth === 64")
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
    for key in ("2", "3"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    waits_for(page, ".scan", "Statistics of all")
    waits_for(page, ".facts", f"{N_FIELDS:,}")
    assert page.evaluate("window.hacked") is None


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
        until(page, f"document.querySelectorAll('#main [data-record]').length === {len(loader.trace(step))}")
        assert records(page) == [one.index for one in loader.trace(step)]
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


def test_tutorial_skips_the_bad_record(
    page: Any, serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the pictures of the tutorial if `DATAFORMATS_SCREENSHOTS` names a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(REAL.parent)
    blocks = [text for kind, text in blocks_of(DOCS / "tutorials" / "bad_records.md") if kind == "python"]
    exec("".join(blocks), {"__name__": "tutorial"})
    page.set_viewport_size({"width": 1000, "height": 720})
    opened(page, serve(str(tmp_path / "train.tfrecord"), "--state", str(tmp_path / "state.json"), "--step", "19"))
    until(page, "document.querySelector(\"[data-record='301']\")")
    page.locator("[data-record='301']").scroll_into_view_if_needed()
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
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    assert status(address) == 200
    assert status(address, Host="evil.example") == 403
    assert status(address.replace(token, token[:-1])) == 404
    assert status(address.replace(token, "")) == 404
    assert status(address + "static/../../app.py") == 404


def test_page_reports_an_ended_server(browser: Any) -> None:
    server = Server(str(REAL / "photos.tfrecord"))
    page = browser.new_page()
    opened(page, server)
    assert server.end() == 0
    page.keyboard.press("3")
    waits_for(page, ".notice", "The server has ended")
    page.close()
