from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from untildone.domain.agents.promise import (
    REASON_BYTES,
    Promise,
    PromiseScanner,
    find_promise,
    neutralise,
)

DONE = "<promise>COMPLETE</promise>"
COMPLETE = Promise(complete=True)


def failed(reason: str = "") -> Promise:
    return Promise(complete=False, reason=reason)


def fail(reason: str) -> str:
    return f"<promise>FAILED: {reason}</promise>"


def asks(question: str = "") -> Promise:
    return Promise(complete=False, reason=question, asks=True)


COUNTS = {
    "alone": (DONE, COMPLETE),
    "alone on its line": (f"text\n{DONE}\nmore text", COMPLETE),
    "ends the message": (f"All done. {DONE}", COMPLETE),
    "ends it before blank lines": (f"All done. {DONE}  \n\n \t\n", COMPLETE),
    "ends it before escapes": (f"All done. {DONE}\x1b[0m\n\x1b[0m", COMPLETE),
    "windows lines": (f"text\r\n{DONE}\r\nmore", COMPLETE),
    "spaces around": (f"\n   \t{DONE} \t\nmore", COMPLETE),
    "deep indent": (f"        {DONE}\nmore", COMPLETE),
    "spaces inside": ("<promise> COMPLETE </promise>", COMPLETE),
    "on lines of its own": ("<promise>\nCOMPLETE\n</promise>\nmore", COMPLETE),
    "bold": (f"**{DONE}**\nmore", COMPLETE),
    "italic": (f"*{DONE}*\nmore", COMPLETE),
    "underscores": (f"__{DONE}__\nmore", COMPLETE),
    "one underscore": (f"_{DONE}_\nmore", COMPLETE),
    "struck out": (f"~~{DONE}~~\nmore", COMPLETE),
    "emphasis at the end of a sentence": (f"So: **{DONE}**", COMPLETE),
    "coloured": (f"\x1b[1;32m{DONE}\x1b[0m\nmore", COMPLETE),
    "coloured inside": ("<promise>\x1b[32mCOMPLETE\x1b[0m</promise>\nmore", COMPLETE),
    "coloured name": ("<\x1b[36mpromise\x1b[0m>COMPLETE</\x1b[36mpromise\x1b[0m>\nmore", COMPLETE),
    "failure": (fail("no network"), failed("no network")),
    "failure without space": ("<promise>FAILED:no network</promise>", failed("no network")),
    "failure without reason": ("<promise>FAILED</promise>", failed()),
    "failure with empty reason": ("<promise>FAILED: </promise>", failed()),
    "colons and quotes": (fail("a: 'b': \"c\""), failed("a: 'b': \"c\"")),
    "backticks in the reason": (fail("`x` and ``y"), failed("`x` and ``y")),
    "reason over lines": (fail("a\n\n  b\nc"), failed("a\n\n  b\nc")),
    "fence in the reason": (fail("a\n```\nb") + "\nmore", failed("a\n```\nb")),
    "quote in the reason": (fail("a\n> b\n") + "\nmore", failed("a\n> b")),
    "fence in the reason opens nothing": (fail("a\n```\nb") + f"\n{DONE}\nmore", COMPLETE),
    "tag in the reason ends it": (fail(f"saw\n{DONE}\nonly"), failed("saw\n<promise>COMPLETE")),
    "reason over lines ends the message": ("Sorry. " + fail("a\nb"), failed("a\nb")),
    "question": ("<promise>ASK: which one?</promise>", asks("which one?")),
    "question over lines": ("<promise>ASK:\na\nor b?\n</promise>\nmore", asks("a\nor b?")),
    "question without words": ("<promise>ASK</promise>", asks()),
    "question at the end": ("So: <promise>ASK: a or b</promise>", asks("a or b")),
    "a question after COMPLETE": (f"{DONE}\n<promise>ASK: sure?</promise>\n", asks("sure?")),
    "COMPLETE after a question": (f"<promise>ASK: sure?</promise>\n{DONE}\n", COMPLETE),
    "the last wins": (f"{DONE}\n{fail('x')}\n", failed("x")),
    "the last wins, other way": (f"{fail('x')}\n{DONE}\n", COMPLETE),
    "the ending wins": (f"{fail('x')}\nNo: {DONE}", COMPLETE),
    "after a wrong word": (f"{DONE}\n<promise>MAYBE</promise>\n", COMPLETE),
    "two on the last line": (f"{fail('x')} {DONE}", COMPLETE),
    "after inline code": (f"As `asked`: {DONE}", COMPLETE),
    "after code that names the tag": (f"Asked for `<promise>FAILED: x`: {DONE}", COMPLETE),
    "after code with other backticks": (f"As `a``b` ```c: {DONE}", COMPLETE),
    "after a lone backtick": (f"As `asked: {DONE}", COMPLETE),
    "after a closed fence": (f"```py\n{fail('x')}\n```\n{DONE}\n.", COMPLETE),
    "after a longer closing": (f"```\ncode\n`````  \n{DONE}\n.", COMPLETE),
    "after a fence in a list": (f"- ```sh\n  ls\n  ```\n{DONE}\n.", COMPLETE),
    "after a fence in a numbered list": (f"10. ```sh\n    ls\n    ```\n{DONE}\n.", COMPLETE),
    "after a deep fence": (f"      ```\n      ls\n```\n{DONE}\n.", COMPLETE),
    "after a fence in a quote": (f"> ```\n\n{DONE}\n.", COMPLETE),
    "after inline code of three": (f"```a``` b\n{DONE}\n.", COMPLETE),
    "between backticks of two paragraphs": (f"a ` b\n{DONE}\n\nc ` d", COMPLETE),
    "between backticks of two lengths": (f"a ` b\n{DONE}\nc `` d", COMPLETE),
    "between a backtick and a fence": (f"a ``` b\n{DONE}\n```\nx\n```", COMPLETE),
    "after a fence with blank lines": (f"```\na\n\nb\n```\n{DONE}\n`c`", COMPLETE),
    "after a list item with a backtick": (f"- a ` b\n- c\n{DONE}\n` d", COMPLETE),
    "before code that is a tag": (f"{fail('x')}\nsay `\n{DONE}\n`", failed("x")),
    "after a quote": (f"> quoted\n\n{DONE}\n.", COMPLETE),
    "after an opening that was prose": (
        f"<promise>FAILED: is for\nit </promise> x\n{DONE}",
        COMPLETE,
    ),
    "after an opening inside prose": (f"Print <promise>FAILED: or\n{DONE}\n.", COMPLETE),
    "after a cut-off tag": (f"<promise>COMPLETE\nno\n{fail('x')}\n.", failed("x")),
    "after a bare opening": (f"<promise>\nno\n{DONE}\n.", COMPLETE),
    "after a comment": (f"<!-- {fail('x')} -->\n{DONE}\nmore", COMPLETE),
    "after a comment over lines": (f"<!--\n{fail('x')}\n-->\n{DONE}\nmore", COMPLETE),
    "after a comment that is code": (f"Now `<!--` is gone.\n{DONE}\nmore -->", COMPLETE),
    "after a comment inside a line": (f"a <!-- b\n{DONE}\n\nc -->", COMPLETE),
    "after pre": (f"<pre>\n{fail('x')}\n</pre>\n{DONE}\nmore", COMPLETE),
    "after pre in one line": (f"<pre>{fail('x')}</pre>\n{DONE}\nmore", COMPLETE),
    "after another tag": (f"<prefix>\n{DONE}\nmore", COMPLETE),
    "after pre inside a line": (f"I removed the <pre> tag.\n{DONE}\nmore", COMPLETE),
    "after pre that is code": (f"`<pre>` is gone.\n{DONE}\nmore", COMPLETE),
    "after pre in a fence": (f"```html\n<pre>\n```\n{DONE}\nmore", COMPLETE),
    "in details": (f"<details>\n{DONE}\n</details>", COMPLETE),
    "after a comment in a fence": (f"```html\n<!--\n```\n{DONE}\nmore", COMPLETE),
    "deep after text": (f"text\n      {DONE}\nmore", COMPLETE),
    "deep in a list": (f"- a\n- b\n\n    {DONE}\nmore", COMPLETE),
    "deep in a list without a blank line": (f"- a\n          {DONE}\nmore", COMPLETE),
    "deep after deep text": (f"text\n    more\n    {DONE}\nmore", COMPLETE),
    "invalid characters": (f"\ufffd\x00\n{DONE}\n\ud800", COMPLETE),
}

