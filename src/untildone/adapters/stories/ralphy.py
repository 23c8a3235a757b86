"""Stories of a ralphy task list in YAML."""

import re

from untildone.adapters.stories.documents.object_file import Format
from untildone.adapters.stories.documents.yaml_text import YamlText
from untildone.domain.regex import regex

# Ansible, Tekton, CrewAI and others call their files so too.
_KEYS = rb"completed|passes|parallel_group|title|priority|status|depends_on"
_SIGNATURE = regex(
    rb"^[ \t]*(?:(?:-[ \t]+)?[\"']?(?:" + _KEYS + rb")[\"']?|-[ \t]+id)[ \t]*:", re.MULTILINE
)
FORMAT = Format(
    name="ralphy",
    title="Tasks in tasks.yaml",
    text=YamlText,
    flag="completed",
    paths=("tasks.yaml", "tasks.yml", ".ralphy/tasks.yaml", "prd.yaml"),
    globs=(),
    suffixes=(".yaml", ".yml"),
    shared=("tasks.yaml", "tasks.yml"),
    signature=_SIGNATURE,
    unique_titles=True,
)
SOURCE = FORMAT.kind()
