"""Stories of a `prd.json`, in the dialects of the loops that use one."""

from untildone.adapters.stories.json_text import JsonText
from untildone.adapters.stories.object_file import Format

FORMAT = Format(
    name="prd-json",
    title="Stories in prd.json",
    text=JsonText,
    flag="passes",
    paths=(
        "prd.json",
        "scripts/ralph/prd.json",
        ".ralph/prd.json",
        "ralph/prd.json",
        "tasks/prd.json",
        "feature_list.json",
    ),
    globs=(".agents/tasks/prd-*.json", "tasks/prd-*.json"),
    suffixes=(".json",),
)
SOURCE = FORMAT.kind()
