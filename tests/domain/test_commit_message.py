"""What the commit of a finished story is called."""

import pytest

from untildone.domain.run.commit_message import DEFAULT, LONGEST, subject, unknown_placeholders


@pytest.mark.parametrize(
    ("template", "title", "made"),
    [
        (DEFAULT, "Add a login", "checkpoint: 2.1"),
        ("{title} ({id})", "Add a login", "Add a login (2.1)"),
        ("{change}: {title}, attempt {attempt}", "Add", "auth: Add, attempt 3"),
        ("{title}", "two\nlines\tand \x1b[31mred\x1b[0m\x07", "two lines and red"),
        ("{title}", "", "checkpoint: 2.1"),
        ("{title}", "x" * 101, "x" * 99 + "…"),
        ("{title} {id}", "{id} and {name}", "{id} and {name} 2.1"),
        ("a { b } {", "", "a { b } {"),
        ("\ud800{id}", "", "\ufffd2.1"),
    ],
)
def test_a_subject_is_one_line_made_of_the_template(template: str, title: str, made: str) -> None:
    assert subject(template, "2.1", title, "auth", 3) == made


def test_a_subject_is_bounded() -> None:
    assert len(subject("word " * 100, "1", "", "auth", 1)) == LONGEST


@pytest.mark.parametrize(
    ("template", "unknown"),
    [("{id} {title} {change} {attempt}", ()), ("{ID} {} {ID}", ("ID", "")), ("{ id }", ())],
)
def test_what_means_nothing_is_named(template: str, unknown: tuple[str, ...]) -> None:
    assert unknown_placeholders(template) == unknown
