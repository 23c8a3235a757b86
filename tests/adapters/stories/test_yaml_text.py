"""The part of YAML that is read: what it means, what is refused, and edits in place."""

import subprocess
import sys

import pytest
import yaml

from untildone.adapters.stories.documents.json_text import Json, NotJson
from untildone.adapters.stories.documents.yaml_text import YamlText


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may be installed without its parser in C; all is the same then."""
    if request.param == "SafeLoader":
        monkeypatch.delattr(yaml, "CSafeLoader")


READ: dict[str, tuple[str, Json]] = {
    "nothing": ("# only a note\n\n", None),
    "mapping": ("a: 1\nb: text with#sign\nc:\n", {"a": 1, "b": "text with#sign", "c": None}),
    "comments": ("a: 1 # one\n# two\n\nb: x  # three\n", {"a": 1, "b": "x"}),
    "marker": ("---\na: 1\n", {"a": 1}),
    "mark and line ends": ("\ufeffa: 1\r\nb:\r\n  - x\r\n", {"a": 1, "b": ["x"]}),
    "scalars": (
        "- ~\n- true\n- False\n- 1.5\n- -3\n- 'it''s'\n- \"a\\tb\\u00fc\\e\"\n"
        "- yes\n- 1.2.3\n- a:b\n",
        [None, True, False, 1.5, -3, "it's", "a\tbü\x1b", "yes", "1.2.3", "a:b"],
    ),
    "list of objects": ("t:\n  - a: 1\n    b: 2\n  - a: 3\n", {"t": [{"a": 1, "b": 2}, {"a": 3}]}),
    "list at the key's column": (
        "t:\n- a: 1\n  b: 2\n- c\nu: 1\n",
        {"t": [{"a": 1, "b": 2}, "c"], "u": 1},
    ),
    "list of lists": ("- - a\n  - b\n-\n  - c\n", [["a", "b"], ["c"]]),
    "dash alone": ("-\n  a: 1\n- # note\n", [{"a": 1}, None]),
    "brackets": (
        "a: [1, 'x, y', \"z\", [b]] # n\nb: {c: d e, 'f': [1]}\nc: []\nd: {}\n",
        {"a": [1, "x, y", "z", ["b"]], "b": {"c": "d e", "f": [1]}, "c": [], "d": {}},
    ),
    "quoted keys": ("\"a b\": 1\n'c': 2\n", {"a b": 1, "c": 2}),
    "block": (
        "a: |\n  one\n    two\n\n  three # no note\nb: 1\n",
        {"a": "one\n  two\n\nthree # no note\n", "b": 1},
    ),
    "block without end": ("a: |-\n  one\n  two", {"a": "one\ntwo"}),
    "folded": ("a: >\n  one\n  two\n\n  three\nb: x\n", {"a": "one two\nthree\n", "b": "x"}),
    "empty block": ("a: |\nb: 1\n", {"a": "", "b": 1}),
    "text over lines": ("a: one\n  two\nb: 1\n", {"a": "one two", "b": 1}),
    "quotes over lines": (
        'a: "one\n  two\\\n  \\ three \\\\\n\n  four" # n\n'
        "b: 'it''s\n  # one\\\n\n\n  - two: x'\n",
        {"a": "one two three \\\nfour", "b": "it's # one\\\n\n- two: x"},
    ),
    "quotes over lines in a list": ("- 'a\r\n  b'\r\n- c\r\n", ["a b", "c"]),
    "brackets over lines": (
        "a: [1, # one\n  2]\nb: {c: 1,\n  d: 2,\n}\n",
        {"a": [1, 2], "b": {"c": 1, "d": 2}},
    ),
    "quotes that go on at the left": ('a:\n  b: "x\n  y"\n', {"a": {"b": "x y"}}),
    "tabs between words": ("a:\t1\t# one\nb: x\ty\n", {"a": 1, "b": "x y"}),
    "marks that end no line": ("a: x\u2028y\x85z # \u2029: n\n", {"a": "x\u2028y\x85z"}),
    "question in a value": ("a: b? # c?\nd: what\n", {"a": "b?", "d": "what"}),
    "halves of a character": (
        'a: "\\ud83d\\ude42 \\\\ud83d"\nb: \\ud83d\nc: "\\ud83d"\n',
        {"a": "🙂 \\ud83d", "b": "\\ud83d", "c": "\ufffd"},
    ),
    "at sign": ("a: @me\nb: [@me, @you]\n", {"a": "@me", "b": ["@me", "@you"]}),
    "address": ("a: https://x.y/z#k\n", {"a": "https://x.y/z#k"}),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ)
def test_values(text: str, value: Json) -> None:
    document = YamlText(text.encode())
    root = document.root()
    assert root.value == value
    _agree(document, root.value, root)


def _agree(document: YamlText, value: Json, place: object) -> None:
    from untildone.adapters.stories.documents.json_text import Place

    assert isinstance(place, Place)
    assert place.value == value
    if isinstance(value, list):
        for inner, item in zip(document.elements(place), value, strict=True):
            _agree(document, item, inner)
    if isinstance(value, dict):
        assert list(document.members(place)) == list(value)
        for key, inner in document.members(place).items():
            _agree(document, value[key], inner)


REFUSED: dict[str, tuple[str, int, str]] = {
    "anchor": ("a: 1\nb: &x 2\n", 2, "begins with `&`"),
    "alias": ("- *x\n", 1, "begins with `\\*`"),
    "tag": ("a: !!str 1\n", 1, "begins with `!`"),
    "merge": ("a: 1\n<<: 2\n", 2, "merge key"),
    "two documents": ("a: 1\n---\nb: 2\n", 2, "second document"),
    "directive": ("%YAML 1.2\n---\na: 1\n", 1, "directive"),
    "tab": ("a:\n\tb: 1\n", 2, "tab|indentation"),
    "question": ("? a\n: b\n", 1, "begins with `\\?`"),
    "same key": ("a: 1\nb: 2\na: 3\n", 3, "twice"),
    "same key in brackets": ("{a: 1, a: 2}\n", 1, "twice"),
    "colon": ("a: b: c\n", 1, "colon"),
    "brackets that never end": ("a: 1\nb: [1,\n  2\n\n", 3, "Brackets that do not end"),
    "pair in a list": ("a: [b: 1]\n", 1, "braces"),
    "control character": ("a: 1\nb: \x1b[1m\n", 2, "U\\+001B"),
    "carriage return": ("a: 1\nb: 2\rc: 3\n", 2, "carriage return"),
    "list as a key": ("a: 1\n[b]: 2\n", 2, "key: value"),
    "no word before the colon": (": 2\n", 1, "key: value"),
    "question in brackets": ("{? a : b}\n", 1, "begins with `\\?`"),
    "second question": ("a: 1\n? b\n", 2, "begins with `\\?`"),
    "quotes that never end": ("a: 'x\n  y\n", 1, "do not end"),
    "more behind quotes over lines": ('a: "x\n  y" z\n', 2, "more text"),
    "more behind quotes": ('a: "x" y\n', 1, "more text"),
    "too far to the right": ("a: 1\n   b: 2\n", 2, "not allowed"),
    "too far to the left": ("  a: 1\n b: 2\n", 2, "does not fit"),
    "no key": ("a: 1\nb\n", 2, "key: value"),
    "escape": ('a: "\\q"\n', 1, "escape"),
    "deep": ("".join(f"{' ' * n}a:\n" for n in range(200)), 42, "too deep"),
    "deep brackets": ("a: " + "[" * 5000, 1, "too deep"),
}


@pytest.mark.parametrize(("text", "line", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_read_is_an_error_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(NotJson, match=why) as caught:
        YamlText(text.encode()).root()
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: false # n\nb: 1\n", "a: true # n\nb: 1\n"),
        ("a: 'no'\n", "a: true\n"),
        ("a:\nb: 1\n", "a: true\nb: 1\n"),
        ("a: \r\nb: 1\r\n", "a: true \r\nb: 1\r\n"),
        ("{a: false, b: [1]}", "{a: true, b: [1]}"),
        ("b: x\r\nc: |\r\n  y\r\n", "b: x\r\na: true\r\nc: |\r\n  y\r\n"),
        ("b: x # n", "b: x # n\na: true"),
        ("{b: x}", "{b: x, a: true}"),
        ("{b: x,}", "{b: x,a: true}"),
        ("{b: x, # n\n}", "{b: x, # n\na: true}"),
        ("{}", "{a: true}"),
        ("# 🙂\nb: [@é,\n  1]\na: false\n", "# 🙂\nb: [@é,\n  1]\na: true\n"),
        ("a: |-\n  no\n\n# n\nb: 1\n", "a: true\n\n# n\nb: 1\n"),
        ("c: |\n  y\n", "a: true\nc: |\n  y\n"),
    ],
)
def test_one_value_changes_and_every_other_byte_stays(before: str, after: str) -> None:
    document = YamlText(before.encode())
    root = document.root()
    members = document.members(root)
    if "a" in members:
        edit = document.replaced(members["a"], True)
    else:
        edit = document.inserted(root, "a", True)
    assert document.edited([edit]).decode() == after
    value = YamlText(after.encode()).root().value
    assert isinstance(value, dict)
    assert value["a"] is True


@pytest.mark.parametrize(
    ("old", "word", "new"),
    [
        ("To Do", "Done", "Done"),
        ("'To Do'", "It's", "'It''s'"),
        ('"To Do"', "Done", '"Done"'),
        ("x", "true", '"true"'),
        ("x", "a: b", '"a: b"'),
        ("x", "✔ Done", '"✔ Done"'),
        ("x", "12", '"12"'),
    ],
)
def test_a_word_keeps_its_quotes_or_gets_the_ones_it_needs(old: str, word: str, new: str) -> None:
    document = YamlText(f"s: {old} # n\n".encode())
    edit = document.replaced(document.members(document.root())["s"], word)
    assert document.edited([edit]).decode() == f"s: {new} # n\n"
    assert YamlText(document.edited([edit])).root().value == {"s": word}


@pytest.mark.parametrize("data", [b"a\xad: 1\na\xad: 2\n", b"{a\xad: 1, a\xad: 2}\n"])
def test_a_message_about_odd_bytes_can_be_printed(data: bytes) -> None:
    with pytest.raises(NotJson, match="twice") as caught:
        YamlText(data).root()
    assert caught.value.why.encode()


def test_no_source_loads_the_library_before_it_reads_yaml() -> None:
    modules = "backlog_md, bmad, openspec, ralphy"
    code = f"from untildone.adapters.stories import {modules}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "untildone.adapters.stories.bmad" in done.stdout.split()
    assert "yaml" not in done.stdout.split()
