"""Stories of a `prd.json`, in the dialects of the loops that use one."""

from untildone.adapters.stories.documents.json_text import JsonText
from untildone.adapters.stories.documents.object_file import Format
from untildone.domain.regex import regex

# Programs that learn from data keep the names of their columns in a file called so.
_SIGNATURE = regex(rb'"(?:passes|status|state|completed|complete|done|features)"\s*:')
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
    shared=("feature_list.json",),
    signature=_SIGNATURE,
)
SOURCE = FORMAT.kind()
