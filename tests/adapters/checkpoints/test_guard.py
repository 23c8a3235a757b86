"""Which files the guard flags, and which it lets pass."""

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.guard import (
    HEAD_BYTES,
    MIB,
    Flag,
    Guard,
    listed,
    secret,
    sized,
)
from untildone.domain.plain_text import amount

BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
# In two parts, so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "Q3EGRTZ5KW7LNP2M"
TOKEN = b"aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY3zA5cD7eF9gH"


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
        ("a.sh", f"export AWS_ACCESS_KEY_ID={AWS_KEY}\n".encode()),
        ("a.sh", b"TOKEN=ghp_" + TOKEN[:36]),
        ("a.sh", b"TOKEN=github_pat_" + TOKEN + TOKEN),
        ("a.sh", b"TOKEN=glpat-" + TOKEN[:20]),
        ("a.sh", b"TOKEN=xoxb-123456789012-" + TOKEN[:30]),
        ("a.sh", b"KEY=sk-ant-api03-" + TOKEN + TOKEN),
        ("a.sh", b"KEY=sk-proj-" + TOKEN),
        ("a.sh", b"KEY=sk-" + TOKEN[:20] + b"T3BlbkFJ" + TOKEN[20:40]),
        ("a.js", b"const key = 'AIza" + TOKEN[:35] + b"'"),
        ("a.rb", b"Stripe.api_key = 'sk_live_" + TOKEN[:24] + b"'"),
        ("a.sh", b"npm_" + TOKEN[:36]),
        ("a.sh", b"pypi-AgEIcHlwaS5vcmc" + TOKEN + TOKEN),
        ("a.sh", b"hf_" + TOKEN[:34]),
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
        ("image.bin", b"\0\0 " + AWS_KEY.encode()),
        (".npmrc", b"registry=https://registry.example.invalid/\n_authToken=${NPM_TOKEN}\n"),
        (".pypirc", b"[distutils]\nindex-servers = pypi\n"),
    ],
)
def test_contents_that_pass(path: str, head: bytes) -> None:
    assert not secret(path, head)


def test_a_private_key_beside_a_certificate_is_found() -> None:
    assert secret("both.pem", b"-----BEGIN CERTIFICATE-----\n" + BODY + b"\n" + key())


def test_files_on_disk(repo: Worktree) -> None:
    small = Guard(100)
    repo.write("large.bin", "x" * 101)
    repo.write("fits.bin", "x" * 100)
    repo.write(".env", "")
    repo.write("sub/.env", "A=1\n")
    (repo.top / "link.key").symlink_to("a.txt")
    (repo.top / "folder.key").mkdir()
    names = ("large.bin", "fits.bin", ".env", "sub/.env", "link.key", "folder.key", "gone.key")
    large = Flag("large.bin", 101, "larger than 100 bytes")
    found = small.check_all(repo.top, names)
    assert found == (large, Flag("sub/.env", 4, "looks like a file of environment secrets"))
    assert small.over_limit(repo.top, names) == (large,)
    assert sized(repo.top, "fits.bin") == Flag("fits.bin", 100, "flagged by an earlier limit")


def test_only_the_head_of_a_file_is_read(repo: Worktree) -> None:
    repo.write("far.txt", " " * HEAD_BYTES + AWS_KEY)
    repo.write("near.txt", " " * (HEAD_BYTES - len(AWS_KEY)) + AWS_KEY)
    found = Guard().check_all(repo.top, ("far.txt", "near.txt"))
    assert [flag.path for flag in found] == ["near.txt"]


def test_texts() -> None:
    assert [amount(n) for n in (1, 2048, 50 * MIB, 1536 * MIB)] == [
        "1 bytes",
        "2 KiB",
        "50 MiB",
        "1.5 GiB",
    ]
    flags = [Flag(f"{n}\x1b[31m.key", 5, "why") for n in range(12)]
    assert listed(flags[:2]) == "0.key (5 bytes, why), 1.key (5 bytes, why)"
    assert listed(flags).endswith("9.key (5 bytes, why) and 2 more")
    assert Guard.of(0.5) == Guard(MIB // 2)
