"""What is asked of a run from the window: each is a word to its inbox, as a command sends it."""

from collections.abc import Callable, Sequence

from untildone.commands import control
from untildone.commands import undo as undoing
from untildone.commands.control import Early, Heard, Said
from untildone.domain.costs.budget import EXAMPLES
from untildone.domain.errors import UserError
from untildone.domain.reporting.account import StoryAccount
from untildone.interfaces import render
from untildone.interfaces.console import CHOICES
from untildone.interfaces.tui.actions import first_asking, is_open
from untildone.interfaces.tui.dialogs import Ask, Offer, Tell
from untildone.interfaces.tui.drawing import Drawing
from untildone.interfaces.tui.lines import clean
from untildone.interfaces.tui.look import Look
from untildone.wiring.repository import Repository, at

Work = Callable[[Repository, str], str]
STOPS = (
    Offer("s", "after this story", "its attempts go on until it is done or stuck", "after-story"),
    Offer("i", "after this iteration", "the call that runs now is the last one", "after-iteration"),
    Offer("n", "now", "the agent is ended, its work is put back", "now"),
    Offer("c", "cancel", "the run goes on", ""),
)


def yes_or_no(yes: str, about: str, no: str) -> tuple[Offer, Offer]:
    return Offer("y", yes, about, "yes"), Offer("n", "cancel", no, "")


class Steering(Drawing):
    """The half of the window that acts."""

    def _send(self, work: Work) -> None:
        """Ask something of the run that is looked at, and of no newer one of its change."""
        look = self.look
        if look is None:
            return
        repository, change = at(look.source.repository.place), look.change

        def send() -> str:
            if repository.newest(change) != look.source.run_id:
                raise UserError(
                    f"A newer run of {change} is there, and this one is over", hint="w shows it"
                )
            return work(repository, change)

        self.beside(send, self.say)

    def _ask(
        self, question: str, offers: Sequence[Offer], about: str, work: Callable[[str], Work]
    ) -> None:
        """Do it if the person says so; what it is done to is part of the question."""

        def answered(word: str | None) -> None:
            if word:
                self._send(work(word))

        self.push_screen(Ask(clean(question), offers, clean(about)), answered)

    def action_guide(self) -> None:
        """Words for the story under the cursor, or the answer to what it asks."""
        if self.look:
            self._tell_agent(self.look, self.story)

    def action_answer(self) -> None:
        """The answer to the question that has waited for longest."""
        if look := self.look:
            asking = first_asking(look)
            stories = (story for story in look.account.stories if story.id == asking)
            self._tell_agent(look, next(stories, None))

    def _tell_agent(self, look: Look, story: StoryAccount | None) -> None:
        if story and not is_open(look, story):
            story = None  # what is finished hears nothing any more
        parked = look.parked(story) if story else None
        asked = parked.text if parked and parked.asks else ""
        whom, ids = (f"story {story.id}", (story.id,)) if story else ("every story", ())
        question = f"What should the agent know about {whom}?"
        question = f"Your answer to {whom}" if asked else question
        about = asked or f"The next prompt of {whom} will say it."

        def sent(text: str | None) -> None:
            if text:
                said = f"The next prompt of {whom} will say it."
                self._send(
                    lambda repo, change: _told(control.guide(repo, change, Said(text, ids)), said)
                )

        rows = "\n".join(clean(row) for row in about.split("\n"))
        self.push_screen(Tell(clean(question), rows), sent)

    def action_retry(self) -> None:
        if story := self.story:
            said = f"Story {story.id} will be tried with all its retries."
            self._send(lambda repo, change: _told(control.retry(repo, change, story.id), said))

    def action_first(self) -> None:
        """The story under the cursor comes before all others."""
        if story := self.story:

            def work(repository: Repository, change: str) -> str:
                control.reorder(repository, change, (story.id,))
                return f"To come first: {story.id}."

            self._send(work)

    def action_skip(self) -> None:
        story, look = self.story, self.look
        if story is None or look is None:
            return
        about = "It stays open, and what depends on it is not started."
        if look.at_work(story):
            about += " The agent is at work on it: that call is ended, its work saved and put back."

        def work(repository: Repository, change: str) -> str:
            heard = control.skip(repository, change, story.id, "")
            return " ".join(heard.sentences(f"Story {story.id} is skipped.", goes_on=False))

        offers = yes_or_no("skip it", "`r` retries it later", "nothing is changed")
        self._ask(f"Skip story {story.id} {story.title}?", offers, about, lambda _: work)

    def action_stop(self) -> None:
        if look := self.look:
            about = f"`untildone resume {look.change}` goes on later; nothing is lost."
            self._ask(
                f"Stop the run of {look.change}?",
                STOPS,
                about,
                lambda how: lambda repository, change: control.stop(repository, change, how),
            )

    def action_choose(self) -> None:
        """The completion choice, for a run that waits for it."""
        if look := self.look:
            offers = [Offer(word[0], word, about, word) for word, about in CHOICES.items()]
            offers[-1] = offers[-1]._replace(value="")  # later: it waits on
            question = f"What becomes of the work of {look.change}?"
            self._ask(question, offers, "", self._chosen)

    def _chosen(self, choice: str) -> Work:
        self.say(f"{choice} …")

        def work(repository: Repository, change: str) -> str:
            control.send_choice(repository, change, choice)
            return f"{choice}: done"

        return work

    def action_done(self) -> None:
        if look := self.look:

            def work(repository: Repository, change: str) -> str:
                control.send_done(repository, change)
                return f"The loop over {change} was told that it is done."

            offers = yes_or_no("it is done", "the run ends", "it waits on")
            self._ask(f"Is {look.change} done?", offers, "", lambda _: work)

    def action_budget(self) -> None:
        over = self.look.state.get("budget_reached") if self.look else None
        if not isinstance(over, dict):
            return
        name = str(over["name"])
        example = str(over["enough"] or f"{name}={EXAMPLES[name]}")

        def sent(text: str | None) -> None:
            if text:
                flags = {"budget": (text if "=" in text else f"{name}={text}",)}
                self._send(
                    lambda repo, change: (
                        control.raise_budget(repo, change, flags) or "The run goes on already."
                    )
                )

        spent = f"{render.budgets([over])[0]} is used up."
        self.push_screen(Tell("The new budget", clean(spent), example), sent)

    def action_undo(self) -> None:
        """Take back the newest change of the run's worktree, after naming it."""
        look = self.look
        done = undoing.operations(look.source.repository) if look else []
        if not done:
            self.say("There is nothing to take back.")
            return

        def work(repository: Repository, _: str) -> str:
            taken = undoing.undo(repository, done[-1].change)
            return f"Taken back: {taken.name} of {taken.change}. Once more redoes it."

        about = "`untildone undo --list` shows everything; an undo can be undone."
        offers = yes_or_no("take it back", "", "nothing is changed")
        self._ask(
            f"Take back the {done[-1].name} of {done[-1].change}?", offers, about, lambda _: work
        )


def _told(heard: Heard | Early, said: str) -> str:
    return " ".join(heard.sentences(said))
