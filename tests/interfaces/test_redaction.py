"""What looks like a secret is redacted, and nothing else is touched."""

import json

import pytest

from untildone.commands.redaction import redactor

KEY = "sk-ant-" + "api03-" + "Ab3" * 30
TOKEN = "ghp_" + "Zx9" * 14
AWS = "AKIA" + "Q3" * 8
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzQ9s1xKEY"
# Put together here, so that no scanner takes this file for a leak.
TOKENS = (
    "glrt-" + "Ab3" * 8,
    "sk-" + "or-v1-" + "9f" * 20,
    "sk_" + "test_" + "Ab3" * 8,
    "eyJ" + "hbGciOiJIUzI.eyJ" + "zdWIiOiIxMjM.sig-nature",
    "ya29." + "Ab3" * 9,
    "SG." + "Ab3" * 8 + "." + "Cd4" * 8,
    "gsk_" + "Ab3" * 12,
    "dckr_" + "pat_" + "Ab3" * 9,
    "123456789:AA" + "Ab3" * 11,
)
KEY_BLOCK = "-----BEGIN RSA PRIVATE " + "KEY-----"


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
        ("password=hunter2", "hunter2"),
        ("DB_PASS='let me in, now'", "let me in, now"),
        ('{\\"password\\": \\"pa ss,wd\\", \\"user\\": \\"ada\\"}', "pa ss,wd"),
        ("mysql --password=s3cret db", "s3cret"),
        (f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
        (f'"SecretAccessKey": "{AWS_SECRET}"', AWS_SECRET),
        (f"aws configure: {AWS_SECRET}", AWS_SECRET),
        ("clone https://x-access-token-0123456789@host.example/r", "x-access-token-0123456789"),
        ("redis://:s3cr3tpw@host.example", "s3cr3tpw"),
        ("Authorization: token abcd1234efgh", "abcd1234efgh"),
        ("Set-Cookie: session=abcdef; Path=/", "session=abcdef; Path=/"),
        ("curl -u ada:s3cr3tpw https://host.example", "s3cr3tpw"),
        ("GET /v1?X-Amz-Signature=deadbeefdeadbeef&x=1", "deadbeefdeadbeef"),
        ("https://hooks.slack.com/services/T00/B00/" + "Xy9" * 8, "T00/B00/" + "Xy9" * 8),
        *((f"a token {token} here", token) for token in TOKENS),
    ],
)
def test_secrets_are_redacted_at_their_length(text: str, secret: str) -> None:
    hide = redactor({"MY_TOKEN": "t0p-s3cret-value", "HOME": "/home/ada"})
    assert hide(text.encode()).decode() == text.replace(secret, "*" * len(secret))


@pytest.mark.parametrize("end", ["\n", "\\n", "\\\\n"])
def test_a_private_key_block_is_redacted_to_its_end(end: str) -> None:
    body = end.join(["Proc-Type: 4,ENCRYPTED", "", *["MIIEow+/" * 8] * 3])
    text = f"{KEY_BLOCK}{end}{body}{end}-----END RSA PRIVATE KEY-----{end}after"
    hidden = redactor({})(text.encode()).decode()
    assert len(hidden) == len(text)
    assert "MII" not in hidden
    assert "ENCRYPTED" not in hidden
    assert hidden.endswith("after")
    assert hidden.count("\n") == text.count("\n")


@pytest.mark.parametrize("said", ['password = "cut off', "PASS_PHRASE='it\"s', x", "token='"])
def test_what_is_left_is_still_json(said: str) -> None:
    row = json.dumps({"text": said, "next": [1]}).encode()
    assert json.loads(redactor({})(row))["next"] == [1]


ORDINARY = (
    '{"input_tokens": 12, "reason": "basic test failed at https://host.example/a:b"}',
    '{"cache_read_tokens": 123456789, "max_tokens": 200000, "secret": null, "token": true}',
    "PWD=/home/ada/project\n3 passed, 1 failed; monkey = bananas; foreign_key = user_accounts",
    "commit 93764e5c7bbb73de0256f4aac211a6c50aae4776 (aws)",
    "git@host.example:ada/repo.git and ssh://git@host.example/ada/repo.git",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    hide = redactor({"PWD": "/home/ada/project", "SSH_AUTH_SOCK": "/run/user/1000/agent"})
    assert hide(text.encode()).decode() == text
