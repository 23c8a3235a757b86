"""Numbers at the start of a text, and slugs that git accepts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untildone.adapters.stories.checklists import naming


@pytest.mark.parametrize(
    ("text", "number", "rest"),
    [
        ("1.1 foo", "1.1", "foo"),
        ("1.2.3 foo", "1.2.3", "foo"),
        ("1.2. foo", "1.2", "foo"),
        ("1. foo", "1", "foo"),
        ("1) foo", "1", "foo"),
        ("1: foo", "1", "foo"),
        ("**1.1** foo", "1.1", "foo"),
        ("**1.1 foo**", "1.1", "foo"),
        ("**1.1:** foo", "1.1", "foo"),
        ("`1.1` foo", "1.1", "foo"),
        ("~~1.1 foo~~", "1.1", "foo"),
        ("* 1.1 foo", "1.1", "foo"),
        ("T001 [P] foo", "T001", "[P] foo"),
        ("T071-A foo", "T071-A", "foo"),
        ("**T071.1**: foo", "T071.1", "foo"),
        ("T071B foo", "T071B", "foo"),
        ("T4-GPU foo", "", "T4-GPU foo"),
        ("T012-T015 foo", "", "T012-T015 foo"),
        ("1.1\u3001foo", "1.1", "foo"),
        ("1.1", "1.1", ""),
        ("3 ways to fail", "", "3 ways to fail"),
        ("1.5x faster", "", "1.5x faster"),
        ("1.1.foo", "", "1.1.foo"),
        ("Task 1.1", "", "Task 1.1"),
        ("\u0661. foo", "", "\u0661. foo"),
        ("", "", ""),
    ],
)
def test_number(text: str, number: str, rest: str) -> None:
    assert naming.split_number(text, letters=True) == (number, rest)


def test_letters_are_for_tasks_only() -> None:
    assert naming.split_number("T001 foo", letters=False) == ("", "T001 foo")


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Phase 1: Set up", "phase-1-set-up"),
        ("v1.2 release", "v1.2-release"),
        ("1. Set up", "1-set-up"),
        ("feature/x.lock", "feature-x-lock"),
        ("Größe prüfen", "größe-prüfen"),
        ("数据库 迁移", "数据库-迁移"),
        ("e.g. this", "e.g-this"),
        ("a_b--c", "a_b-c"),
    ],
)
def test_slug(text: str, slug: str) -> None:
    assert naming.slug(text) == slug


def test_text_without_letters_gets_a_name_of_its_own() -> None:
    assert naming.slug("🎉") != naming.slug("🚀")
    assert naming.slug("").startswith("story-")


def test_long_texts_with_one_beginning_differ() -> None:
    assert naming.slug("word " * 30 + "a") != naming.slug("word " * 30 + "b")


@given(st.text() | st.text(alphabet=".-_lock@{~^:?*[\\/ \t\x7fA1é"))
def test_slug_is_always_a_legal_part_of_a_ref(text: str) -> None:
    name = naming.slug(text)
    assert 0 < len(name) <= 60
    assert not re.search(r"[\x00-\x20\x7f~^:?*\[\\/]|\.\.|@\{", name)
    assert not name.startswith((".", "-"))
    assert not name.endswith((".", ".lock"))
    assert name == naming.slug(text)
