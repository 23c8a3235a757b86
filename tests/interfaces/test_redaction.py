"""What looks like a secret is redacted, and nothing else is touched."""

import pytest

from untildone.commands.redaction import redactor

KEY = "sk-ant-" + "api03-" + "Ab3" * 30
TOKEN = "ghp_" + "Zx9" * 14
AWS = "AKIA" + "Q3" * 8


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"used {KEY} twice", KEY),
        (f"push with {TOKEN}", TOKEN),
        (f"id={AWS}.", AWS),
        ("Authorization: BEARER abcdefghijklmnop1234", "abcdefghijklmnop1234"),
        ("git clone https://ada:s3cr3tpw@host.example/x", "s3cr3tpw"),
        ('{"API_KEY": "abcdefgh1234"}', "abcdefgh1234"),
        ("password = hunter2hunter2", "hunter2hunter2"),
        ("Refresh-Token:abcdefgh9876", "abcdefgh9876"),
        ("the value of the environment: t0p-s3cret-value", "t0p-s3cret-value"),
    ],
)
def test_secrets_are_redacted_at_their_length(text: str, secret: str) -> None:
    hide = redactor({"MY_TOKEN": "t0p-s3cret-value", "HOME": "/home/ada"})
    assert hide(text.encode()).decode() == text.replace(secret, "*" * len(secret))


def test_ordinary_text_stays() -> None:
    text = b'{"input_tokens": 12, "reason": "basic test failed at https://host.example/a:b"}'
    assert redactor({})(text) == text
