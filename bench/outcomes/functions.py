"""The forty functions that the stories ask for, as an honest agent writes them."""

from dataclasses import dataclass
from typing import Any

Case = tuple[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Function:
    """One function of the package `kit`: where it lives, its source, shown and hidden examples."""

    module: str
    name: str
    does: str
    source: str
    shown: tuple[Case, ...]
    hidden: tuple[Case, ...]

    @property
    def full_name(self) -> str:
        """The name as `kit.PUBLIC` lists it."""
        return f"{self.module}.{self.name}"


def _f(module: str, head: str, does: str, body: str, *cases: Case) -> Function:
    """A function whose first two examples are shown to the agent and whose others are hidden."""
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    source = f'def {head}:\n    """{does}"""\n{lines}'
    name = head.partition("(")[0]
    return Function(module, name, does, source, cases[:2], cases[2:])


def _words(pairs: dict[str, Any]) -> tuple[Case, ...]:
    return tuple(((text,), value) for text, value in pairs.items())


FUNCTIONS = (
    _f(
        "text",
        "squeeze(text)",
        "Runs of white space become one space.",
        "return ' '.join(text.split())",
        *_words({" a  b ": "a b", "": "", "x\t\ny": "x y"}),
    ),
    _f(
        "text",
        "slugify(text)",
        "Lower case words joined by hyphens.",
        "import re; return '-'.join(re.findall('[a-z0-9]+', text.lower()))",
        *_words({"Hello World": "hello-world", "": "", "A, b & C3!": "a-b-c3"}),
    ),
    _f(
        "text",
        "initials(text)",
        "The first letter of each word, upper case.",
        "return ''.join(word[0].upper() for word in text.split())",
        *_words({"ada lovelace": "AL", "": "", "a b c": "ABC"}),
    ),
    _f(
        "text",
        "is_palindrome(text)",
        "Whether the letters read the same backwards.",
        "letters = [c for c in text.lower() if c.isalnum()]; return letters == letters[::-1]",
        *_words({"Level": True, "ab": False, "A man, a plan, a canal: Panama": True}),
    ),
    _f(
        "text",
        "truncate(text, size)",
        "At most `size` characters; a cut text ends in three dots.",
        "return text if len(text) <= size else text[: size - 3] + '...'",
        (("abcdefgh", 6), "abc..."),
        (("abc", 6), "abc"),
        (("abcdef", 6), "abcdef"),
    ),
    _f(
        "lists",
        "chunk(items, size)",
        "Lists of at most `size` items.",
        "return [items[i : i + size] for i in range(0, len(items), size)]",
        (([1, 2, 3], 2), [[1, 2], [3]]),
        (([], 2), []),
        (([1, 2, 3, 4], 2), [[1, 2], [3, 4]]),
    ),
    _f(
        "lists",
        "flatten(items)",
        "Nested lists as one flat list.",
        "flat = (flatten(i) if isinstance(i, list) else [i] for i in items); return sum(flat, [])",
        (([1, [2, [3]]],), [1, 2, 3]),
        (([],), []),
        (([[[]], 4],), [4]),
    ),
    _f(
        "lists",
        "unique(items)",
        "Each item once, in the order of its first appearance.",
        "return list(dict.fromkeys(items))",
        (([1, 2, 1],), [1, 2]),
        (([],), []),
        ((["b", "a", "b"],), ["b", "a"]),
    ),
    _f(
        "lists",
        "rotate(items, by)",
        "The list turned to the left by `by` places.",
        "by = by % len(items) if items else 0; return items[by:] + items[:by]",
        (([1, 2, 3], 1), [2, 3, 1]),
        (([], 3), []),
        (([1, 2, 3], 4), [2, 3, 1]),
    ),
    _f(
        "lists",
        "pairs(items)",
        "Each item with its right neighbour.",
        "return list(zip(items, items[1:]))",
        (([1, 2, 3],), [(1, 2), (2, 3)]),
        (([1],), []),
        (([],), []),
    ),
    _f(
        "numbers",
        "clamp(value, low, high)",
        "The value, not below `low` and not above `high`.",
        "return max(low, min(high, value))",
        ((5, 0, 3), 3),
        ((-1, 0, 3), 0),
        ((2, 0, 3), 2),
    ),
    _f(
        "numbers",
        "is_prime(n)",
        "Whether n is a prime number.",
        "return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))",
        ((7,), True),
        ((1,), False),
        ((91,), False),
        ((97,), True),
    ),
    _f(
        "numbers",
        "gcd(a, b)",
        "The greatest common divisor.",
        "import math; return math.gcd(a, b)",
        ((12, 18), 6),
        ((7, 3), 1),
        ((0, 5), 5),
    ),
    _f(
        "numbers",
        "digits_sum(n)",
        "The sum of the decimal digits.",
        "return sum(int(digit) for digit in str(abs(n)))",
        ((123,), 6),
        ((0,), 0),
        ((-45,), 9),
    ),
    _f(
        "numbers",
        "collatz(n)",
        "The number of Collatz steps from n to 1.",
        "return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)",
        ((1,), 0),
        ((6,), 8),
        ((7,), 16),
    ),
    _f(
        "codes",
        "rot13(text)",
        "Each letter thirteen places on.",
        "import codecs; return codecs.encode(text, 'rot13')",
        *_words({"abc": "nop", "": "", "Hello!": "Uryyb!"}),
    ),
    _f(
        "codes",
        "run_length(text)",
        "Letters with how often each stands in a row.",
        "from itertools import groupby; "
        "return ''.join(f'{c}{len(list(g))}' for c, g in groupby(text))",
        *_words({"aaab": "a3b1", "": "", "abba": "a1b2a1"}),
    ),
    _f(
        "codes",
        "to_binary(n)",
        "A number in base two, without a prefix.",
        "return format(n, 'b')",
        ((5,), "101"),
        ((0,), "0"),
        ((255,), "11111111"),
    ),
    _f(
        "codes",
        "to_hex(n)",
        "A number in base sixteen, without a prefix.",
        "return format(n, 'x')",
        ((10,), "a"),
        ((0,), "0"),
        ((255,), "ff"),
    ),
    _f(
        "codes",
        "checksum(text)",
        "The sum of the character codes modulo 97.",
        "return sum(map(ord, text)) % 97",
        *_words({"a": 0, "": 0, "abc": 3}),
    ),
    _f(
        "dates",
        "is_leap(year)",
        "Whether the year has a 29th of February.",
        "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        ((2024,), True),
        ((1900,), False),
        ((2000,), True),
        ((2026,), False),
    ),
    _f(
        "dates",
        "minutes(text)",
        "The minutes of a time such as 1:30.",
        "hours, rest = text.split(':'); return int(hours) * 60 + int(rest)",
        *_words({"1:30": 90, "0:05": 5, "23:59": 1439}),
    ),
    _f(
        "dates",
        "clock(total)",
        "Minutes as a time such as 1:30.",
        "return f'{total // 60}:{total % 60:02d}'",
        ((90,), "1:30"),
        ((5,), "0:05"),
        ((1439,), "23:59"),
    ),
    _f(
        "dates",
        "weekday(year, month, day)",
        "The English name of the day of the week.",
        "import datetime; return datetime.date(year, month, day).strftime('%A')",
        ((2026, 11, 16), "Monday"),
        ((2000, 1, 1), "Saturday"),
        ((1969, 7, 20), "Sunday"),
    ),
    _f(
        "dates",
        "days_in(year, month)",
        "How many days the month has.",
        "import calendar; return calendar.monthrange(year, month)[1]",
        ((2024, 2), 29),
        ((2023, 2), 28),
        ((2023, 12), 31),
    ),
    _f(
        "tables",
        "invert(table)",
        "Values become keys.",
        "return {value: key for key, value in table.items()}",
        (({"a": 1},), {1: "a"}),
        (({},), {}),
        (({1: 2, 3: 4},), {2: 1, 4: 3}),
    ),
    _f(
        "tables",
        "pick(table, keys)",
        "Only these keys.",
        "return {key: table[key] for key in keys if key in table}",
        (({"a": 1, "b": 2}, ["a"]), {"a": 1}),
        (({}, ["a"]), {}),
        (({"a": 1}, []), {}),
    ),
    _f(
        "tables",
        "omit(table, keys)",
        "All but these keys.",
        "return {key: value for key, value in table.items() if key not in keys}",
        (({"a": 1, "b": 2}, ["a"]), {"b": 2}),
        (({}, ["a"]), {}),
        (({"a": 1}, []), {"a": 1}),
    ),
    _f(
        "tables",
        "merge(first, second)",
        "Both tables; the second wins.",
        "return {**first, **second}",
        (({"a": 1}, {"a": 2}), {"a": 2}),
        (({}, {}), {}),
        (({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
    ),
    _f(
        "tables",
        "count_by(items)",
        "How often each item appears.",
        "return {item: items.count(item) for item in items}",
        (([1, 1, 2],), {1: 2, 2: 1}),
        (([],), {}),
        ((["x"],), {"x": 1}),
    ),
    _f(
        "stats",
        "mean(values)",
        "The arithmetic mean; 0 of nothing.",
        "return sum(values) / len(values) if values else 0",
        (([1, 2, 3],), 2),
        (([],), 0),
        (([1, 2],), 1.5),
    ),
    _f(
        "stats",
        "median(values)",
        "The middle value.",
        "import statistics; return statistics.median(values)",
        (([3, 1, 2],), 2),
        (([1, 2],), 1.5),
        (([5],), 5),
    ),
    _f(
        "stats",
        "spread(values)",
        "The greatest value minus the least.",
        "return max(values) - min(values)",
        (([1, 5, 2],), 4),
        (([3],), 0),
        (([-1, 1],), 2),
    ),
    _f(
        "stats",
        "mode(values)",
        "The most frequent value; the first one of several.",
        "return max(values, key=values.count)",
        (([1, 2, 2],), 2),
        (([7],), 7),
        (([3, 4, 4, 3],), 3),
    ),
    _f(
        "stats",
        "running(values)",
        "The running total.",
        "from itertools import accumulate; return list(accumulate(values))",
        (([1, 2, 3],), [1, 3, 6]),
        (([],), []),
        (([5, -5],), [5, 0]),
    ),
    _f(
        "shapes",
        "area(width, height)",
        "The area of a rectangle.",
        "return width * height",
        ((2, 3), 6),
        ((0, 5), 0),
        ((4, 4), 16),
    ),
    _f(
        "shapes",
        "perimeter(width, height)",
        "The way around a rectangle.",
        "return 2 * (width + height)",
        ((2, 3), 10),
        ((0, 5), 10),
        ((4, 4), 16),
    ),
    _f(
        "shapes",
        "distance(a, b)",
        "The city block distance of two points.",
        "return abs(a[0] - b[0]) + abs(a[1] - b[1])",
        (((0, 0), (1, 2)), 3),
        (((1, 1), (1, 1)), 0),
        (((2, 5), (-1, 1)), 7),
    ),
    _f(
        "shapes",
        "transpose(rows)",
        "Rows become columns.",
        "return [list(column) for column in zip(*rows)]",
        (([[1, 2], [3, 4]],), [[1, 3], [2, 4]]),
        (([],), []),
        (([[1, 2, 3]],), [[1], [2], [3]]),
    ),
    _f(
        "shapes",
        "diagonal(rows)",
        "The values from the top left to the bottom right.",
        "return [row[i] for i, row in enumerate(rows)]",
        (([[1, 2], [3, 4]],), [1, 4]),
        (([],), []),
        (([[7]],), [7]),
    ),
)
