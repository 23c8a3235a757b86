"""The pages and the API: what each address shows, and what may be sent to it."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from untildone import __version__
from untildone.commands.look.feed import EventObject, Followed
from untildone.commands.run_account import last_words, run_account
from untildone.domain.errors import UntildoneError
from untildone.domain.plain_text import plain
from untildone.domain.regex import regex
from untildone.interfaces.report.data import data as report_data
from untildone.interfaces.report.html import body as report_body
from untildone.interfaces.report.page import page as report_page
from untildone.interfaces.web import minutes, story_views, views
from untildone.interfaces.web.guard import COOKIE_S, Guard, Token, refused_form
from untildone.interfaces.web.steer import ACTIONS, steered
from untildone.interfaces.web.stream import Client, Stream, event_messages, message
from untildone.interfaces.web.watch import Board, Hub, Parts, Tell, Watch
from untildone.wiring.repository import Repository

MOST_LINES = 400  # of the log on a page
STATIC = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LOCAL = regex(r"/(?:runs/[\w./%~-]*)?(?:#[\w-]*)?")


def _environment() -> Environment:
    """Whatever is put into a page is escaped, and nothing that is missing is silent."""
    found = Environment(
        loader=PackageLoader("untildone.interfaces.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    found.globals |= {"version": __version__, "glyphs": views.GLYPHS}
    return found


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """The files of every page; no other file is ever served."""
    folder = resources.files("untildone.interfaces.web") / "static"
    return {
        file.name: (file.read_bytes(), STATIC[file.name.rpartition(".")[2]])
        for file in folder.iterdir()
    }


class Pages:
    """Handlers for one server."""

    def __init__(
        self, repositories: list[Repository], token: Token, *, control: bool, cookie: str, tls: bool
    ) -> None:
        self._token, self._control = token, control
        self._cookie, self._tls = cookie, tls
        self._templates = _environment()
        self.hub = Hub(repositories, self._watch, self._board)
        self.guard: Guard | None = None
        self._several = len(repositories) > 1

    def routes(self) -> list[Route]:
        return [
            Route("/", self.board, methods=["GET"]),
            Route("/live", self.board_live, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route("/runs/{run}", self.run, methods=["GET"]),
            Route("/runs/{run}/live", self.run_live, methods=["GET"]),
            Route("/runs/{run}/log", self.log, methods=["GET"]),
            Route("/runs/{run}/report", self.report, methods=["GET"]),
            Route("/runs/{run}/stories/{story:path}", self.story, methods=["GET"]),
            Route("/api/runs", self.api_runs, methods=["GET"]),
            Route("/api/runs/{run}", self.api_run, methods=["GET"]),
            Route("/api/runs/{run}/events", self.api_events, methods=["GET"]),
            Route("/api/runs/{run}/report", self.api_report, methods=["GET"]),
            Route("/api/runs/{run}/{action}", self.api_steer, methods=["POST"]),
        ]

    # pages

    def board(self, request: Request) -> Response:
        del request
        _, parts = self.hub.board.drawn()
        return self._page("board.html", parts=parts)

    def run(self, request: Request) -> Response:
        watch = self._wanted(request)
        seq, parts = watch.drawn()
        rows = list(watch.events(max(0, seq - MOST_LINES), seq))
        return self._page(
            "run.html",
            view=views.run_view(watch.feed),
            seq=seq,
            parts=parts,
            log=views.lines(rows),
            more=seq > MOST_LINES,
        )

    def log(self, request: Request) -> Response:
        """Older lines, a page of them before an event."""
        watch = self._wanted(request)
        before = min(_number(request.query_params.get("before")) or watch.seq + 1, watch.seq + 1)
        first = max(0, before - 1 - MOST_LINES)
        rows = views.lines(watch.events(first, before - 1))
        view = views.run_view(watch.feed)
        return self._page("log.html", view=view, log=rows, before=first + 1 if first else 0)

    def story(self, request: Request) -> Response:
        watch = self._wanted(request)
        story_id = request.path_params["story"]
        with watch.lock:
            run, account, view = watch.feed.run, watch.feed.account(), views.run_view(watch.feed)
        found = [story for story in account.stories if story.id == story_id]
        if not found:
            raise HTTPException(404)
        calls = [call for story in found for call in story.calls]
        sizes, diffs = watch.changes.sizes(run, calls), watch.changes.diffs(run, calls)
        words = last_words(watch.events(0, watch.seq)) if calls else {}
        attempts = [
            story_views.attempt(
                call, sizes.get(call.n), diffs.get(call.n, ""), words.get(call.n, "")
            )
            for call in reversed(calls)
        ]
        rows = story_views.stories(run.plan.run_id, run, account, sizes)
        asked = [q for q in story_views.questions(run.plan.run_id, run) if q.story_id == story_id]
        row = next(row for row in rows if row.id == story_id)
        return self._page("story.html", view=view, attempts=attempts, story=row, questions=asked)

    def report(self, request: Request) -> Response:
        watch = self._wanted(request)
        summary = run_account(watch.source.home, watch.source.run_id, with_diffs=True)
        # Made of blocks, each of which escapes what it is given.
        body = report_body(report_page(summary))
        return self._page("report.html", view=views.run_view(watch.feed), body=body)

    def static(self, request: Request) -> Response:
        found = assets().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        data, kind = found
        return Response(data, media_type=kind, headers={"cache-control": "max-age=3600"})

    async def login(self, request: Request) -> Response:
        """The token for a cookie."""
        fields = _fields(request, await request.body())
        assert self.guard is not None
        refused = self.guard.wrong(request.scope, fields.get("token", ""))
        if refused:
            return refused
        goes_to = fields.get("next", "/")
        answer = RedirectResponse(goes_to if _LOCAL.fullmatch(goes_to) else "/", 303)
        answer.set_cookie(
            self._cookie,
            self._token.made("cookie"),
            max_age=COOKIE_S,
            secure=self._tls,
            httponly=True,
            samesite="strict",
        )
        return answer

    def sign_in(self, scope: Scope, code: int) -> Response:
        """The page for who has no token, or the error for a script."""
        if scope["path"].startswith("/api/") or scope["path"].endswith("/live"):
            hint = "the link that `untildone serve` printed has the token"
            headers = {"www-authenticate": "Bearer"}
            told = {"error": "The token is missing or wrong", "hint": hint}
            return JSONResponse(told, code, headers)
        wrong = scope["path"] == "/login"
        goes_to = "/" if wrong else scope["path"]
        return self._page("login.html", code=code, wrong=wrong, next=goes_to)

    # streams

    async def board_live(self, request: Request) -> Response:
        del request
        client = Client(page=True)
        _, parts = await run_in_threadpool(self.hub.board.join, client)
        return Stream(client, self.hub.board.leave, [message({"parts": parts, "first": True})])

    async def run_live(self, request: Request) -> Response:
        """The page of a run, part by part, and the lines of its log."""
        client, after = Client(page=True), _after(request)

        def begin() -> tuple[Watch, bytes]:
            watch = self._wanted(request)
            seq, parts = watch.join(client)
            first = max(after, seq - MOST_LINES) if after <= seq else seq
            log = self._lines(watch.events(first, seq)) if first < seq else ""
            data = {"parts": parts, "log": log, "first": True, "cut": first > after}
            return watch, message(data, seq)

        watch, first = await run_in_threadpool(begin)
        return Stream(client, watch.leave, [first])

    async def api_events(self, request: Request) -> Response:
        """All events after the last that the script has seen; first of all the state."""
        client, after = Client(page=False), _after(request)

        def begin() -> tuple[Watch, bytes, int]:
            watch = self._wanted(request)
            seq, _ = watch.join(client)
            return watch, message(_state(watch), event="state"), seq

        watch, state, seq = await run_in_threadpool(begin)

        def recorded() -> Iterable[bytes]:
            yield state
            yield from (event_messages([row]) for row in watch.events(after, seq))

        return Stream(client, watch.leave, recorded())

    # the API

    def api_runs(self, request: Request) -> Response:
        del request
        board = self.hub.board
        with board.lock:
            board.look()
            rows = [{k: v for k, v in row.items() if k != "view"} for row in board.rows]
            return JSONResponse({"runs": rows, "more": board.more})

    def api_run(self, request: Request) -> Response:
        return JSONResponse(_state(self._wanted(request)))

    def api_report(self, request: Request) -> Response:
        source = self._wanted(request).source
        return JSONResponse(report_data(run_account(source.home, source.run_id)))

    async def api_steer(self, request: Request) -> Response:
        fields = _fields(request, await request.body())
        if refused := refused_form(request.scope, self._token, fields.pop("form_token", "")):
            return refused
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        source = await run_in_threadpool(self.hub.find, request.path_params["run"])
        if source is None:
            raise HTTPException(404)
        try:
            said = await run_in_threadpool(steered, source, action, fields)
        except UntildoneError as error:
            told = {"error": error.message, "state": error.state, "hint": error.hint}
            return self._said(request, told, 409)
        return self._said(request, {"ok": True, "message": said}, 200)

    def _said(self, request: Request, told: Mapping[str, object], code: int) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(told, code)
        back = f"/runs/{request.path_params['run']}"
        return self._page("said.html", code=code, told=told, back=back)

    # parts

    def missing(self) -> Response:
        return self._page("missing.html", code=404)

    def _page(self, name: str, *, code: int = 200, **values: object) -> Response:
        more = {"control": self._control, "form_token": self._token.made("form")}
        return HTMLResponse(self._templates.get_template(name).render(**values, **more), code)

    def _wanted(self, request: Request) -> Watch:
        watch = self.hub.watch(request.path_params["run"])
        if watch is None:
            raise HTTPException(404)
        return watch

    def _watch(self, source: Followed, tell: Tell) -> Watch:
        return Watch(source, tell, self._run_parts, self._lines)

    def _board(self, repositories: list[Repository], tell: Tell) -> Board:
        return Board(repositories, tell, views.row, self._board_parts)

    def _board_parts(self, board: Board) -> Parts:
        rows = [row["view"] for row in board.rows]
        return self._parts("board", rows=rows, more=board.more, several=self._several)

    def _run_parts(self, watch: Watch) -> Parts:
        feed = watch.feed
        run, account, state = feed.run, feed.account(), feed.state()
        run_id = run.plan.run_id
        sizes = watch.changes.sizes(run, account.calls)
        end = max(feed.source.repository.clock.now(), account.last) if feed.alive else account.last
        return self._parts(
            "run",
            view=views.run_view(feed),
            questions=story_views.questions(run_id, run),
            stories=story_views.stories(run_id, run, account, sizes),
            lanes=views.lanes(state),
            queue=views.landing(state),
            shares=minutes.shares(account, end),
            rows=minutes.rows(account, end),
            figures=views.figures(account),
            checkpoints=story_views.checkpoints(run_id, account, sizes),
            plain=run.plan.plain,
        )

    def _parts(self, page: str, **values: object) -> Parts:
        """The blocks of a page that change while it is open."""
        more = {"control": self._control, "form_token": self._token.made("form")}
        template = self._templates.get_template(f"{page}_parts.html")
        context = template.new_context(values | more)
        return {name: "".join(block(context)) for name, block in template.blocks.items()}

    def _lines(self, events: Iterable[EventObject]) -> str:
        return self._templates.get_template("lines.html").render(log=views.lines(events))


def application(pages: Pages) -> Starlette:
    async def missing(request: Request, error: Exception) -> Response:
        del error
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": "There is no such thing here"}, 404)
        return pages.missing()

    async def troubled(request: Request, error: Exception) -> Response:
        del request
        if isinstance(error, UntildoneError):
            return JSONResponse({"error": error.message, "hint": error.hint}, 500)
        return JSONResponse({"error": "This cannot be read", "hint": "untildone report"}, 500)

    handlers = {404: missing, UntildoneError: troubled, Exception: troubled}
    return Starlette(routes=pages.routes(), exception_handlers=handlers)


def _state(watch: Watch) -> dict[str, object]:
    with watch.lock:
        feed = watch.feed
        told = {name: value for name, value in views.row(feed).items() if name != "view"}
        return told | {"iterations": feed.state()["iterations"]}


def _after(request: Request) -> int:
    """The last event that the client has seen."""
    told = request.headers.get("last-event-id") or request.query_params.get("after")
    return _number(told)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else 0


def _fields(request: Request, body: bytes) -> dict[str, str]:
    """What was sent, as JSON or as a form: texts under names."""
    text = body.decode("utf-8", "replace")
    if request.headers.get("content-type", "").startswith("application/json"):
        try:
            found = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise HTTPException(400) from error
        if not isinstance(found, dict):
            raise HTTPException(400)
        return {str(name): str(value) for name, value in found.items() if value is not None}
    return {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}
