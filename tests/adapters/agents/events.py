"""How each agent says a text and ends well: its events, or its lines of plain text."""

from collections.abc import Callable


def _claude_events(text: str) -> list[object]:
    message = {"id": "m", "content": [{"type": "text", "text": text}]}
    return [
        {"type": "assistant", "message": message},
        {"type": "result", "subtype": "success", "is_error": False},
    ]


def _codex_events(text: str) -> list[object]:
    item = {"id": "item_9", "type": "agent_message", "text": text}
    return [{"type": "item.completed", "item": item}, {"type": "turn.completed", "usage": {}}]


def _gemini_events(text: str) -> list[object]:
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    message = {"type": "message", "role": "assistant", "delta": True}
    said: list[object] = [{**message, "content": piece} for piece in pieces]
    return [*said, {"type": "result", "status": "success"}]


def _goose_events(text: str) -> list[object]:
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    message = {"id": "m", "role": "assistant", "metadata": {"inference": {"provider": "x"}}}
    said: list[object] = [
        {"type": "message", "message": {**message, "content": [{"type": "text", "text": piece}]}}
        for piece in pieces
    ]
    return [*said, {"type": "complete"}]


def _pi_events(text: str) -> list[object]:
    content = [{"type": "text", "text": text}]
    message = {"role": "assistant", "content": content, "stopReason": "stop"}
    return [
        {"type": "message_end", "message": message},
        {"type": "agent_end", "messages": [message]},
    ]


def _opencode_events(text: str) -> list[object]:
    return [
        {"type": "text", "part": {"messageID": "m", "text": text}},
        {"type": "step_finish", "part": {"messageID": "m", "reason": "stop"}},
    ]


def _aider_events(text: str) -> list[object]:
    def logged(event: str, **properties: object) -> object:
        return {"event": event, "properties": properties, "user_id": "u"}

    return [
        *(logged("launched"), "Aider v1", logged("message_send_starting"), text, ""),
        *("Tokens: 3 sent, 2 received.", logged("message_send", prompt_tokens=3)),
        logged("exit", reason="x"),
    ]


def _copilot_events(text: str) -> list[object]:
    said = {"messageId": "m", "content": text, "toolRequests": []}
    return [{"type": "assistant.message", "data": said}, {"type": "result", "exitCode": 0}]


def _droid_events(text: str) -> list[object]:
    said = {"type": "message", "role": "assistant", "id": "m", "text": text}
    return [said, {"type": "completion", "finalText": text}]


def _kimi_events(text: str) -> list[object]:
    hint = {"role": "meta", "type": "session.resume_hint", "session_id": "s"}
    return [{"role": "assistant", "content": text}, hint]


def _cline_events(text: str) -> list[object]:
    said = {"type": "content_end", "contentType": "text", "text": text}
    return [
        {"type": "agent_event", "event": said},
        {"type": "run_result", "finishReason": "completed"},
    ]


def _vibe_events(text: str) -> list[object]:
    content = [{"type": "text", "text": text}]
    said = {"type": "message", "role": "assistant", "id": "m", "content": content}
    kept = {"outcome": {"type": "committed"}}
    return [{**said, **kept}, {"outcome": "finished", "error": None, "exported": True}]


# The last one is how it ends; those before it are how it says the text.
EVENTS: dict[str, Callable[[str], list[object]]] = {
    "claude": _claude_events,
    "codex": _codex_events,
    "gemini": _gemini_events,
    "qwen": _claude_events,
    "goose": _goose_events,
    "pi": _pi_events,
    "opencode": _opencode_events,
    "aider": _aider_events,
    "copilot": _copilot_events,
    "droid": _droid_events,
    "kimi": _kimi_events,
    "cline": _cline_events,
    "vibe": _vibe_events,
    "cursor-agent": _claude_events,
}
