"""The page in a real browser: no console message, no request, no script that ran."""

import json
import shutil
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.reports.hostile_strings import CANARY, HOSTILE
from tests.reports.test_page_escaping import content_of
from unseen.reports import build_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture
def canary():
    """A server on the loopback address that counts who asks: its address and the list of paths asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/canary", asked
    server.shutdown()
    thread.join()
    server.server_close()


def browse(html, folder):
    """Open a page; gives its DOM afterwards, the console messages, and the addresses that the page asked for."""
    page, log = folder / "page.html", folder / "net.json"
    page.write_bytes(html.encode("utf-8"))
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        # The browser asks its maker for the time and for updates; no name resolves, so nothing leaves the machine.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--enable-logging=stderr",
        "--virtual-time-budget=2000",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    console = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if ":CONSOLE" in line]
    events = [event.get("params", {}) for event in json.loads(log.read_text(encoding="utf-8"))["events"]]
    # Requests of the browser itself have no origin as initiator; those of a page do.
    own = [event for event in events if event.get("initiator", "not an origin") != "not an origin"]
    urls = [event["url"] for event in own if str(event.get("url", "")).startswith(("http", "ws", "ftp"))]
    return done.stdout.decode("utf-8"), console, urls


def test_the_browser_would_notice_a_script_a_console_message_and_a_request(canary, tmp_path):
    address, asked = canary
    html = f"<!doctype html><img src={address}><script>console.error('seen');document.title='ran'</script>"
    dom, console, urls = browse(html, tmp_path)
    assert "<title>ran</title>" in dom
    assert any("seen" in line for line in console)
    assert asked == ["/canary"]
    assert address in urls


def test_a_report_opens_without_console_message_or_request(demo_report, tmp_path):
    dom, console, urls = browse(demo_report, tmp_path)
    assert console == []
    assert urls == []
    assert dom.count("<svg") > 20
    assert dom.rstrip().endswith("</html>")


def test_a_report_full_of_hostile_strings_runs_and_loads_nothing(canary, tmp_path):
    address, asked = canary
    texts = [text.replace(CANARY, address) for text in HOSTILE]
    contents = [content_of(text) for text in texts]
    rows = [row for content in contents for row in content.rows]
    failed = [failed for content in contents for failed in content.failed]
    content = replace(contents[1], rows=rows, failed=failed, description="\n".join(texts))
    dom, console, urls = browse(build_report(content), tmp_path)
    assert "<title>pwned" not in dom
    assert console == []
    assert urls == []
    assert asked == []
    assert "<script" not in dom
    assert dom.rstrip().endswith("</html>")
