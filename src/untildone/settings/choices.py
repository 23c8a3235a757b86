"""The agents and the story sources that can be chosen."""

# The agents that are programs: the spec of each is in the module of the same name.
PROGRAMS = (
    "claude",
    "codex",
    "gemini",
    "qwen",
    "goose",
    "pi",
    "opencode",
    "aider",
    "copilot",
    "droid",
    "kimi",
    "cline",
    "vibe",
    "cursor-agent",
)
AGENTS = (*PROGRAMS, "command", "scripted")

# The story sources in the order in which they are asked, each with the paths that hint at it: its
# ways are in the module called like it, which is only loaded where one of the paths exists.
SOURCES: dict[str, tuple[str, ...]] = {
    "openspec": ("openspec/changes",),
    "tasks-md": ("tasks.md",),
    "speckit": ("specs",),
    "kiro": (".kiro/specs",),
    "prd-json": (
        *("prd.json", "scripts/ralph/prd.json", ".ralph/prd.json", "ralph/prd.json"),
        *("tasks", "feature_list.json", ".agents/tasks"),
    ),
    "taskmaster": (".taskmaster/tasks/tasks.json", "tasks/tasks.json"),
    "backlog-md": ("backlog/tasks", ".backlog/tasks"),
    "beads": (".beads",),
    "ralphy": ("tasks.yaml", "tasks.yml", ".ralphy/tasks.yaml", "prd.yaml"),
    "bmad": ("_bmad-output/implementation-artifacts", "docs/sprint-artifacts", "docs/stories"),
    "markdown": (
        *("PRD.md", "TODO.md", "IMPLEMENTATION_PLAN.md"),
        *("fix_plan.md", "@fix_plan.md", ".ralph"),
    ),
    "github": (),
}
