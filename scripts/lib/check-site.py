#!/usr/bin/env -S python3 -B
"""Checks the documentation's site in a browser, with a web server that only sends files.

Usage: check-site.py FOLDER

Opens /, each page that the guide's first page links to, and the results of both searches: the filter of the navigator and the
quick navigation. Needs Debian's packages chromium and chromium-driver; without them it prints that nothing was checked, and in CI
it fails.
"""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

LIMIT = 120  # seconds for each wait
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class Browser:
    """A headless Chromium, over the WebDriver protocol."""

    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.address = None
        for line in self.driver.stdout:
            if match := re.search(r"successfully on port (\d+)", line):
                self.address = f"http://127.0.0.1:{match[1]}"
                break
        if not self.address:
            sys.exit("Could not check the site: chromedriver did not start.")
        options = {
            "binary": shutil.which("chromium"),
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--window-size=1500,1000", f"--user-data-dir={profile}"],
        }
        made = self.send("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
        self.address += f"/session/{made['sessionId']}"

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        # Without a proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=LIMIT) as answer:
            return json.load(answer)["value"]

    def open(self, address):
        self.send("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        return self.send("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait(self, script, *arguments):
        """The value of the script as soon as it is true."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if value := self.run(script, *arguments):
                return value
            time.sleep(0.1)
        page = self.run("return location.href + ': ' + document.body.innerText.slice(0, 300)")
        sys.exit(f"The site does not show what is expected ({script}, {arguments}): {page}")

    def type(self, selector, text):
        self.wait("return document.querySelector(arguments[0]) !== null", selector)
        found = self.send("POST", "/element", {"using": "css selector", "value": selector})
        self.send("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def close(self):
        try:
            self.send("DELETE", "")
        except (OSError, urllib.error.URLError):
            pass
        self.driver.kill()
        self.driver.wait()


HEADING = "const e = document.querySelector('h1'); return e && e.innerText.trim()"
# A result: a link in the selected part of the page that has the text.
RESULT = """const e = [...document.querySelectorAll(arguments[0] + ' a')].find(a => a.innerText.includes(arguments[1]));
return e && e.getAttribute('href')"""


def check(browser, origin):
    browser.open(f"{origin}/")
    browser.wait("return location.pathname.startsWith('/documentation/guide')")
    heading = browser.wait(HEADING)
    if heading != "Guide to Latchkey":
        sys.exit(f"The page / has the heading ‘{heading}’.")
    sections = browser.wait("return [...document.querySelectorAll('main h3, main h2')].map(e => e.innerText.trim())")
    if missing := [name for name in ("Use it", "Develop", "Administer") if name not in sections]:
        sys.exit(f"The page / has no section {missing}, but {sections}.")
    links = browser.run("return [...new Set([...document.querySelectorAll('main a')].map(a => a.getAttribute('href')))]")
    pages = sorted({link.partition("#")[0] for link in links if link and link.startswith(("/documentation/", "/tutorials/"))})
    if len(pages) < 15:
        sys.exit(f"The page / links to {pages} only.")
    for page in pages:
        browser.open(origin + page)
        heading = browser.wait(HEADING)
        if "can’t be found" in heading or "can't be found" in heading:
            sys.exit(f"{page}: {heading}")

    browser.open(f"{origin}/documentation/guide/")
    browser.type(".navigator input", "Recovering from a loss")
    found = browser.wait(RESULT, ".navigator", "Recovering from a loss")
    browser.type("body", "/")
    browser.type(".quick-navigation input", "TPMKeystore")
    symbol = browser.wait(RESULT, ".quick-navigation", "TPMKeystore")
    for page in (found, symbol):
        browser.open(origin + page)
        browser.wait(HEADING)
    print(f"The site opens at /, with {len(pages)} linked pages and both searches.", file=sys.stderr)


def main(folder):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("The site is not checked: chromium and chromium-driver are not installed.", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            check(browser, f"http://127.0.0.1:{server.server_port}")
        finally:
            browser.close()
    return 0


if len(sys.argv) != 2:
    sys.exit("Usage: check-site.py FOLDER")
sys.exit(main(sys.argv[1]))
