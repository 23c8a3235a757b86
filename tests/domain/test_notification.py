"""Addresses of people who are told: read, refused, shown without their secrets."""

import pytest

from untildone.domain.reporting.notification import Notification, address, addresses, events, shown

SHOWN = {
    "terminal": "terminal",
    "https://example.org/hook/s3cr3t?key=s3cr3t": "https://example.org/…",
    "http://me:s3cr3t@127.0.0.1:8080/x": "http://127.0.0.1:8080/…",
    "ntfy:https://ntfy.sh/s3cr3t": "ntfy:https://ntfy.sh/…",
    "slack:https://hooks.slack.com/services/s3cr3t": "slack:https://hooks.slack.com/…",
    "discord:https://discord.com/api/webhooks/s3cr3t": "discord:https://discord.com/…",
    "apprise:tgram://s3cr3t/chat": "apprise:tgram://…",
    "apprise:https://example.org/s3cr3t": "apprise:https://example.org/…",
    "cmd: curl -d @- https://example.org/s3cr3t": "cmd:curl -d @- https://example.org/…",
    "cmd:curl 'https://me:s3cr3t@example.org/x' -s": "cmd:curl 'https://example.org/…' -s",
}


@pytest.mark.parametrize("text", SHOWN)
def test_an_address_is_shown_without_its_secret(text: str) -> None:
    assert addresses((text,)) == (text,)
    assert shown((text,)) == (SHOWN[text],)


@pytest.mark.parametrize(
    "text", ["", "mail:me", "https://", "ntfy:s3cr3t", "cmd: ", "apprise:s3cr3t", "ftp://s3cr3t"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="`notify` knows cmd:COMMAND") as wrong:
        address(text)
    assert "s3cr3t" not in str(wrong.value)


def test_the_events_to_be_told() -> None:
    assert events(("done, stuck", "limit")) == ("done", "stuck", "limit")
    with pytest.raises(ValueError, match="not 'finished'"):
        events(("finished",))


def test_the_link_follows_the_body() -> None:
    told = Notification("demo: done", "3 of 3 stories", "done", "demo", "done")
    assert told.text == "3 of 3 stories"
    linked = Notification("demo: done", "", "done", "demo", "done", url="http://127.0.0.1:1/")
    assert linked.text == "http://127.0.0.1:1/"
