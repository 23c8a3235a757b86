"""Editing one value of a JSON file changes that value and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untildone.adapters.stories.documents.json_text import Json, JsonText, NotJson, Place, plain

VALUES: st.SearchStrategy[Json] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(),
        st.floats(allow_nan=False).filter(lambda number: abs(number) != float("inf")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
BLANKS = st.text("\t\n\r ", max_size=3)


@st.composite
def documents(draw: st.DrawFn, value: Json | None = None) -> str:
    """A value as somebody may have written it: any blanks, any escapes, equal keys."""
    value = draw(VALUES) if value is None else value
    return draw(st.sampled_from(("", "\ufeff"))) + _draw_text(draw, value)


def _draw_text(draw: st.DrawFn, value: Json) -> str:
    before, behind = draw(BLANKS), draw(BLANKS)
    if isinstance(value, list):
        inner = ",".join(_draw_text(draw, item) for item in value)
        text = f"[{inner or draw(BLANKS)}]"
    elif isinstance(value, dict):
        pairs = [
            f"{draw(BLANKS)}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{draw(BLANKS)}:"
            f"{_draw_text(draw, item)}"
            for key, item in value.items()
        ]
        text = "{" + (",".join(pairs) or draw(BLANKS)) + "}"
    else:
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return f"{before}{text}{behind}"


def _places(document: JsonText, place: Place) -> list[Place]:
    found = [place]
    if isinstance(place.value, list):
        inner = list(document.elements(place))
        assert [each.value for each in inner] == place.value
    elif isinstance(place.value, dict):
        by_key = document.members(place)
        assert {key: each.value for key, each in by_key.items()} == place.value
        inner = list(by_key.values())
    else:
        inner = []
    for each in inner:
        found += _places(document, each)
    return found


@given(documents())
def test_values_and_places_agree(text: str) -> None:
    document = JsonText(text.encode())
    root = document.root()
    for place in _places(document, root):
        assert json.loads(document.text[place.start : place.end]) == place.value


@given(st.data())
def test_one_value_changes_and_every_other_byte_stays(data: st.DataObject) -> None:
    raw = data.draw(documents()).encode()
    document = JsonText(raw)
    place = data.draw(st.sampled_from(_places(document, document.root())))
    new: Json = data.draw(st.one_of(st.booleans(), st.sampled_from(("done", "ü"))))
    edited = document.edited([document.replaced(place, new)])
    head = document.text[: place.start].encode()
    tail = document.text[place.end :].encode()
    assert edited == head + json.dumps(new, ensure_ascii=False).encode() + tail
    JsonText(edited).root()


@given(st.data())
def test_a_new_member_is_added_and_every_other_byte_stays(data: st.DataObject) -> None:
    raw = data.draw(documents()).encode()
    document = JsonText(raw)
    objects = [p for p in _places(document, document.root()) if isinstance(p.value, dict)]
    for place in objects[:3]:
        assert isinstance(place.value, dict)
        edit = document.inserted(place, "passes", True)
        edited = JsonText(document.edited([edit]))
        assert edited.text == document.text[: edit.start] + edit.text + document.text[edit.end :]
        assert (edit.start, edit.end) == (edit.end, edit.start)
        shifted = Place(None, place.start, place.end)
        assert {k: p.value for k, p in edited.members(shifted).items()} == {
            **place.value,
            "passes": True,
        }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "passes": true}'.replace(", ", ",", 1)),
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "passes": true\n}\n'),
        ('{\r\n\t"a" : 1\r\n}', '{\r\n\t"a" : 1,\r\n\t"passes" : true\r\n}'),
        ('{"x":0, "a":1}', '{"x":0, "a":1, "passes":true}'),
        ("{}", '{"passes": true}'),
        ("{ }", '{"passes": true }'),
    ],
)
def test_a_new_member_is_laid_out_like_its_neighbour(before: str, after: str) -> None:
    document = JsonText(before.encode())
    edit = document.inserted(document.root(), "passes", True)
    assert document.edited([edit]).decode() == after


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1, "a": 2}', 1),
        ('{"a" : 1,\n"a"\n: 2}', 2),
        ('{"a":1,\n\n"\\u0061":2}', 3),
        ('{"a": {"b": 1},\n"a":\n2}', 2),
        ('{"a\\"": 1,\n"a\\"": 2}', 2),
        ('{"a\\\\": 1,\n"a\\\\": 2}', 2),
        ('{"b": ": ", "a": 1,\n"a": "\\":"}', 2),
    ],
)
def test_the_same_key_twice_is_an_error_with_its_line(text: str, line: int) -> None:
    why = r"The key `a.?` stands here twice\."
    document = JsonText(text.encode())
    with pytest.raises(NotJson, match=why) as caught:
        document.members(document.root())
    assert caught.value.line == line
    document = JsonText(f"[{{}},\n{text}]".encode())
    with pytest.raises(NotJson, match=why) as caught:
        list(document.elements(document.root()))
    assert caught.value.line == line + 1


def test_what_is_deeper_may_have_a_key_twice() -> None:
    document = JsonText(b'[{"a": 1, "b": {"a": 1, "a": 2}}]')
    (found,) = document.elements(document.root())
    assert found.value == {"a": 1, "b": {"a": 2}}
    assert document.members(found)["b"].value == {"a": 2}


def test_bytes_that_are_not_utf_8_stay() -> None:
    raw = b'\xef\xbb\xbf{"t\xff": "\xed\xa0\x80 \xe2\x82", "passes": false}\r\n'
    document = JsonText(raw)
    edit = document.replaced(document.members(document.root())["passes"], True)
    assert document.edited([edit]) == raw.replace(b"false", b"true")


@pytest.mark.parametrize(
    ("raw", "line", "why"),
    [
        (b"", 1, "Expecting value"),
        (b"\n\n{\n// no\n}", 4, "property name"),
        (b'{"a": 1,}', 1, "property name|trailing comma"),
        (b"[1]\n[2]", 2, "more text"),
        (b"[\nNaN]", 1, "NaN"),
        (b"[" * 100_000, 1, "nested too deeply"),
        (b'{"a":' * 100_000, 1, "nested too deeply"),
        (b"[\n" + b"9" * 5000 + b"]", 1, "digits"),
        (b'"\x00"', 1, "control character"),
        (b"{'a': 1}", 1, "property name"),
        (b'["a\nb"]', 1, "control character"),
    ],
)
def test_what_is_not_json_is_an_error_with_its_line(raw: bytes, line: int, why: str) -> None:
    with pytest.raises(NotJson, match=why) as caught:
        JsonText(raw).root()
    assert caught.value.line == line


def test_text_to_print_has_no_halves_of_characters() -> None:
    assert plain("a\ud83dü\udcff") == "a\ufffdü\ufffd"
    assert plain("🙂ü") == "🙂ü"
