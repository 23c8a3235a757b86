"""Who gets in, with what, and from where."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from http.client import HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.process_table import command_lines
from tests.e2e.waiting import until
from untildone.interfaces.web.guard import CLOSED_S, MOST_ADDRESSES, READ_S, Doorkeeper
from untildone.interfaces.web.server import MOST_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.bench import Bench
    from tests.web.site import Site

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is what is tested
PRIVATE = (
    *("/", "/live", "/runs/x", "/runs/x/live", "/runs/x/log", "/runs/x/report"),
    *("/runs/x/stories/1", "/api/runs", "/api/runs/x", "/api/runs/x/events", "/nothing"),
)


@pytest.fixture
def site(bench: Bench, serve: Callable[..., Site]) -> Site:
    """A server that lets people steer, and a run that has ended."""
    bench.only_stories(1)
    bench.loop().ok()
    return serve("--control")


# -- the token ---------------------------------------------------------------------------------


def test_nothing_without_the_token(site: Site) -> None:
    cookie = f"untildone-{site.port}=guessed"
    for path in PRIVATE:
        bare, wrong = site.ask(path, token=None), site.ask(path, token=None, cookie=cookie)
        assert (bare.status, wrong.status) == (401, 401)
        assert "demo" not in bare.text + wrong.text
    site.ask("/api/runs", token="guessed").ok(401)


def test_what_is_open_says_nothing(site: Site) -> None:
    style = site.ask("/static/style.css", token=None).ok()
    assert style.headers["content-type"].startswith("text/css")
    page = site.ask("/", token=None).ok(401).text
    assert "#token=" in page
    assert site.token not in page


def test_the_token_becomes_a_cookie(site: Site) -> None:
    answer = site.form("/login", {"token": site.token, "next": "/runs/x"}, token=None).ok(303)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert cookie.startswith(f"untildone-{site.port}=")
    assert site.token not in cookie
    assert answer.headers["location"] == "/runs/x"
    assert "demo" in site.ask("/", token=None, cookie=cookie).ok().text
    assert site.ask("/", token=None, cookie=cookie[:-1]).status == 401


def test_signing_in_leads_nowhere_else(site: Site) -> None:
    for goes_to in ["//evil.invalid", "https://evil.invalid", "/\\evil.invalid", "/runs/x\r\nA: b"]:
        answer = site.form("/login", {"token": site.token, "next": goes_to}, token=None).ok(303)
        assert answer.headers["location"] == "/"


def test_five_wrong_tokens_close_the_door(site: Site) -> None:
    cookie = site.cookie()
    for n in range(5):
        assert site.form("/login", {"token": f"guess {n}"}, token=None).status == 401
    closed = site.form("/login", {"token": site.token}, token=None).ok(429)
    assert 290 < int(closed.headers["retry-after"]) <= 301
    assert site.ask("/api/runs").status == 429
    site.ask("/api/runs", token=None, cookie=cookie).ok()


def test_the_door_opens_again_and_right_tokens_forgive() -> None:
    now = [0.0]
    door = Doorkeeper(lambda: now[0])
    for _ in range(4):
        door.note_wrong("a")
    door.note_right("a")
    for _ in range(5):
        assert not door.closed_for("a")
        door.note_wrong("a")
    assert door.closed_for("a") == CLOSED_S
    assert not door.closed_for("b")
    now[0] = CLOSED_S
    assert not door.closed_for("a")
    door.note_wrong("a")
    assert not door.closed_for("a")
    for n in range(2 * MOST_ADDRESSES):
        door.note_wrong(str(n))
    assert len(door._wrong) == MOST_ADDRESSES


def test_the_token_is_in_no_list_and_no_file(bench: Bench, serve: Callable[..., Site]) -> None:
    log = bench.root / "opened"
    browser = bench.program(
        "browser", f'#!/bin/sh\necho "$@" >> {log}\ncat "${{1#file://}}" >> {log}\n'
    )
    site = serve("--control", "--open", env={"BROWSER": f"{browser} %s"})
    shown = until(lambda: log.exists() and "token" in log.read_text() and log.read_text())
    argument, page = shown.split("\n", 1)
    assert site.token not in argument
    assert site.link in page
    way_in = Path(argument.removeprefix("file://"))
    assert stat.S_IMODE(way_in.stat().st_mode) == 0o600
    assert site.token not in str(command_lines())
    site.live.signal(signal.SIGINT)
    ended = site.live.wait().ok(130)
    assert site.token not in ended.stderr
    assert not way_in.exists()
    assert not bench.path(".git/untildone/serve.json").exists()
    for path in bench.path(".git/untildone").rglob("*"):
        assert not path.is_file() or site.token not in path.read_text(errors="replace")


def test_a_token_that_outlives_the_server(bench: Bench, serve: Callable[..., Site]) -> None:
    path = bench.root / "token"
    first = serve("--token-file", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = serve("--token-file", str(path))
    assert first.token == second.token == path.read_text().strip()
    path.chmod(0o644)
    assert "Others can read" in bench.run("serve", "--token-file", str(path)).ok(2).stderr
    path.chmod(0o600)
    path.write_text("short\n")
    assert "no token" in bench.run("serve", "--token-file", str(path)).ok(2).stderr


# -- hosts and origins ---------------------------------------------------------------------------


FOREIGN = (
    *("evil.invalid", "evil.invalid:80", "127.0.0.1.evil.invalid", "localhost.evil.invalid"),
    *("10.0.0.1", "0x7f.1", "127.0.0.1@evil.invalid", "[::1", ""),
)


def test_another_name_is_refused(site: Site) -> None:
    for host in FOREIGN:
        for path in ("/", "/api/runs", "/static/app.js"):
            site.ask(path, host=host).ok(421)


def test_own_names_also_behind_the_port_of_a_tunnel(site: Site) -> None:
    for host in ["localhost:{port}", "127.0.0.1", "[::1]:8080", "LOCALHOST:80"]:
        site.ask("/api/runs", host=host.format(port=site.port)).ok()


def test_another_origin_is_refused(site: Site) -> None:
    origins = ("http://evil.invalid", "null", "http://127.0.0.1:1", f"{site.url}.evil.invalid")
    sent = [{"origin": origin} for origin in origins]
    sent += [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}]
    sent += [{"origin": "null", "sec_fetch_site": "none"}]
    path = f"/api/runs/{site.run_id()}/guide"
    for headers in sent:
        site.post(path, {"text": "x"}, **headers).ok(403)
        site.form("/login", {"token": site.token}, token=None, **headers).ok(403)


def test_without_control_nothing_is_steered(site: Site, serve: Callable[..., Site]) -> None:
    shows = serve()
    for action in ("guide", "skip", "retry", "stop", "answer", "anything"):
        refused = shows.post(f"/api/runs/{site.run_id()}/{action}", {"text": "x"}).ok(403)
        assert refused.json()["hint"] == "untildone serve --control"
    page = shows.ask(f"/runs/{site.run_id()}").ok().text
    assert "<form" not in page
    assert "<form" in site.ask(f"/runs/{site.run_id()}").ok().text


def test_a_browser_steers_only_from_our_pages(site: Site) -> None:
    path, cookie = f"/api/runs/{site.run_id()}/guide", site.cookie()
    page = site.ask(f"/runs/{site.run_id()}", token=None, cookie=cookie).ok().text
    form_token = page.partition('name="form_token" value="')[2].partition('"')[0]
    ours = {"token": None, "cookie": cookie, "origin": site.url}
    fields = {"text": "use tabs", "form_token": form_token}
    site.form(path, fields | {"form_token": form_token[::-1]}, **ours).ok(403)
    site.form(path, {"text": "x"}, **ours).ok(403)
    site.form(path, fields, token=None, cookie=cookie).ok(403)
    site.form(path, fields, **ours).ok()
    said = site.form(path, fields, accept="text/html", **ours).ok()
    assert said.headers["content-type"].startswith("text/html")


def test_an_agent_does_not_steer_its_own_run(bench: Bench, site: Site) -> None:
    refused = bench.run("serve", "--control", env={"UNTILDONE_RUN_ID": site.run_id()}).ok(2)
    assert "not to its agent" in refused.stderr


# -- what is sent and what comes back ------------------------------------------------------------


def test_headers_of_every_answer(site: Site) -> None:
    run = f"/runs/{site.run_id()}"
    for path in ("/", run, f"{run}/report", "/api/runs", "/nothing", "/static/app.js"):
        headers = site.ask(path).headers
        policy = dict(
            row.strip().split(" ", 1) for row in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
        if not path.startswith("/static"):
            assert headers["cache-control"] == "no-store"


def test_too_much_is_refused(site: Site) -> None:
    path = f"/api/runs/{site.run_id()}/guide"
    site.post(path, {"text": "x" * 70_000}).ok(413)
    site.ask(path, method="POST", body=b"", content_length="lots").ok(400)
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        assert b" 400 " in raw.recv(100)
    site.ask("/api/runs").ok()


def test_what_is_no_json_and_no_text(site: Site) -> None:
    path = f"/api/runs/{site.run_id()}/guide"
    for body in ("{", "[]", "\ud800".encode("utf-8", "surrogatepass")):
        site.ask(path, method="POST", body=body, content_type="application/json").ok(400)
    site.ask(path, method="POST", body=b"\xff=\xfe").ok(409)
    site.ask("/api/runs", method="DELETE").ok(405)


@pytest.mark.full
def test_who_sends_slowly_is_not_waited_for(site: Site) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", site.port), timeout=30) as raw:
        head = f"POST /login HTTP/1.1\r\nHost: localhost:{site.port}\r\nContent-Length: 100\r\n\r\n"
        raw.sendall(head.encode() + b"token=")
        assert b" 408 " in raw.recv(100)
    assert time.monotonic() - began < 20


@pytest.mark.full
def test_who_says_nothing_takes_no_place_for_long(site: Site) -> None:
    here = ("127.0.0.1", site.port)
    idle = [socket.create_connection(here, timeout=30) for _ in range(MOST_CONNECTIONS + 5)]
    trickling, after_an_answer = idle[:2]
    until(lambda: site.ask("/api/runs").status == 503)
    after_an_answer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
    assert b" 503 " in after_an_answer.recv(1000)
    began = time.monotonic()
    while time.monotonic() - began < READ_S + 2:
        for raw, data in ((trickling, b"GET / HT"), (after_an_answer, b"x")):
            with contextlib.suppress(OSError):
                raw.sendall(data[:1])
        time.sleep(0.2)
    until(lambda: site.ask("/api/runs").status == 200)
    for raw in idle:
        with contextlib.suppress(ConnectionError):
            while raw.recv(10_000):
                pass
        raw.close()


def test_brackets_without_end_are_no_json(site: Site) -> None:
    path = f"/api/runs/{site.run_id()}/guide"
    for text in ("[" * 60_000, '{"text": ' * 7_000, '{"text": ' + "9" * 5_000 + "}"):
        site.ask(path, method="POST", body=text, content_type="application/json").ok(400)


def test_no_way_to_other_files(site: Site) -> None:
    for path in (
        *("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"),
        *("/static/style.css/..", "/static//etc/passwd", "/runs/..%2f..%2fconfig"),
        *("/runs/../../HEAD", "/api/runs/%00"),
    ):
        site.ask(path).ok(404)


# -- beyond this machine -------------------------------------------------------------------------


def test_outside_only_with_tls_or_on_demand(bench: Bench, serve: Callable[..., Site]) -> None:
    refused = bench.run("serve", "--host", EVERYWHERE).ok(2)
    assert "without TLS" in refused.stderr
    assert "--tls-cert" in refused.stderr
    assert "belong together" in bench.run("serve", "--tls-cert", "x.pem").ok(2).stderr
    site = serve("--host", EVERYWHERE, "--insecure")
    site.ask("/api/runs", host="192.0.2.7:1").ok()
    site.ask("/api/runs", host=socket.gethostname()).ok()
    site.ask("/api/runs", host="evil.invalid").ok(421)


def test_behind_a_tunnel_that_has_a_name(bench: Bench, serve: Callable[..., Site]) -> None:
    site = serve("--public-url", "https://night.tail.invalid/", "--port", "0")
    assert site.url == "https://night.tail.invalid"
    told = json.loads(bench.path(".git/untildone/serve.json").read_text())
    assert told["url"] == site.url
    assert "no address" in bench.run("serve", "--public-url", "night").ok(2).stderr


def test_tls(bench: Bench, serve: Callable[..., Site]) -> None:
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-keyout", "key.pem", "-out", "cert.pem", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(["openssl", *made, *names], cwd=bench.root, check=True, capture_output=True)
    files = ("--tls-cert", str(bench.root / "cert.pem"), "--tls-key", str(bench.root / "key.pem"))
    site = serve("--host", EVERYWHERE, *files)
    assert site.url.startswith("https://")
    trust = ssl.create_default_context(cafile=str(bench.root / "cert.pem"))
    connection = HTTPSConnection("localhost", site.port, context=trust, timeout=20)
    connection.request("POST", "/login", f"token={site.token}")
    answer = connection.getresponse()
    assert answer.status == 303
    assert "Secure" in answer.getheader("set-cookie", "")
    connection.close()


def test_a_port_that_is_taken(bench: Bench, serve: Callable[..., Site]) -> None:
    site = serve()
    refused = bench.run("serve", "--port", str(site.port)).ok(2)
    assert "Address already in use" in refused.stderr
    assert "--port 0" in refused.stderr


def test_link_and_code_at_a_terminal(bench: Bench) -> None:
    bench.loop().ok()
    terminal = bench.terminal("serve")
    terminal.wait_text("Ctrl-C ends them")
    screen = terminal.screen()
    assert "/#token=" in screen.replace("\n", "")
    assert screen.count("█") > 100  # the QR code
    terminal.type("\x03")
    assert terminal.wait() == 130
    terminal.wait_text("Ended. The runs go on.")


def test_outside_of_a_repository(bench: Bench) -> None:
    assert "not a git repository" in bench.run("serve", cwd=bench.root).ok(2).stderr
    assert os.listdir(bench.root / "tmp") == []
