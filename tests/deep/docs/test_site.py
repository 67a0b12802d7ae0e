"""The site of `make docs` in a browser: pages fit the window, and the search finds the page with the answer."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make .venv/deep")

SITE = Path(__file__).parents[3] / "docs" / "_build"
CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
FOUND = {
    "s3": "object-stores.html",
    "parquet": "formats/parquet.html",
    ".rec": "formats/recordio.html",
    "resume": "loading.html",
    "kill": "tutorials/training.html",
}
# The title of a column that must be in view, and the width of the page.
CUT = """() => [...document.querySelectorAll("th")]
    .filter((cell) => cell.textContent === "ratio" && cell.getBoundingClientRect().right > innerWidth)
    .length + (document.documentElement.scrollWidth > innerWidth ? 1 : 0)"""

WIDE = ("index", "performance", "which-format", "conversion", "viewer", "jobs")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium"),
    pytest.mark.skipif(not SITE.exists(), reason="no site: make docs"),
]


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page()
        browser.close()


def test_pages_link_their_example_files(page: Any) -> None:
    page.goto((SITE / "tutorials/training.html").as_uri())
    link = page.eval_on_selector(".example-files a", "link => link.href")
    with zipfile.ZipFile(link.removeprefix("file://")) as archive:
        assert "tests/golden/real/photos.tfrecord" in archive.namelist()


def test_pages_fit_the_window(page: Any) -> None:
    """Pages with wide tables, and every fifth one of the others."""
    paths = sorted(path for path in SITE.rglob("*.html") if path.name != "search.html")
    assert len(paths) > 80
    wide = [path for path in paths if path.parent == SITE and path.stem in WIDE]
    assert len(wide) == len(WIDE)
    wrong = []
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        for path in [*wide, *(paths[::5] if width == 400 else ())]:
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            if page.evaluate(CUT):
                wrong.append((path.relative_to(SITE).as_posix(), width))
    assert wrong == []


@pytest.mark.parametrize(("word", "expected"), FOUND.items())
def test_first_result(page: Any, word: str, expected: str) -> None:
    page.goto(f"{SITE.as_uri()}/search.html?q={word}")
    link = page.wait_for_selector("ul.search li a")
    assert link.get_attribute("href").partition("#")[0].partition("?")[0] == expected
