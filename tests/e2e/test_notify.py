"""Messages to somebody who is not there: delivered, refused, never answered."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.command import COMMAND
from tests.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Result

pytestmark = pytest.mark.e2e

SECRET = "T0/B0/s3cr3t-t0k3n"
FIELDS = ["title", "body", "event", "change_id", "status", "url"]


class Receiver:
    """A web server on loopback that keeps what it gets."""

    def __init__(self, status: int = 200) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), body))
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{SECRET}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def messages(self) -> list[Json]:
        """The bodies, which are JSON."""
        return [json.loads(body) for _, _, body in self.got]

    @property
    def events(self) -> list[str]:
        return [message["event"] for message in self.messages]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_messages_carry_the_link_of_a_running_server(bench: Bench, receiver: Receiver) -> None:
    site = Site(bench)
    bench.loop("--notify", receiver.url, "--notify", f"ntfy:{receiver.url}").ok()
    page = f"{site.url}/runs/{bench.state()['run_id']}"
    hook, ntfy = sorted(receiver.got, key=lambda got: b"{" not in got[2][:1])
    assert json.loads(hook[2])["url"] == page
    assert ntfy[1]["Click"] == page
    assert ntfy[2].decode().endswith(f"\n{page}")
    assert site.token not in str(receiver.got)
    noted = bench.path(".git/untildone/serve.json")
    assert noted.stat().st_mode & 0o777 == 0o600
    assert site.token not in noted.read_text()
    site.live.signal(signal.SIGKILL)  # its note stays, and is not believed
    site.live.wait()
    bench.git("checkout", "-q", "feature/x")
    bench.only_stories(1)
    bench.run("run", "demo", "--agent-cmd", bench.agent, "--notify", receiver.url).ok()
    assert json.loads(receiver.got[-1][2])["url"] == ""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes the call and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    yield f"http://127.0.0.1:{server.getsockname()[1]}/{SECRET}"
    server.close()


def refused() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/{SECRET}"


def undelivered(result: Result) -> list[str]:
    texts = [event["message"] for event in result.named("warning")]
    return [text for text in texts if text.startswith("Nobody was told")]


def test_done_is_told_once(bench: Bench, receiver: Receiver) -> None:
    result = bench.loop("--notify", receiver.url).ok()
    (message,) = receiver.messages
    assert list(message) == FIELDS
    assert (message["event"], message["status"]) == ("done", "done")
    assert message["change_id"] == "demo"
    assert message["title"] == "untildone: demo is done"
    assert receiver.got[0][0] == f"/{SECRET}"
    assert undelivered(result) == []


def test_stuck_is_told_with_the_reason(bench: Bench, receiver: Receiver) -> None:
    bench.plan({}, default=fails("no luck"))
    bench.loop("--notify", receiver.url, "--max-retries", "0").ok(3)
    (message,) = receiver.messages
    assert (message["event"], message["status"]) == ("stuck", "stuck")
    assert "no luck" in message["body"]
    assert "untildone resume demo" in message["body"]


def test_a_question_is_told(bench: Bench, receiver: Receiver) -> None:
    bench.plan({1: [["say", "<promise>ASK: blue or green?</promise>"]]})
    bench.loop("--notify", receiver.url).ok(3)
    assert receiver.events == ["question", "stuck"]
    assert "blue or green?" in receiver.messages[0]["body"]
    assert 'guide demo --story 1 "your answer"' in receiver.messages[0]["body"]


def test_secrets_of_reasons_stay_here(bench: Bench, receiver: Receiver) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    reason = f"{'x' * 440} {token} and password=hunter2hunter2"
    bench.plan({}, default=fails(reason))
    out = bench.root / "told.txt"
    to = ("--notify", receiver.url, "--notify", f"cmd:cat > {out}")
    bench.loop(*to, "--max-retries", "0").ok(3)
    (message,) = receiver.messages
    assert "xxxx" in message["body"]
    for told in (json.dumps(message), out.read_text()):
        for secret in (token[:24], "hunter2hunter2"):
            assert secret not in told


def test_only_what_is_asked_for(bench: Bench, receiver: Receiver) -> None:
    bench.plan({1: [["say", "<promise>ASK: blue or green?</promise>"]]})
    bench.write("untildone.toml", f'notify = "{receiver.url}"\nnotify_on = "stuck done"\n')
    bench.loop().ok(3)
    assert receiver.events == ["stuck"]


def test_a_budget_is_told_at_its_steps(bench: Bench, receiver: Receiver) -> None:
    budget = ("--budget", "iterations=5", "--on-fail", "skip", "--max-retries", "9")
    bench.plan({}, default=fails())
    bench.loop("--notify", receiver.url, *budget).ok(6)
    titles = [message["title"] for message in receiver.messages]
    assert [re.findall(r"(\d+) %", title) for title in titles] == [["50"], ["80"], ["100"]]
    assert set(receiver.events) == {"budget"}


def test_a_limit_is_told_with_its_reset_and_not_again_by_a_resume(
    bench: Bench, receiver: Receiver
) -> None:
    bench.install_claude()
    reset = int(time.time()) + 7200
    bench.plan({1: [["api_error", "", None, f"Claude AI usage limit reached|{reset}"]]})
    live = bench.begin("--agent", "claude", "--notify", receiver.url)
    live.wait_event("waiting")
    live.signal(signal.SIGTERM)
    live.wait().ok(143)
    again = bench.start("resume", "demo", "--json", "--notify", receiver.url)
    again.wait_event("waiting")
    bench.run("stop", "demo").ok()
    again.wait().ok(6)
    (message,) = receiver.messages
    assert (message["event"], message["status"]) == ("limit", "running")
    at = datetime.fromtimestamp(reset).astimezone()
    near = {f"{at + timedelta(minutes=more):%H:%M}" for more in (0, 1)}
    assert message["title"][-5:] in near


def test_nothing_is_told_twice_by_a_resume(bench: Bench, receiver: Receiver) -> None:
    bench.plan({}, default=fails())
    flags = ("--notify", receiver.url, "--budget", "iterations=4", "--max-retries", "0")
    bench.loop(*flags).ok(3)
    bench.plan({2: fails()})
    bench.run("resume", "demo", "--json", "--notify", receiver.url, "--max-retries", "0").ok(3)
    bench.run("resume", "demo", "--json", "--notify", receiver.url).ok(6)
    assert receiver.events == ["stuck", "budget", "stuck", "budget"]


def test_the_choice_that_is_asked_again_is_not_told_again(bench: Bench, receiver: Receiver) -> None:
    flags = ("--json", "--notify", receiver.url)
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, *flags[1:])
    terminal.wait_text("cleanup, keep or later?")
    terminal.type("later\n")
    terminal.wait()
    bench.run("resume", "demo", *flags, "--on-complete", "keep").ok()
    assert receiver.events == ["done"]


# -- what goes wrong ---------------------------------------------------------------------------


def test_where_nobody_listens(bench: Bench) -> None:
    result = bench.loop("--notify", refused()).ok()
    (text,) = undelivered(result)
    assert "Connection refused" in text
    assert bench.state()["status"] == "done"


@pytest.mark.parametrize("status", [302, 403, 500])
def test_an_answer_that_is_no_yes(bench: Bench, status: int) -> None:
    receiver = Receiver(status)
    (text,) = undelivered(bench.loop("--notify", receiver.url).ok())
    assert f"HTTP status {status}" in text
    assert len(receiver.got) == 1
    receiver.close()


def test_who_never_answers_holds_up_nothing(bench: Bench, silent: str) -> None:
    bench.plan({1: [["say", "<promise>ASK: blue or green?</promise>"]]})
    began = time.monotonic()
    live = bench.begin("--notify", silent, "--notify-on", "question")
    live.wait_event("finished")
    assert time.monotonic() - began < 9
    result = live.wait(25).ok(3)
    (text,) = undelivered(result)
    assert "no answer in 10 s" in text


def test_secrets_of_addresses_are_nowhere(bench: Bench) -> None:
    bench.plan({}, default=fails())
    address = refused()
    result = bench.loop("--notify", address, "--max-retries", "0").ok(3)
    dry = bench.run("run", "--task", "x", "--dry-run", "--notify", f"slack:{address}").ok()
    assert "slack:http://127.0.0.1:" in dry.stdout
    bundle = bench.root / "bundle.tar.gz"
    bench.run("report", "--bundle", str(bundle)).ok()
    report = bench.run("report", "demo").ok()
    texts = [result.stdout, result.stderr, dry.stdout, report.stdout]
    texts += [
        path.read_text(errors="replace")
        for path in bench.path(".git/untildone").rglob("*")
        if path.is_file()
    ]
    assert undelivered(result)
    assert not [text for text in texts if "s3cr3t" in text]


def test_what_is_no_address_is_refused_without_its_secret(bench: Bench) -> None:
    wrong = bench.loop("--notify", f"slakc:https://example.org/{SECRET}").ok(2)
    assert "slack:URL" in wrong.stderr
    assert "s3cr3t" not in wrong.stderr
    assert "stuck" in bench.loop("--notify-on", "stukc").ok(2).stderr


def test_apprise_is_an_extra(bench: Bench) -> None:
    missing = bench.loop("--notify", "apprise:tgram://token/chat").ok(2)
    assert "untildone[notify]" in missing.stderr


# -- kinds -------------------------------------------------------------------------------------


def test_a_command_gets_the_event(bench: Bench) -> None:
    out = bench.root / "told.txt"
    # It may ask us, too: what is set for it is no setting.
    command = f"cmd:(echo $UNTILDONE_EVENT; cat; {COMMAND} stories demo >/dev/null) >> {out}"
    assert undelivered(bench.loop("--notify", command).ok()) == []
    name, told = out.read_text().splitlines()
    data = json.loads(told)
    assert name == data["event"] == "done"
    assert {*FIELDS, "seq", "at"} <= data.keys()


def test_a_command_is_named_with_its_place(bench: Bench) -> None:
    bench.write("untildone.toml", 'notify = "cmd:true # here"\n')
    flags = ("--agent-cmd", bench.agent, "--notify", "cmd:true # there", "--notify", "terminal")
    for more in ((), ("--dry-run",)):
        said = bench.run("run", "demo", *flags, *more).ok().stdout
        for word in ("here", "there"):
            assert f"true # {word} (from untildone.toml:1, --notify)" in said
        bench.run("finish", "demo", "cleanup")
        bench.git("checkout", "-q", "--", ".")


@pytest.mark.parametrize(
    ("command", "why"), [("exit 3", "exit code 3"), ("sleep 60", "out of time|timeout")]
)
def test_a_command_that_fails(bench: Bench, command: str, why: str) -> None:
    (text,) = undelivered(bench.loop("--notify", f"cmd:{command}").ok())
    assert re.search(why, text)


def test_services_get_what_they_want(bench: Bench, receiver: Receiver) -> None:
    kinds = ("ntfy", "slack", "discord")
    bench.loop(*(word for kind in kinds for word in ("--notify", f"{kind}:{receiver.url}"))).ok()
    bodies = [body.decode() for _, _, body in receiver.got]
    titles = [headers["Title"] for _, headers, _ in receiver.got if "Title" in headers]
    assert titles == ["untildone: demo is done"]
    data = [json.loads(body) for body in bodies if body.startswith("{")]
    texts = {key: value for row in data for key, value in row.items()}
    assert texts["text"].startswith("*untildone: demo is done*\n")
    assert texts["content"].startswith("**untildone: demo is done**\n")


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({"TERM_PROGRAM": "ghostty"}, b"\x1b]777;notify;untildone: demo is done;"),
        ({"TERM_PROGRAM": "iTerm.app"}, b"\x1b]9;untildone: demo is done: "),
        ({"TERM": "xterm-kitty"}, b"\x1b]99;i=untildone:d=0;untildone: demo is done\x1b\\"),
        ({"TERM_PROGRAM": "WezTerm", "TMUX": "x"}, b"\x1bPtmux;\x1b\x1b]777;notify;"),
        ({"TERM": "vt100"}, b"\x07"),
    ],
)
def test_the_terminal_shows_it(bench: Bench, env: dict[str, str], wanted: bytes) -> None:
    flags = ("--notify", "terminal", "--on-complete", "keep", "--quiet")
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, *flags, env=env)
    assert terminal.wait() == 0
    titles = re.sub(rb"\x1b\]0;[^\x07]*\x07", b"", terminal.raw)
    assert wanted in titles


def test_doctor_sends_a_test(bench: Bench, receiver: Receiver) -> None:
    bench.write("untildone.toml", f'notify = ["{receiver.url}", "slack:{refused()}"]\n')
    said = bench.run("doctor").stdout
    assert receiver.got == []
    assert "Told what happens: slack:http://127.0.0.1:" in said
    rows = bench.run("doctor", "--notify", "--json").json()["rows"]
    (one, two) = (row for row in rows if row["check"] == "notify")
    assert receiver.events == ["test"]
    assert (one["level"], two["level"]) == ("ok", "warn")
    assert "Connection refused" in two["text"]
    assert "s3cr3t" not in f"{said}{rows}"
