import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untildone.domain.plain_text import amount, count_of, cut, plain

ATTACKS = {
    "title": ("\x1b]0;owned\x07text", "text"),
    "title, ST": ("\x1b]2;owned\x1b\\text", "text"),
    "clipboard": ("\x1b]52;c;cm0gLXJmIC8=\x07text", "text"),
    "link": ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
    "alternate screen": ("\x1b[?1049htext\x1b[?1049l", "text"),
    "clear": ("\x1b[2J\x1b[Htext", "text"),
    "title report": ("\x1b[21ttext", "text"),
    "device control": ('\x1bP$q"p\x1b\\text', "text"),
    "8-bit control sequence": ("\x9b31mtext\x9b0m", "text"),
    "8-bit OSC": ("\x9d0;owned\x9ctext", "text"),
    "carriage return": ("rm -rf /\rls      ", "rm -rf /ls      "),
    "backspace": ("rm\b\bls", "rmls"),
    "bidi": ("abc\u202egpj.exe\u2066\u2069\u200f", "abcgpj.exe"),
    "NUL": ("a\x00b", "ab"),
    "OSC left open": ("before\x1b]0;hidden\nafter", "before\nafter"),
    "OSC left open at the end": ("before\x1b]0;hidden", "before"),
    "CSI left open": ("before\x1b[31", "before"),
    "full reset": ("\x1bctext", "text"),
    "character set": ("\x1b(0text", "text"),
    "escape at the end": ("text\x1b", "text"),
    "nested": ("\x1b\x1b[31m[31mtext", "[31mtext"),
    "APC, PM, SOS": ("\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\text", "text"),
    "DEL": ("a\x7fb", "ab"),
    "line separators": ("a\u2028b\u2029c", "abc"),
    "half a surrogate pair": ("a\ud800b", "a\ufffdb"),
}


@pytest.mark.parametrize(("raw", "shown"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_a_terminal_acts_on_is_left(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@pytest.mark.parametrize("text", ["", "plain", "a\n\tb\n", "Grüße, 世界 👩‍💻", "a [31m b"])
def test_ordinary_text_stays(text: str) -> None:
    assert plain(text) == text


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b\x9d\x07\x9c\\[]P\r\b\n;0m\u202e")))
def test_the_output_is_safe_and_stays_as_it_is(text: str) -> None:
    shown = plain(text)
    controls = {c for c in shown if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"}
    assert (controls, plain(shown)) == (set(), shown)
    assert shown.encode("utf-8").decode("utf-8") == shown


@pytest.mark.parametrize("piece", ["\x1b", "\x1b]0;", "\x1b[", "\x9b1;", "a\x1b]", "\r", "x"])
def test_time_grows_with_the_length_only(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    started = time.process_time()
    plain(text)
    assert time.process_time() - started < 5
    assert sys.getsizeof(text) > 1_000_000


def test_a_number_of_bytes_for_people() -> None:
    assert [amount(n) for n in (0, 1023, 1024, 1536, 50 * 1024**2, 3 * 1024**3)] == [
        *("0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "50 MiB", "3 GiB"),
    ]
    assert amount(None) == "an unknown number of bytes"


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc\n[… 1 characters left out …]\nefg"),
        ("abcdefgh", 5, "ab\n[… 4 characters left out …]\ngh"),
    ],
)
def test_cut_keeps_head_and_tail(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected


def test_a_number_with_its_noun() -> None:
    said = [count_of(n, "file") for n in (0, 1, 2)]
    assert said == ["0 files", "1 file", "2 files"]
    assert [count_of(n, "story", "stories") for n in (1, 2)] == ["1 story", "2 stories"]