COUNTS_NOT = {
    "nothing": "",
    "text": "I did it.",
    "inside a sentence": f"I print {DONE} when ready.",
    "alone with a stop": f"{DONE}.\nmore",
    "ends a message with a stop": f"Done: {DONE}.",
    "words before": f"Done: {DONE}\nmore",
    "bullet": f"- {DONE}\nmore",
    "star bullet": f"* {DONE}\n* {fail('x')}\nmore",
    "lower case": "<promise>complete</promise>",
    "lower tag": "<PROMISE>COMPLETE</PROMISE>",
    "another word": "<promise>COMPLETED</promise>",
    "words after": "<promise>COMPLETE now</promise>",
    "failure without colon": "<promise>FAILED badly</promise>",
    "empty": "<promise></promise>",
    "never closed": "<promise>FAILED: a\nb\n",
    "only opened": "<promise>",
    "never opened": "COMPLETE</promise>",
    "fence": f"```\n{DONE}\n```\n",
    "fence with language": f"```text\n{DONE}\n```\n",
    "tilde fence": f"~~~ a`b\n{DONE}\n~~~\n",
    "unclosed fence": f"```\n{DONE}\n",
    "unclosed fence at the end": f"```\nDone: {DONE}",
    "fence closed by the other character": f"```\n~~~\n{DONE}\n",
    "fence closed too short": f"````\n```\n{DONE}\n",
    "fence closed with words": f"```\n``` no\n{DONE}\n",
    "fence closed too deep": f"```\n    ```\n{DONE}\n",
    "indented fence": f"   ```\n{DONE}\n",
    "deep fence": f"        ```\n        {DONE}\n        ```\n",
    "fence in a list": f"1. ```\n   {DONE}\n   ```\n",
    "coloured fence": f"\x1b[2m```\x1b[0m\n{DONE}\n\x1b[2m```\x1b[0m\n",
    "comment over lines": f"Done?\n<!--\n{DONE}\n-->\n",
    "comment at the end": f"<!-- So:\nDone: {DONE}",
    "comment never closed": f"   <!-- remember\n\n{DONE}\n",
    "comment with a fence": f"<!--\n```\n-->\n```\n{DONE}\n",
    "pre": f"Then I say\n<pre>\n{DONE}\n</pre>\n",
    "pre with a class": f"  <PRE class='x'>\n\n{DONE}\n\n</PRE>\n",
    "pre at the end": f"<pre>\nDone: {DONE}",
    "pre never closed": f"<pre>\n\n{DONE}\n",
    "pre with a fence": f"<pre>\n```\n</pre>\n```\n{DONE}\n",
    "pre in one line": f"So: <pre>{DONE}</pre>",
    "comment inside a line": f"Done <!-- with\n{DONE}\nin --> words",
    "question in a comment": f"<!--\n<promise>ASK: x?\n</promise>\n{DONE}\n-->",
    "indented code": f"I end with:\n\n    {DONE}\n",
    "indented code by a tab": f"I end with:\n\n\t{DONE}\n\nmore",
    "indented code of several lines": f"I end with:\n\n    text\n\n    {DONE}\n\nmore",
    "indented code, a tag of several lines": "So:\n\n    <promise>\n    COMPLETE\n    </promise>\n",
    "indented code at the end": f"I end with:\n\n    So: {DONE}",
    "indented code in a list": f"1. a\n\n       {DONE}\n",
    "inline code": f"`{DONE}`",
    "inline code at the end": f"Print `{DONE}`",
    "double inline code": f"Print `` {DONE} ``",
    "triple inline code": f"```{DONE}```",
    "code over lines": f"I end with `\n{DONE}\n` when done.",
    "code over lines, two": f"see `a\n{DONE}\nb` ok",
    "double code over lines": f"It is ``a ` b\n{DONE}\nc`` here",
    "code over lines in a list": f"1. one\n2. say `x\n   {DONE}\n   y` then",
    "code over lines after code": f"`a` and `b\n{DONE}\n`",
    "half in inline code": "Print `<promise>FAILED: a` b</promise>",
    "quote": f"> {DONE}",
    "deep quote": f"  > > {DONE}\nmore",
    "quote in a list": f"- > Say {DONE}",
    "quote at the end": f"> Say {DONE}",
    "fence opened by an abandoned tag": f"<promise>FAILED: a\n```\nb </promise> c\n{DONE}\n",
    "reason over lines, then words": "Sorry. <promise>FAILED: a\nb</promise> c",
    "reason over lines in mid-text": "Sorry. <promise>FAILED: a\nb</promise>\nc",
}


