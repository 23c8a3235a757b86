"""Stories of a ralphy task list in YAML."""

from untildone.adapters.stories.object_file import Format
from untildone.adapters.stories.yaml_text import YamlText

FORMAT = Format(
    name="ralphy",
    title="Tasks in tasks.yaml",
    text=YamlText,
    flag="completed",
    paths=("tasks.yaml", "tasks.yml", ".ralphy/tasks.yaml", "prd.yaml"),
    globs=(),
    suffixes=(".yaml", ".yml"),
)
SOURCE = FORMAT.kind()
