"""The messengers of a run: one window for each address."""

import os

from msgspec.structs import replace

from untildone.adapters.notifications import Delivery
from untildone.adapters.records import journal as journals
from untildone.app.bus import EventObject
from untildone.app.notify import Messages, Messenger, Send, Undelivered
from untildone.domain.reporting.event import warning
from untildone.domain.reporting.notification import EVENTS, Address, Notification, address
from untildone.domain.secrets import text_redactor
from untildone.ports import Report
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository
from untildone.wiring.web_address import run_url

Addressed = tuple[Address, Send]


def deliveries(repository: Repository, settings: Settings, run_id: str = "") -> list[Addressed]:
    """Each address of the settings with what sends to it; a missing package is a UserError."""
    texts = dict.fromkeys(settings.notify)
    return [_delivery(repository, address(text), run_id) for text in texts]


def _delivery(repository: Repository, to: Address, run_id: str) -> Addressed:
    delivery = Delivery(to, repository.processes, repository.place.top)

    def send(message: Notification, event: EventObject) -> None:
        message = replace(message, url=run_url(repository, run_id))
        if why := delivery.send(message, event):
            raise Undelivered(why)

    return to, send


def messengers(repository: Repository, settings: Settings, run_id: str) -> list[Messenger]:
    """Windows that tell each address what is worth it; failures come as mail."""
    journal = repository.folder(run_id).journal
    found = []
    for to, send in deliveries(repository, settings, run_id):

        def failed(event: str, why: str, shown: str = to.shown) -> None:
            text = f"Nobody was told of `{event}` at {shown}: {why}"
            repository.inbox.report(Report(0, warning(text)))

        earlier = journals.events(journal) if journal.exists() else ()
        wanted = settings.notify_on or EVENTS
        messages = Messages(earlier, text_redactor(os.environ))
        found.append(Messenger(messages, wanted, send, failed))
    return found
