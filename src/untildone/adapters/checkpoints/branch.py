"""Checkpoints as commits on `ralph/CHANGE`; nothing is overwritten before it is saved."""

from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshot
from untildone.adapters.checkpoints.workspace import MERGE_LEFT_OPEN, Workspace, trailer
from untildone.adapters.git.git import Git, Ref, RefUpdate
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_of, install_index
from untildone.adapters.records.operations import RepoState
from untildone.domain.errors import StepError, UserError, WorkDiverged
from untildone.domain.run.fact import Opened, Reverted, Saved
from untildone.domain.run.run import Choice, Origin


class BranchCheckpoint(Workspace):
    """The run lives on `ralph/CHANGE`, or another branch, in the user's own worktree."""

    def __init__(
        self, git: Git, place: Place, change: str, closing: Closing, branch: str = ""
    ) -> None:
        self._branch = branch or f"ralph/{change}"
        ref = f"refs/heads/{self._branch}"
        super().__init__(git, place, closing.folder, change, ref, closing.snapshots)
        self._closing = closing

    # -- open ----------------------------------------------------------------------------------

    def open(self, origin: Origin, stamp: str) -> Opened:
        """Save the user's exact state, then go to `ralph/CHANGE` with everything committed."""
        git, why = self._git, f"untildone: start {self._change}"
        stored = self._opening.store(origin, self._ref, stamp)
        self._note("start", stored.before, self._state_at(stored.opened.checkpoint))
        git.update_refs(stored.updates, why)
        git.point_head(self._branch, why)
        install_index(self._place, stored.index)
        self._snapshots.opened(stored.opened.checkpoint)
        return stored.opened

    def reopened(self, origin: Origin) -> Opened | None:
        """After a crash while opening: what the refs say, or None if HEAD never moved."""
        tip = self._git.resolve(self._ref)
        on_branch = head_of(self._place.git_dir)[0] == self._branch
        backup = self._opening.backup_ref
        if not (on_branch and tip and self._git.resolve(backup)):
            self._drop_unused(tip)
            return None
        return Opened(origin, tip, backup)

    def _drop_unused(self, tip: str) -> None:
        # The start was cut short before HEAD moved: the branch holds nothing but the user's files.
        if tip and f"Untildone-Run: {self._run_id}" in self._git.message(tip).splitlines():
            self._git.update_refs([(self._ref, "", tip)], "untildone: start cut short")

    # -- around an attempt ---------------------------------------------------------------------

    def adopt(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """Back onto the branch; edits and commits made there by hand are the new checkpoint."""
        git = self._git
        self._checkout_branch()
        tip = git.resolve(self._ref)
        if not tip or not git.is_ancestor(checkpoint, tip):
            raise UserError(
                f"`{self._branch}` does not contain the last checkpoint {checkpoint[:12]} any more",
                state="Nothing was changed.",
                hint=f"git branch -f {self._branch} {checkpoint[:12]}",
            )
        tip, remarks = self._keep_edits(tip)
        edited = () if tip == checkpoint else (f"Edits by hand on `{self._branch}` are kept",)
        return tip, (*edited, *remarks)

    def keep_edits(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """As `adopt`, unless somebody has left the branch."""
        stays = head_of(self._place.git_dir)[0] == self._branch
        return self.adopt(checkpoint) if stays else (checkpoint, ())

    def close(self, choice: Choice, origin: Origin) -> tuple[str, ...]:
        """Cleanup, or keep: stay on the branch as it is."""
        if choice is Choice.CLEANUP:
            self._refuse_without_folder()
            return self._closing.cleanup(origin)
        tip = self._state_at(self._git.resolve(self._ref))
        self._note("keep", tip, tip)
        return ()

    def _state_at(self, commit: str) -> RepoState:
        """On the branch at a commit, with its files."""
        return RepoState(self._ref, {self._ref: commit}, commit)

    def _checkout_branch(self) -> None:
        branch, _ = head_of(self._place.git_dir)
        if branch == self._branch:
            return
        if not self._git.resolve(self._ref):
            raise UserError(
                f"The branch `{self._branch}` is gone, this run cannot go on",
                hint=f"`untildone run {self._change}` starts a new run",
            )
        dirty = self._git.do("status", "--porcelain", "-z", "--untracked-files=no")
        if dirty:
            raise UserError(
                f"There are uncommitted changes on `{branch or 'a bare commit'}`",
                state="Nothing was changed.",
                hint=f"Commit them, or `git checkout {self._branch}`, then try again.",
            )
        self._git.do("checkout", "-q", self._branch)

    def ensure_at(self, checkpoint: str, story_id: str) -> None:
        """Before an agent starts: on the branch, at the checkpoint, the surroundings noted."""
        branch, _ = head_of(self._place.git_dir)
        refs = self._refs.now()
        at = self._tip_in(refs)
        if branch != self._branch or at != checkpoint:
            raise StepError(
                f"The worktree is not on `{self._branch}` at its checkpoint any more "
                f"(HEAD is on `{branch or 'a bare commit'}`)",
                state="Nothing was changed.",
                hint=f"git checkout {self._branch} && untildone resume {self._change}",
            )
        self._snapshots.call_starts(checkpoint)
        self._outside.note(refs, self._ref)

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        """The commits that the agent made since the checkpoint, wherever HEAD is now."""
        self._remarks = self._outside.put_settings_back()
        refs = self._refs.now()
        return self._git.commits_since(checkpoint, self._tips(self._head_commit(refs), refs))

    def save(self, lane: int, checkpoint: str, message: str, *, only_changes: bool) -> Saved:
        """Commit all work on top of the checkpoint; the agent's own commits stay below it."""
        git = self._git
        remarks = self._put_settings_back()
        refs = self._refs.now()
        head = self._head_commit(refs)
        if not only_changes and (diverged := self._diverged(checkpoint, head, refs)):
            raise WorkDiverged(diverged)
        snapshot = self._snapshots.take(checkpoint, listed=False)
        tips = self._tips(head, refs)
        parent = self._newest_on(checkpoint, tips)
        commit = ""
        if not (only_changes and git.tree_of(parent) == snapshot.tree):
            commit = git.commit_tree(snapshot.tree, [parent], message)
        tip = commit or parent
        self._snapshots.unconverted.keep(tip, snapshot.disk_blobs)
        strays = [other for other in tips if other not in (checkpoint, parent)]
        back, moved = self._outside.refs_back(refs, strays, self._ref)
        staged = self._staged_by_agent(checkpoint, snapshot)
        updates = [*back, *staged, (self._ref, tip, self._tip_in(refs))]
        if commit:
            story = trailer(message, "Untildone-Story")
            self._note("checkpoint", self._state_at(checkpoint), self._state_at(commit), story)
        git.update_refs(updates, message.partition("\n")[0])
        self._head_on_branch()
        self._refs.moved({self._ref: tip})
        self._snapshots.saved(commit)
        self._snapshots.modes.note(snapshot.paths)
        remarks = (*remarks, *snapshot.remarks, *moved)
        return Saved(lane, commit, tip, remarks, snapshot.tree, snapshot.paths)

    def _staged_by_agent(self, base: str, snapshot: Snapshot) -> list[RefUpdate]:
        """The updates that keep what an agent staged and then wrote otherwise: it is in no file."""
        beside = [flag.path for flag in snapshot.flagged]
        ignored = self._snapshots.ignore_rules.ignored
        commits = self._snapshots.staged.commits(base, snapshot.tree, beside, ignored)
        saved = self._written(base, snapshot.tree) if commits else set()
        only_staged = (commit for commit in commits if self._written(base, commit) - saved)
        return [self._outside.store(commit) for commit in only_staged]

    def _written(self, base: str, tree: str) -> set[tuple[str, str]]:
        changes = self._git.diff_trees(base, tree)
        return {(change.path, change.blob) for change in changes if change.status != "D"}

    def _newest_on(self, checkpoint: str, tips: list[str]) -> str:
        """The agent's own commit that builds on the checkpoint, or else the checkpoint."""
        own = (tip for tip in tips if tip != checkpoint)
        return next((tip for tip in own if self._git.is_ancestor(checkpoint, tip)), checkpoint)

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        """The commit of this attempt, if it was made; then HEAD, which came last, follows it."""
        commit = super().saved_as(checkpoint, story_id, attempt)
        if commit and self._only_head_is_missing(commit):
            self._head_on_branch()
        return commit

    def _only_head_is_missing(self, commit: str) -> bool:
        """HEAD is where the agent had left it and the index that of the commit: nobody moved on."""
        head = self._head_commit(self._refs.now())
        same = self._git.ask("diff-index", "--cached", "--quiet", commit).ok
        return same and head in self._git.parents(commit)

    def diverged(self, checkpoint: str) -> str:
        """Why saving this work would drop finished stories, or nothing."""
        refs = self._refs.last()  # `commits` has just looked at them
        return self._diverged(checkpoint, self._head_commit(refs), refs)

    def _diverged(self, checkpoint: str, head: str, refs: dict[str, Ref]) -> str:
        git = self._git
        if self._left_in_conflict():
            return MERGE_LEFT_OPEN
        if head == checkpoint or git.is_ancestor(checkpoint, head):
            return ""
        if head == self._tip_in(refs) and self._is_amended(checkpoint, head):
            return ""
        base = git.merge_base(checkpoint, head) if head else ""
        if base and git.tree_of(base) == git.tree_of(checkpoint):
            return ""  # begun elsewhere, but from the very same files
        return (
            f"The work does not build on the branch `{self._branch}`: HEAD was moved to a commit "
            "without the finished stories. Stay on the branch; do not rewrite its history."
        )

    def _is_amended(self, checkpoint: str, head: str) -> bool:
        """Whether this is the checkpoint's commit made anew, and not one that drops its content."""
        parents = self._git.parents(checkpoint)
        if not head or self._git.parents(head) != parents:
            return False
        base = parents[0]
        own = {change.path for change in self._git.diff_trees(base, checkpoint)}
        kept = {change.path for change in self._git.diff_trees(base, head)}
        return own <= kept

    def revert(self, lane: int, checkpoint: str, story_id: str, attempt: int) -> Reverted:
        """Store the attempt with all its commits and files, then put the tree back."""
        remarks = self._put_settings_back()
        ref = self._attempt_ref(story_id, attempt)
        refs = self._refs.now()
        tips = self._tips(self._head_commit(refs), refs)
        snapshot = self._snapshots.take(checkpoint, with_hidden=True)
        stored = self._attempts.store(ref, snapshot, checkpoint, tips)
        before = RepoState(self._ref, {self._ref: self._tip_in(refs) or checkpoint}, stored)
        self._note("put-back", before, self._state_at(checkpoint), story_id)
        back, moved = self._outside.refs_back(refs, [], self._ref)
        updates = [*back, (self._ref, checkpoint, self._tip_in(refs))]
        self._git.update_refs(updates, f"untildone: put back to {checkpoint[:12]}")
        self._head_on_branch()
        since = self._outside.noted_at()
        late = self._attempts.put_back(ref, snapshot, checkpoint, since)
        remarks = (*remarks, *snapshot.remarks, *moved, *late)
        return Reverted(lane, ref, remarks, snapshot.changed_tree)

    def _tip_in(self, refs: dict[str, Ref]) -> str:
        return refs[self._ref].commit if self._ref in refs else ""

    # -----------------------------------------------------------------------------------------

    def _tips(self, head: str, refs: dict[str, Ref]) -> list[str]:
        """Where the agent's work may be: under HEAD first, then on our branch."""
        tips = [head, self._tip_in(refs)]
        return [tip for k, tip in enumerate(tips) if tip and tip not in tips[:k]]

    def _head_on_branch(self) -> None:
        if head_of(self._place.git_dir)[0] != self._branch:
            self._git.point_head(self._branch, f"untildone: back on {self._branch}")
