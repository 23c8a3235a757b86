"""Where the learnings of a change are kept."""

from pathlib import Path

from untildone.adapters.git.place import Place
from untildone.adapters.records.learnings_file import LearningsFile
from untildone.domain.errors import UserError
from untildone.domain.run.plan import Plan

OFF = "off"


def store_of(wanted: str, place: Place, change: str) -> str:
    """The file that outlives the run's worktree; empty if no learnings are wanted."""
    if wanted == OFF:
        return ""
    if not wanted:
        name = f"{change.replace('/', '-')}.md"
        return str(place.common_dir / "untildone" / "learnings" / name)
    path = (place.top / Path(wanted).expanduser()).resolve()
    if path.is_relative_to(place.top.resolve()):
        raise UserError(
            f"The file of `--learnings` lies in the worktree: {wanted}",
            state="Nothing was changed.",
            hint="It would be committed and put back with the work: name one outside, or none "
            "(the loop then keeps it in the git folder).",
        )
    return str(path)


def learnings_file_of(plan: Plan, top: Path) -> LearningsFile | None:
    """The learnings of a run, unless it goes without."""
    return LearningsFile(top, plan.change_id, Path(plan.learnings)) if plan.learnings else None