@pytest.mark.parametrize(("text", "promise"), COUNTS.values(), ids=COUNTS)
def test_counts(text: str, promise: Promise) -> None:
    assert find_promise([text]) == promise


@pytest.mark.parametrize("text", COUNTS_NOT.values(), ids=COUNTS_NOT)
def test_does_not_count(text: str) -> None:
    assert find_promise([text]) is None


@pytest.mark.parametrize(
    ("messages", "promise"),
    [
        ([], None),
        ([DONE, "Bye."], COMPLETE),
        ([f"Now {DONE}", "Bye."], None),
        ([f"Now {DONE}", ""], None),
        (["Hello.", f"Now {DONE}"], COMPLETE),
        ([fail("x"), DONE], COMPLETE),
        ([DONE, f"No: {fail('x')}"], failed("x")),
        (["```\nopen", DONE], COMPLETE),
        (["<promise>COMP", "LETE</promise>"], None),
    ],
)
def test_messages(messages: list[str], promise: Promise | None) -> None:
    assert find_promise(messages) == promise


def test_a_long_reason_is_cut() -> None:
    for text in (fail("é" * REASON_BYTES), fail("é\n" * REASON_BYTES), fail("é " * 300_000)):
        found = find_promise([text + "\nmore"])
        assert found is not None
        assert (found.complete, found.reason[:1]) == (False, "é")
        assert REASON_BYTES - 2 <= len(found.reason.encode()) <= REASON_BYTES


