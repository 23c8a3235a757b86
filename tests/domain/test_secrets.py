"""What looks like a secret is redacted and kept out of git, and nothing else."""

import json

import pytest

from untildone.domain.secrets import HIDDEN, redactor, secret, shown, text_redactor

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


def test_a_text_is_redacted_as_its_bytes_are() -> None:
    assert text_redactor({})(f"push with {TOKEN} ä \ud800") == f"push with {'*' * len(TOKEN)} ä ?"


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


BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
# In two parts, so that no scanner takes this file for a leak.
AWS_ID = "AKIA" + "Q3EGRTZ5KW7LNP2M"
SIGNS = b"aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY3zA5cD7eF9gH"


def key(kind: bytes = b"RSA ") -> bytes:
    return b"-----BEGIN " + kind + b"PRIVATE KEY-----\n" + BODY + b"\n"


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "app/.env",
        ".env.local",
        ".env.production",
        ".ENV",
        "server.pem",
        "certs/Server.KEY",
        "line\nbreak.key",
        "id_rsa",
        "ssh/id_ed25519",
        "id_ecdsa_sk",
        "putty.ppk",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".git-credentials",
        "credentials.json",
        "credentials-prod.json",
        "client_secret_123.json",
        "my-service-account.json",
        "gcp_service_account_key.json",
        "store.p12",
        "store.pfx",
        "passwords.kdbx",
        "release.jks",
        "release.keystore",
        "home/.aws/credentials",
        ".kube/config",
    ],
)
def test_names_of_secrets(path: str) -> None:
    assert secret(path, b"anything\n")


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.sample",
        ".env.template",
        ".env.dist",
        ".env.local.example",
        ".envrc",
        "environment.ts",
        "env",
        "id_rsa.pub",
        "keys.py",
        "keyboard.md",
        "monkey",
        "pem.rs",
        "credentials.py",
        "aws/credentials",
        "service_account.go",
        "config",
        "package.json",
        "docs/netrc.md",
    ],
)
def test_names_that_pass(path: str) -> None:
    assert not secret(path, b"anything\n")


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("notes.txt", b"see below\n" + key()),
        ("notes.txt", key(b"")),
        ("notes.txt", key(b"OPENSSH ")),
        ("notes.txt", b"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + BODY),
        ("sa.json", b'{"private_key": "-----BEGIN PRIVATE KEY-----\\n' + BODY + b'\\n"}'),
        ("a.sh", f"export AWS_ACCESS_KEY_ID={AWS_ID}\n".encode()),
        ("a.sh", b"TOKEN=ghp_" + SIGNS[:36]),
        ("a.sh", b"TOKEN=github_pat_" + SIGNS + SIGNS),
        ("a.sh", b"TOKEN=glpat-" + SIGNS[:20]),
        ("a.sh", b"TOKEN=xoxb-123456789012-" + SIGNS[:30]),
        ("a.sh", b"KEY=sk-ant-api03-" + SIGNS + SIGNS),
        ("a.sh", b"KEY=sk-proj-" + SIGNS),
        ("a.sh", b"KEY=sk-" + SIGNS[:20] + b"T3BlbkFJ" + SIGNS[20:40]),
        ("a.js", b"const key = 'AIza" + SIGNS[:35] + b"'"),
        ("a.rb", b"Stripe.api_key = 'sk_live_" + SIGNS[:24] + b"'"),
        ("a.sh", b"npm_" + SIGNS[:36]),
        ("a.sh", b"pypi-AgEIcHlwaS5vcmc" + SIGNS + SIGNS),
        ("a.sh", b"hf_" + SIGNS[:34]),
        (".npmrc", b"//registry.example.invalid/:_authToken=abc\n"),
        (".pypirc", b"[pypi]\npassword = hunter2\n"),
    ],
)
def test_contents_of_secrets(path: str, head: bytes) -> None:
    assert secret(path, head)


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("cert.pem", b"-----BEGIN CERTIFICATE-----\n" + BODY),
        ("public.pem", b"-----BEGIN PUBLIC KEY-----\n" + BODY),
        ("talk.key", b"PK\x03\x04 a presentation"),
        ("parse.py", b'if line == "-----BEGIN RSA PRIVATE KEY-----":\n    return decode(rest)\n'),
        ("doc.md", b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"),
        ("doc.md", b"AKIAIOSFODNN7EXAMPLE"),
        ("doc.md", b"ghp_" + b"x" * 36),
        ("doc.md", b"sk-ant-api03-" + b"." * 80),
        ("doc.md", b"sk-proj-your-key"),
        ("style.css", b".task-project-name-is-very-long-indeed-and-goes-on-for-ever { }"),
        ("image.bin", b"\0\0 " + AWS_ID.encode()),
        (".npmrc", b"registry=https://registry.example.invalid/\n_authToken=${NPM_TOKEN}\n"),
        (".pypirc", b"[distutils]\nindex-servers = pypi\n"),
    ],
)
def test_contents_that_pass(path: str, head: bytes) -> None:
    assert not secret(path, head)


def test_a_private_key_beside_a_certificate_is_found() -> None:
    assert secret("both.pem", b"-----BEGIN CERTIFICATE-----\n" + BODY + b"\n" + key())


def test_variables_named_like_secrets_are_shown_without_their_value() -> None:
    said = {"API_KEY": "abc", "MY_TOKEN": "", "HOME": "/home/ada"}
    assert shown(said) == {"API_KEY": HIDDEN, "MY_TOKEN": "", "HOME": "/home/ada"}
