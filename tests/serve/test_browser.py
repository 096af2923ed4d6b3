"""The pages in a real browser: accessible at two widths, light and dark, by keyboard alone; and their pictures.

With ``SCREENSHOTS=docs/images`` the pictures are kept there.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import axe_core_python
import numpy as np
import pandas as pd
import pytest
import uvicorn
from tests.serve.conftest import TOKEN, populated

from discreet import Boolean, LogisticRegression, Numeric, Schema
from discreet.ledger import Ledger, open_book
from discreet.ledger.sqlite import SQLiteStore
from discreet.serve import application

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
TAB, ENTER = "\ue004", "\ue007"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Browser:
    """One session of Chromium, driven over the WebDriver protocol."""

    def __init__(self, port: int, profile: Path, binary: str) -> None:
        self.address = f"http://127.0.0.1:{port}/session"
        options = {"binary": binary, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.address += "/" + self._send("", asked)["sessionId"]

    def _send(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def close(self) -> None:
        self._send("", method="DELETE")

    def command(self, name: str, **words: Any) -> Any:
        return self._send("/goog/cdp/execute", {"cmd": name, "params": words})

    def open(self, url: str) -> None:
        self._send("/url", {"url": url})

    def run(self, script: str) -> Any:
        return self._send("/execute/sync", {"script": script, "args": []})

    def look(self, width: int, scheme: str) -> None:
        """Be a screen of this width, on which pages are light or dark."""
        self.command("Emulation.clearDeviceMetricsOverride")  # a picture beyond the screen leaves another size behind
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def keys(self, text: str) -> None:
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._send("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def picture(self) -> bytes:
        """The whole page, up to a height of 3200."""
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 3200), "scale": 1}
        shot = self.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    driver, binary = shutil.which("chromedriver"), shutil.which("chromium")
    assert driver, "chromedriver is not installed: `make test` installs it"
    assert binary, "chromium is not installed: `make test` installs it"
    port, profile = free_port(), Path(tempfile.mkdtemp(prefix="discreet-chromium-"))
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    one = Browser(port, profile, binary)
    yield one
    one.close()
    process.terminate()
    process.wait()
    shutil.rmtree(profile, ignore_errors=True)


class Clock:
    """A clock that goes on by a week at every look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 8, 31, 8, 30, tzinfo=UTC)

    def now(self, zone: tzinfo) -> datetime:
        self._now += timedelta(days=7)
        return self._now.astimezone(zone)


def a_year_of_fits(folder: Path) -> tuple[Path, Path]:
    """The ledger of `populated`, and a fitted model's certificate: what readers of the documentation see."""
    place, certificates = populated(folder)
    (certificates / "model.certificate.json").unlink()
    clinic, random = Ledger(place, dataset="clinic"), np.random.default_rng(1)
    table = pd.DataFrame({"age": random.uniform(18, 90, 12_000), "dose": random.uniform(0, 9, 12_000)})
    schema = Schema({"age": Numeric(18, 90), "dose": Numeric(0, 10, bounds_epsilon=0.1), "relapse": Boolean()})
    model = LogisticRegression(0.9, 1e-7, schema=schema, solver="descent", ledger=clinic)
    model.fit(table, pd.Series(table["age"] + 8 * table["dose"] > 80, name="relapse"))
    (certificates / "model.certificate.json").write_text(model.privacy_.to_json(), encoding="utf-8")
    return place, certificates


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server of a ledger, whose pictures show an address that is no test's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteStore, "url", property(lambda store: f"sqlite:////srv/privacy/{store.path.name}"))
        patch.setattr(open_book, "datetime", Clock())
        place, folder = a_year_of_fits(tmp_path_factory.mktemp("site"))
        port = free_port()
        pages = application(place, token=TOKEN, certificates=folder)
        server = uvicorn.Server(uvicorn.Config(pages, port=port, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server did not start")


PAGES = {
    "overview-page": "/",
    "ledger-page": "/dataset?name=clinic",
    "what-if-page": "/what-if?dataset=clinic&epsilon=0.2&delta=1e-9&times=12",
    "certificate-page": "/certificates/model.certificate.json",
}
KEPT = ("ledger-page", "certificate-page")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_at_both_widths_light_and_dark(
    browser: Browser, address: str, tmp_path: Path, name: str, width: int
) -> None:
    for scheme in ("dark", "light"):
        browser.look(width, scheme)
        browser.open(address + PAGES[name])
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run("return getComputedStyle(document.body).fontSize") == "16px"  # the styles are applied
        found = browser.run(AXE + ";return axe.run().then(found => found.violations.map("
                            "one => [one.id, one.nodes.map(node => node.html)]))")  # fmt: skip
        assert found == []
        assert "pytest" not in browser.run("return document.body.textContent")
        kept = name in KEPT and scheme == "light"
        folder = Path(os.environ.get("SCREENSHOTS", tmp_path)) if kept else tmp_path
        file = folder / f"{name}{'' if width > 600 else '-phone'}.png"
        file.write_bytes(browser.picture())
        assert file.stat().st_size > 10_000


def test_freezing_by_keyboard_alone(browser: Browser, address: str) -> None:
    browser.look(1280, "light")
    browser.open(address + "/dataset?name=survey")
    stops = []
    for _ in range(30):
        browser.keys(TAB)
        stops.append(browser.run("return document.activeElement.id || document.activeElement.textContent"))
        outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"  # where the focus is can be seen
        if stops[-1] == "token":
            break
    assert stops[0] == "Skip to the content"
    assert [one for one in stops if one in ("epsilon", "delta", "times", "note")] == [
        "epsilon",
        "delta",
        "times",
        "note",
    ]
    assert browser.run("return document.querySelector('.frozen') !== null")
    browser.keys(TOKEN + ENTER)
    for _ in range(100):
        if browser.run("return document.querySelector('.frozen') === null && document.readyState === 'complete'"):
            break
        time.sleep(0.1)
    assert browser.run("return document.querySelector('.frozen')") is None
    assert browser.run("return location.pathname + location.search") == "/dataset?name=survey"
    assert browser.run("return document.querySelector('h1').textContent") == "survey"
