"""The page in a browser: the job of a chemist, and pages of others."""

from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.browser import CHROMIUM
from tests.calibration import beer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

TEXT = "document.body.innerText"


def test_a_chemist_calibrates_and_estimates_two_files_at_once(served, browser, tmp_path):
    beer.write_series(tmp_path / "beer.csv")
    days = tmp_path / "monday.csv", tmp_path / "tuesday.csv"
    for day, at in zip(days, (1.5, 7.0), strict=True):
        known = dict(zip(("a", f"QC {day.stem}"), beer.spectra_at([at, 5.0]), strict=True))
        day.write_text(beer.table(known))
    (tmp_path / "notes.csv").write_text("no spectra\n")

    browser.go(served.address)
    browser.wait("document.querySelector('input[name=spectra]')?.required")
    browser.drop("spectra", tmp_path / "notes.csv")
    browser.press("Read")
    assert "notes.csv" in browser.wait("document.getElementById('refused')?.innerText")

    browser.go(served.address)
    browser.wait("document.querySelector('input[name=spectra]')?.required")
    browser.drop("spectra", tmp_path / "beer.csv")
    browser.press("Read")
    understood = browser.wait("document.querySelector('pre')?.innerText")
    assert "levels         5, unit ppb" in understood
    browser.press("Calibrate")
    inside = "document.querySelector('iframe')?.getBoundingClientRect()"
    assert browser.wait(f"{inside}?.top < 200 && {inside}.width > 500")  # the result comes first
    browser.drop("spectra", *days)
    browser.value("document.querySelector('[name=controls]').value = 'QC monday=5\\nQC tuesday=5'")
    browser.press("Estimate")
    page = browser.wait(f"{TEXT}.includes('estimates.xlsx') && {TEXT}")
    passed = page.index("2 of 2 controls passed.")
    assert passed < page.index("1.5") < page.index("estimates.xlsx")
    assert browser.value("document.querySelectorAll('tbody tr, table tr').length") == 5
    assert browser.value("document.scripts.length") == 0


def test_the_page_of_a_calibration_draws_without_access_to_others(served, browser, tmp_path):
    beer.write_series(tmp_path / "beer.csv")
    item, _ = served.submit(
        "/secret/", ("spectra", ("b.csv", (tmp_path / "beer.csv").read_bytes()))
    )
    served.submit(item, ("calibrate", ""))
    browser.go(f"http://{served.host}{item}")
    browser.wait("!!document.querySelector('iframe')")
    browser.go(f"http://{served.host}{item}index.html")
    assert browser.wait("document.querySelectorAll('.plot svg').length > 3")
    assert browser.value("origin") == "null"


class Foreign(BaseHTTPRequestHandler):
    """Page of another origin that knows the address, and sends a form there."""

    def __init__(self, target, *arguments):
        self.target = target
        super().__init__(*arguments)

    def do_GET(self):
        form = f'<form method="post" enctype="multipart/form-data" action="{self.target}">'
        field = '<input name="spectra" value="x"><button>Go</button></form>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((form + field).encode())

    def log_message(self, *_):
        pass


def test_pages_of_others_are_refused(served, browser):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Foreign, served.address)) as other:
        Thread(target=other.serve_forever).start()
        browser.go(f"http://127.0.0.1:{other.server_address[1]}/")
        browser.wait("!!document.querySelector('button')")
        fetched = f"fetch('{served.address}').then(one => one.text()).catch(error => error.name)"
        assert browser.value(fetched) == "TypeError"
        browser.press("Go")
        assert "found a form of another page" in browser.wait(f"{TEXT}.includes('found') && {TEXT}")
        other.shutdown()
    rebound = served.address.replace("127.0.0.1", "evil.test")
    browser.go(rebound)
    assert "found another host" in browser.wait(f"{TEXT}.includes('another host') && {TEXT}")
    assert not served.desk.items
