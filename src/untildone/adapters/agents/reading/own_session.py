"""A name of ours for a conversation, for agents that do not tell an id of theirs."""

from untildone.domain.agents.agent import Intent


def session_name(intent: Intent) -> str:
    """The conversation of this call: the resumed one, or a name that no other call has.

    It is made of what a recording keeps, so that a replay finds the same one.
    """
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few agents need it

    if intent.resume:
        return intent.resume.id
    call = f"{intent.story_id}\n{intent.asked}"
    return f"untildone-{hashlib.sha256(call.encode('utf-8', 'replace')).hexdigest()[:12]}"