def test_a_tag_without_end_hides_what_follows_for_a_while_only() -> None:
    text = "<promise>FAILED: prose\n" + "line\n" * 300_000 + DONE
    assert find_promise([text]) == COMPLETE


def scan(pieces: list[bytes], *, final: bool = True) -> Promise | None:
    scanner = PromiseScanner()
    for piece in pieces:
        scanner.feed(piece)
    first = scanner.result(final=final)
    assert scanner.result(final=final) == first
    return first


TOKENS = st.sampled_from(
    [DONE, "<promise>", "</promise>", "COMPLETE", "FAILED", "FAILED:", ": why", "<", "promise"]
    + ["```", "````", "~~~", "`", "``", "~", "> ", "- ", "1. ", "    ", " ", "**", "_", "text", "é"]
    + ["\n"] * 8
    + ["\r\n", "\x1b[1m", "\x1b]0;", "\x00", fail("x"), fail("a\nb"), f"\n{DONE}\n", "\n```\n"]
)
TEXTS = st.lists(TOKENS, max_size=40).map("".join)


@given(text=TEXTS, data=st.data())
def test_cuts_change_nothing(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12).map(sorted))
    bounds = [0, *cuts, len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(bounds)]
    assert scan(pieces) == find_promise([text])
    assert scan([raw[i : i + 1] for i in range(len(raw))]) == find_promise([text])
    assert scan(pieces, final=False) == find_promise([text, ""])


@pytest.mark.parametrize("text", [text for text, _ in COUNTS.values()], ids=COUNTS)
def test_every_cut_of_every_example(text: str) -> None:
    raw = text.encode("utf-8", "replace")
    expected = find_promise([text])
    assert {scan([raw[:cut], raw[cut:]]) for cut in range(len(raw) + 1)} == {expected}


@pytest.mark.parametrize("size", [1000, 65_536, 1_000_003])
@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("x" * 3_000_000 + DONE, COMPLETE),
        ("x" * 3_000_000 + "\n" + DONE, COMPLETE),
        ("> " + "x" * 3_000_000 + DONE, None),
        ("```" + "x" * 3_000_000 + "\n" + DONE, None),
        (DONE + " " * 3_000_000, COMPLETE),
        (DONE + " " * 3_000_000 + "x", None),
        (f"Done: {DONE}" + "\n" * 3_000_000, COMPLETE),
        (f"Done: {DONE}" + "\n" * 3_000_000 + "x", None),
        ("x" * 1_000_000 + f" promise\n{DONE}\n" + "y" * 1_000_000, COMPLETE),
    ],
)
def test_huge_lines(text: str, promise: Promise | None, size: int) -> None:
    raw = text.encode()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert (scan(pieces), find_promise([text])) == (promise, promise)


def test_bytes_that_are_no_text() -> None:
    assert scan([b"\xff\xfe\x9b\n", b"\xe2\x82", f"\n{DONE}\n\xf0".encode("latin-1")]) == COMPLETE


@pytest.mark.parametrize(
    ("prompt", "safe"),
    [
        ("Do it.", "Do it."),
        ("", ""),
        (f"Print `{DONE}` or\n```\n{DONE}\n```", f"Print `{DONE}` or\n```\n{DONE}\n```"),
        (
            f"Print\n{DONE}\nor\n" + fail("a\nb") + "\nnow",
            f"Print\n> {DONE}\nor\n> " + fail("a\n> b") + "\nnow",
        ),
        (f"Print\n{DONE}\n", f"Print\n> {DONE}\n\nEnd of the prompt.\n"),
        (f"a\n\nPrint {DONE}", f"a\n\n> Print {DONE}\n\nEnd of the prompt.\n"),
        ("Print " + fail("a\nb"), "> Print " + fail("a\n> b") + "\n\nEnd of the prompt.\n"),
        (f"Print {DONE}\nnow", f"Print {DONE}\nnow"),
        (f"Print `\n{DONE}\n` now", f"Print `\n{DONE}\n` now"),
        (
            f"Print `\n{DONE}\n` now\n\n{DONE}\n",
            f"Print `\n{DONE}\n` now\n\n> {DONE}\n\nEnd of the prompt.\n",
        ),
    ],
)
def test_neutral_prompts(prompt: str, safe: str) -> None:
    assert neutralise(prompt) == safe


