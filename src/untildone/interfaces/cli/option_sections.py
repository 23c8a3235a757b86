"""The options of `run` and `resume` in sections, what most people need first."""

from collections.abc import Iterator

import click

# By the names of settings and parameters; what is named nowhere comes under "More".
SECTIONS: dict[str, tuple[str, ...]] = {
    "Needed most": ("agent", "verify", "strict", "budget", "on_complete", "dry_run"),
    "Stories": (
        *("story", "with_deps", "source", "source_file", "granularity", "archive"),
        *("task", "task_file", "done"),
    ),
    "Agent": (
        *("agent_cmd", "agent_arg", "agents", "model", "permissions", "fallback"),
        *("resume_session", "script", "prompt_template", "learnings", "no_learnings", "usage_cmd"),
    ),
    "Failures and limits": (
        *("max_retries", "on_fail", "on_stuck", "max_iterations", "stall_threshold"),
        *("timeout", "idle_timeout", "trouble_budget"),
    ),
    "Checks": (
        *("story_verify", "verify_timeout", "verify_start", "baseline", "clean_room", "evidence"),
        *("allow_empty_story", "protect", "protect_checks", "protect_tests", "trust_story_checks"),
    ),
    "Git": ("checkpoint", "commit_message", "max_file_mb", "include_flagged"),
    "Lanes": ("lanes", "optimistic", "slots", "lane_setup", "check_slots", "regenerate"),
    "Sandbox": ("sandbox", "sandbox_network", "sandbox_writable"),
    "While you are away": ("detach", "on_hangup", "notify", "notify_on"),
    "Output": ("as_json", "quiet", "no_color"),
}
MORE = "More"


class SectionedCommand(click.Command):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in self._sections(ctx):
            with formatter.section(title):
                formatter.write_dl(rows)

    def _sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        options = (p for p in self.get_params(ctx) if isinstance(p, click.Option))
        records = ((option.name or "", option.get_help_record(ctx)) for option in options)
        left = {name: row for name, row in records if row}
        for title, names in SECTIONS.items():
            if rows := [left.pop(name) for name in names if name in left]:
                yield title, rows
        if left:
            yield MORE, list(left.values())
