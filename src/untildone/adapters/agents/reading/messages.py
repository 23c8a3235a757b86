"""The agent's own words, message by message, and the promise in them."""

from untildone.domain.agents.promise import Promise, PromiseScanner


class Talk:
    """What the agent says, message by message; blocks of one message are parts of one text."""

    def __init__(self) -> None:
        self.heard = False
        self._promise: Promise | None = None
        self._id = ""
        self._message: PromiseScanner | None = None
        self._apart = False

    def say(self, message_id: str, text: str) -> None:
        """Take the next block; an empty text stands for a thought or a tool call."""
        if self._message is None or message_id != self._id or not message_id:
            if self._message is not None:
                self._promise = self._message.result(final=False) or self._promise
            self._id, self._message, self._apart = message_id, PromiseScanner(), False
        if not text:
            self._apart = True
            return
        self.heard = True
        self._message.feed(("\n" * self._apart + text).encode("utf-8", "replace"))
        self._apart = False

    def question(self) -> str:
        """What the last message asks if it ends with a question, once the output is over."""
        return "" if self._message is None else self._message.question()

    def promise(self) -> Promise | None:
        """The last promise, once the output is over."""
        last = None if self._message is None else self._message.result()
        return last or self._promise