@given(TEXTS)
@example(fail("a\n```\nb") + f"\n```\n{DONE}\n```\n{DONE}")
def test_an_echoed_prompt_never_counts(prompt: str) -> None:
    safe = neutralise(prompt)
    assert find_promise([safe]) is None
    assert find_promise([safe, ""]) is None
    assert neutralise(safe) == safe
    if find_promise([prompt]) is None:
        assert safe == prompt


@given(TEXTS)
def test_an_answer_after_an_echoed_prompt_counts_unless_a_fence_is_open(text: str) -> None:
    prompt = neutralise(text.replace("`", "").replace("~", ""))
    assert find_promise([f"{prompt}\n</promise> .\n\n{DONE}\n"]) == COMPLETE


ENDS_WITH_A_QUESTION = {
    "a line": ("Which one?", "Which one?"),
    "after other paragraphs": ("a\n\nb\nc\n\nWhich one?\n\n", "b\nc\n\nWhich one?"),
    "emphasis and colours": ("\x1b[1m**Which one?**\x1b[0m  \n", "**Which one?**"),
    "another script": ("\u54ea\u4e00\u4e2a\uff1f", "\u54ea\u4e00\u4e2a\uff1f"),
    "after code": ("```\nx\n```\nIs `that` right?", "```\nx\n```\nIs `that` right?"),
    "windows lines": ("a\r\n\r\nWhich?\r\n", "a\n\nWhich?"),
}
ENDS_WITHOUT_ONE = {
    "nothing": "",
    "a statement": "Which one? That one.",
    "in code": "Is it `a?`",
    "in a fence": "```\nWhich one?\n```",
    "in an open fence": "```\nWhich one?",
    "in a quote": "> Which one?",
    "before the end": "Which one?\n\nI take the first.",
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("text", "question"), ENDS_WITH_A_QUESTION.values(), ids=ENDS_WITH_A_QUESTION
)
def test_a_message_that_ends_with_a_question(text: str, question: str, size: int) -> None:
    assert asked(text, size) == question
    assert "\n" + question in "\n" + asked("x" * 9999 + "\n\n" + text, size)


@pytest.mark.parametrize("text", ENDS_WITHOUT_ONE.values(), ids=ENDS_WITHOUT_ONE)
def test_a_message_that_does_not(text: str) -> None:
    assert asked(text) == ""


def asked(text: str, size: int = 100) -> str:
    scanner, data = PromiseScanner(), text.encode()
    for at in range(0, len(data), size):
        scanner.feed(data[at : at + size])
    return scanner.question()


@pytest.mark.parametrize(
    "prompt", ["Which one?\n", "<promise>ASK: a?</promise>\n", f"{DONE}\nWhich one?\n"]
)
def test_an_echoed_prompt_asks_nothing(prompt: str) -> None:
    safe = neutralise(prompt)
    assert (asked(safe), find_promise([safe])) == ("", None)
    assert neutralise(safe) == safe


LAST_LINES = {
    "<promise>COMPLETE</promise>": True,
    "Done.\n**<promise>COMPLETE</promise>**\n\n": True,
    "\x1b[1m<promise>FAILED: two\nlines</promise>\x1b[0m\n": True,
    "Done. <promise>COMPLETE</promise>\n": False,
    "<promise>COMPLETE</promise>\nOne more thing": False,
    "<promise>COMPLETE": False,
    "```\n<promise>COMPLETE</promise>\n": False,
    "> <promise>COMPLETE</promise>\n": False,
}


@pytest.mark.parametrize("text", LAST_LINES)
def test_a_promise_on_the_last_line_so_far(text: str) -> None:
    scanner = PromiseScanner()
    for byte in text.encode():
        scanner.feed(bytes([byte]))
    assert (scanner.last_line() is not None) is LAST_LINES[text]
    scanner.feed(b"\nmore\n<promise>FAILED: x</promise>\nand more")
    assert scanner.last_line() is None
