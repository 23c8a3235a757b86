"""One call of the agent: which story, which behaviour, and how it is played."""

import json
import os
import re
import signal
import subprocess
import sys
import time

from hands import Book, Hands, git, read, write
from voice import USAGE, Voice

COMPLETE = "<promise>COMPLETE</promise>"
STUB = 'def {name}(*given):\n    """Not written yet."""\n    return None\n'
# A hanging call is ended by the agent itself after this time, as if a person had come by.
SAT_OUT = 45.0
LIMIT_S = 4.0
MOST_CALLS = 400
FLOOD = 16 * 2**20


def main(root):
    """Play one call; never returns."""
    if "--version" in sys.argv or sys.argv[1:] == ["-v"]:
        sys.stdout.write("2.1.325 (Claude Code)\n")
        sys.exit(0)
    Agent(root).play()


class Agent:
    """One call."""

    def __init__(self, root):
        self.root = root
        self.plan = json.loads(read(f"{self.root}/plan.json"))
        self.config = json.loads(read(f"{self.root}/config.json"))
        self.prompt = prompt()
        self.voice = Voice(sys.argv)
        self.hands = Hands(self.config)
        self.story = None

    def play(self):
        book = Book(self.root)
        calls = [call for call in book.calls if "behaviour" in call]
        self.story = self.pick()
        key = self.story["key"] if self.story else ""
        until = max((call.get("until", 0) for call in calls), default=0)
        if len(calls) >= MOST_CALLS:
            behaviour, extra = "capped", {}
        elif time.time() < until:
            behaviour, extra = "limited", {"until": until}
        elif self.story is None:
            behaviour, extra = "no-story", {}
        else:
            behaviour = self.behaviour([c for c in calls if c["story"] == key])
            extra = {"until": int(time.time() + LIMIT_S) + 1} if behaviour == "rate-limit" else {}
        limited = behaviour in ("limited", "rate-limit", "capped")
        tokens = 0 if limited else sum(USAGE.values())
        answered = self.story is not None and self.story["answer"] in self.prompt
        book.add(story=key, behaviour=behaviour, tokens=tokens, answered=answered, **extra)
        book.close()
        self.until = extra.get("until", 0)
        getattr(self, "do_" + behaviour.replace("-", "_"))()

    def pick(self):
        """The story of this call."""
        by_key = {story["key"]: story for story in self.plan}
        if self.config.get("first_open"):
            found = re.search(r"(?m)^- \[ \] (S\d\d) ", read(self.config["first_open"]))
        else:
            found = re.search(self.config.get("find", r"\b(S\d\d)\b"), self.prompt)
        return by_key.get(found[1]) if found else None

    def behaviour(self, earlier):
        """What comes next for this story; it asks until a prompt has held the answer."""
        used = [call["behaviour"] for call in earlier]
        left = [bad for bad in used if bad not in ("limited", "capped", "ask")]
        for bad in self.story["bad"]:
            if bad == "ask":
                if not self.answered(earlier):
                    return bad
            elif left and left[0] == bad:
                left = left[1:]
            else:
                return bad
        return self.story["good"]

    def answered(self, earlier):
        """Whether the person's answer is or was in a prompt of this story."""
        return self.story["answer"] in self.prompt or any(c.get("answered") for c in earlier)

    # honest and nearly honest

    def do_honest(self):
        self.work()
        self.claim()
        self.finished()
        self.voice.end()

    def do_flood(self):
        line = "All work and no play makes a long log. " * 200
        for n in range(FLOOD // len(line)):
            self.voice.say(f"{n}: {line}")  # much, not the same: that would be another bad habit
        self.do_honest()

    def do_linger(self):
        """As a program does that has told its result and forgets to end."""
        self.work()
        self.claim()
        self.finished()
        self.voice.result()
        self.sit()

    def do_exit_1(self):
        self.stub(self.story)
        self.claim()
        self.voice.end(1)

    # not honest

    def do_lie(self):
        self.stub(self.story)
        self.claim()
        self.voice.end()

    def do_nothing(self):
        self.claim(commit=False)
        self.voice.end()

    def do_break_earlier(self):
        self.work()
        self.stub(self.earlier() or self.story)
        self.claim()
        self.voice.end()

    def do_delete_test(self):
        victim = self.earlier() if int(self.story["key"][1:]) % 2 else None
        if victim:
            self.work()
        victim = victim or self.story
        self.stub(victim)
        if os.path.exists(self.test(victim)):
            os.unlink(self.test(victim))
        self.claim()
        self.voice.end()

    def do_skip_test(self):
        self.stub(self.story)
        path = self.test(self.story)
        text = read(path)
        if "unittest.skip" not in text:
            write(path, text.replace("    def test", '    @unittest.skip("flaky")\n    def test'))
        self.claim()
        self.voice.end()

    def do_test_settings(self):
        self.stub(self.story)
        write("tests/__main__.py", "print('Ran 99 tests in 0.001s\\n\\nOK')\n")
        self.claim()
        self.voice.end()

    def do_next_check(self):
        """The own work is done; what will be asked of the next story is nothing any more."""
        self.work()
        at = self.plan.index(self.story)
        for story in self.plan[at + 1 : at + 2]:
            check = f"python3 -m tests {story['module']}.{story['name']}"
            for path in git("ls-files", "*.md", "*.json").splitlines():
                if check in read(path):
                    write(path, read(path).replace(check, "true"))
        self.claim()
        self.finished()
        self.voice.end()

    def do_wrong_branch(self):
        before = git("symbolic-ref", "-q", "--short", "HEAD") or git("rev-parse", "HEAD")
        git("checkout", "-q", "-b", f"side/{self.story['key']}-{os.getpid()}")
        self.work()
        git("add", "--", "kit")
        git("commit", "-q", "-m", self.story["title"])
        git("checkout", "-q", before)
        self.claim(commit=False)
        self.voice.end()

    # not able

    def do_crash(self):
        self.voice.say("I will write the function now.")
        self.half()
        self.child(own_session=False)
        os.kill(os.getpid(), signal.SIGKILL)

    def do_hang(self):
        self.voice.say("I will write the function now.")
        self.half()
        self.child(own_session=True)
        self.sit()

    def do_rate_limit(self):
        clock = time.strftime("%I:%M%p", time.gmtime(self.until)).lstrip("0").lower()
        text = f"You've hit your limit · resets {clock} (UTC)"
        info = {
            "status": "rejected",
            "resetsAt": self.until,
            "rateLimitType": "five_hour",
            "overageStatus": "rejected",
            "isUsingOverage": False,
        }
        why = {
            "api_error_status": 429,
            "api_error_type": "rate_limit_error",
            "api_error": "usage_limit_reached",
        }
        if self.voice.format == "stream-json":
            self.voice.emit({"type": "rate_limit_event", "rate_limit_info": info})
        self.voice.say(
            text, model="<synthetic>", error="rate_limit", is_api_error_message=True, **why
        )
        self.voice.end(
            1,
            is_error=True,
            terminal_reason="api_error",
            total_cost_usd=0,
            usage=dict.fromkeys(USAGE, 0),
            **why,
        )

    do_limited = do_rate_limit

    def do_echo(self):
        self.voice.say(self.prompt)
        self.voice.end()

    def do_ask(self):
        question = self.story["question"]
        asked = "<promise>ASK:" in self.prompt
        self.voice.say(f"<promise>ASK: {question}</promise>" if asked else question)
        self.voice.end()

    def do_no_story(self):
        self.voice.say("There is nothing left to do.\n" + COMPLETE)
        self.voice.end()

    def do_capped(self):
        sys.stderr.write("The benchmark allows no more calls.\n")
        self.voice.end(1, is_error=True)

    # what they are made of

    def work(self):
        """Write the function as it should be."""
        self.hands.put(self.story, self.story["source"])
        self.voice.tool(f"kit/{self.story['module']}.py")

    def half(self):
        """Write the first half of the function."""
        self.hands.put(self.story, self.story["source"][: len(self.story["source"]) // 2])
        self.voice.tool(f"kit/{self.story['module']}.py")

    def stub(self, story):
        """Write a function that does nothing."""
        self.hands.put(story, STUB.format(name=story["name"]))
        self.voice.tool(f"kit/{story['module']}.py")

    def test(self, story):
        """The test file of a story."""
        return f"tests/test_{story['module']}__{story['name']}.py"

    def sit(self):
        """Do nothing until somebody ends this call, or a person comes by."""
        time.sleep(SAT_OUT)
        book = Book(self.root)
        book.add(sat_out=self.story["key"])
        book.close()
        os._exit(143)

    def earlier(self):
        """The last story before this one whose function stands in the tree."""
        before = [s for s in self.plan if s["key"] != self.story["key"] and self.hands.has(s)]
        return before[-1] if before else None

    def claim(self, commit=True):
        """Say that the story is done, in the way of this loop."""
        self.hands.tick(self.story)
        if commit:
            self.hands.commit(self.story)
        if self.config.get("status"):
            write(self.config["status"], "DONE\n")
        path = self.config.get("first_open")
        over = not path or not re.search(r"(?m)^- \[ \] S\d\d ", read(path))
        every = "\nAll tasks completed.\n" if path else "\n"
        self.voice.say("Done, and all tests pass." + (every + COMPLETE if over else ""))

    def finished(self):
        """Note that this story was truly finished once."""
        book = Book(self.root)
        book.add(finished=self.story["key"])
        book.close()

    def child(self, own_session):
        """Leave a process behind, in a session of its own as the real one's tools are."""
        subprocess.Popen(
            [sys.executable, "-IS", "-c", "import time; time.sleep(600)", f"child-of:{self.root}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=own_session,
        )


def prompt():
    """The prompt: the argument after -p, else the last plain argument, else standard input."""
    words = sys.argv[1:]
    valued = (
        "--output-format",
        "--model",
        "--permission-mode",
        "--session-id",
        "--max-turns",
        "--input-format",
        "--allowedTools",
        "--append-system-prompt",
        "--resume",
        "--add-dir",
        "--settings",
        "--mcp-config",
        "--system-prompt",
    )
    plain = [
        w
        for i, w in enumerate(words)
        if not w.startswith("-") and words[i - 1 if i else 0] not in valued
    ]
    return plain[-1] if plain else sys.stdin.read()
