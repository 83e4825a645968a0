"""A number -> one long customer call with its gold questions; a seed -> 12,000 of them, streamed.

The text of a call is composed from ``call_grammar.txt``, whose head explains its notation. It depends on
``seed``, ``i`` and ``p95_ratio`` alone and is the same on every version of Python: the random numbers
come from `random.Random.random` only, and no function of the platform's mathematical library is used.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from .types import Document, Question, Quote

SEED = 20240229
CALLS = 12_000
CORPUS = "calls"

_T = TypeVar("_T")

# A compiled text: groups of variants, one variant of each to be joined. A variant is a format string and
# the names of its slots.
_Text = tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]
_LARGEST_GROUP = 256


class _Sentence(NamedTuple):
    """A sentence of the grammar: its core, segments that are said if there is room, mark and tags."""

    core: _Text
    length: float
    segments: list[tuple[_Text, float]]
    mark: str
    tags: str
    bare: bool  # neither opening words nor closing words are added
    joins: bool  # it may follow the one before it after ", and"


class _Turn(NamedTuple):
    caller: bool
    sentences: list[_Sentence]


class _Ask(NamedTuple):
    """A question of a topic, by the tags of the sentences that answer it."""

    evidence: str
    qualifiers: str
    forbidden: str
    sort: str  # questions of one sort (``amt``, ``date``) mislead each other within a call
    undone: str  # tags of sentences that give another answer, so that it is not asked
    question: _Text
    answer: _Text


class _Topic(NamedTuple):
    name: str
    goods: list[str]
    parts: dict[str, list[list[_Turn]]]
    tails: tuple[list[_Text], list[_Text]]  # closing words about the matter, of the agent and of the caller
    asks: list[_Ask]


class _Said(NamedTuple):
    start: int
    end: int
    sentence: int


class _Grammar(NamedTuple):
    topics: list[_Topic]
    lines: dict[str, list[_Text]]
    exchanges: dict[str, list[list[_Turn]]]
    names: dict[str, list[str]]


# Compiling the grammar

_LISTS = (
    "caller_prefix", "agent_prefix", "agent_fact_prefix", "caller_tail", "agent_tail", "caller_fact",
    "agent_fact", "caller_qtail", "agent_qtail", "caller_long", "agent_long", "agent_fact_long",
    "question_prefix", "unanswerable",
)  # fmt: skip
_EXCHANGES = ("greeting", "farewell", "aside", "transition", "handover")


def _compile(text: str) -> _Text:
    """``{a|b}`` and ``[slot]`` in a text -> groups of variants, every combination written out."""
    groups: list[list[tuple[str, tuple[str, ...]]]] = [[("", ())]]
    for options in _options(text):
        if len(groups[-1]) * len(options) > _LARGEST_GROUP:
            groups.append([("", ())])
        groups[-1] = [(left + right, slots + more) for left, slots in groups[-1] for right, more in options]
    return tuple(tuple((form if slots else form % (), slots) for form, slots in group) for group in groups)


def _options(text: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    """The parts of a text in order, each with the variants that it may have."""
    parts: list[list[tuple[str, tuple[str, ...]]]] = []
    at = 0
    for match in re.finditer(r"[{\[]", text):
        if match.start() < at:
            continue
        if match.start() > at:
            parts.append([(text[at : match.start()].replace("%", "%%"), ())])
        at = match.end()
        if match[0] == "[":
            end = text.index("]", at)
            parts.append([("%s", (text[at:end],))])
            at = end + 1
            continue
        depth, start, variants = 1, at, []
        while depth:
            if at == len(text):
                raise ValueError(f"a brace that does not close in {text!r}")
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if (depth == 1 and text[at] == "|") or not depth:
                inner: list[tuple[str, tuple[str, ...]]] = [("", ())]
                for options in _options(text[start:at]):
                    inner = [(left + right, slots + more) for left, slots in inner for right, more in options]
                variants += inner
                start = at + 1
            at += 1
        parts.append(variants)
    if at < len(text):
        parts.append([(text[at:].replace("%", "%%"), ())])
    return parts


def _length(text: _Text) -> float:
    """The mean number of characters that a compiled text will have."""
    return sum(sum(len(form) + 12 * len(slots) for form, slots in group) / len(group) for group in text)


def _sentence(text: str) -> _Sentence:
    tags = "".join(re.findall(r"#(\w)", text))
    text = re.sub(r"\s*#\w", "", text).strip()
    bare = text.startswith("~")
    text = text.lstrip("~")
    mark = text[-1] if text[-1] in "?!" else ""
    text = text.rstrip("?!").rstrip()
    segments: list[str] = []
    while (match := re.search(r"<([^<>]*)>$", text)) is not None:
        segments.insert(0, match[1])
        text = text[: match.start()].rstrip()
    if not mark:
        mark = text[-1] if text[-1] in "?!" else "."
    # A segment inside the sentence is said or not by chance.
    text = re.sub(r"<([^<>]*)>", r"{\1|}", text.rstrip("?!"))
    core, *compiled = (_compile(piece) for piece in (text, *segments))
    joins = not any(form.startswith(_OPENED) for form, _ in core[0])
    return _Sentence(
        core, _length(core), [(segment, _length(segment)) for segment in compiled], mark, tags, bare, joins
    )


def _turns(lines: list[str]) -> list[_Turn]:
    turns = []
    for line in lines:
        speaker, text = line[:2], line[2:]
        if speaker not in ("A:", "C:"):
            raise ValueError(f"neither A: nor C: begins {line!r}")
        turns.append(_Turn(speaker == "C:", [_sentence(sentence) for sentence in text.split(" / ")]))
    return turns


def _topic(head: str, lines: list[str]) -> _Topic:
    name, goods = head.split(" :: ")
    parts: dict[str, list[list[_Turn]]] = {part: [] for part in ("open", "dev", "comp", "close", "later")}
    blocks: list[tuple[str, list[str]]] = []
    tails: tuple[list[_Text], list[_Text]] = [], []
    asks = []
    for line in lines:
        if line.startswith("+ "):
            blocks.append((line[2:], []))
        elif line[:2] in ("a>", "c>"):
            tails[line[0] == "c"].append(_compile(line[3:]))
        elif line.startswith("? "):
            options, question, answer = line[2:].split(" :: ")
            tags = dict(field.split("=") for field in options.split())
            evidence, qualifiers, forbidden, sort, undone = (tags.get(key, "") for key in "eqftx")
            asks.append(
                _Ask(evidence, qualifiers, forbidden, sort, undone, _compile(question), _compile(answer))
            )
        else:
            blocks[-1][1].append(line)
    for part, block in blocks:
        parts[part].append(_turns(block))
    return _Topic(name, [] if goods == "none" else goods.split(","), parts, tails, asks)


@lru_cache(maxsize=1)
def _grammar() -> _Grammar:
    text = Path(__file__).with_name("call_grammar.txt").read_text(encoding="utf-8")
    text = re.sub(r"\n    +", " ", text)  # a line that is continued
    grammar = _Grammar([], {}, {}, {})
    for section in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = section.partition("\n")
        lines = [line.rstrip() for line in body.splitlines() if line.strip()]
        if " :: " in head:
            grammar.topics.append(_topic(head, lines))
        elif head in _LISTS:
            grammar.lines[head] = [_compile(line) for line in lines]
        elif head in ("transition", "handover"):
            grammar.exchanges[head] = [_turns([line]) for line in lines]
        elif head in _EXCHANGES:
            blocks = re.split(r"\n\s*\n", body.strip())
            grammar.exchanges[head] = [_turns(block.splitlines()) for block in blocks]
        else:
            grammar.names[head] = [
                name for line in lines for name in (line.split("|") if "|" in line else line.split())
            ]
    return grammar


# Slots

_MONTHS = (
    ("January", 31), ("February", 29), ("March", 31), ("April", 30), ("May", 31), ("June", 30),
    ("July", 31), ("August", 31), ("September", 30), ("October", 31), ("November", 30), ("December", 31),
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS = ("three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = ("eight", "nine", "ten", "eleven", "one", "two", "three", "four", "five", "six")
_MINUTES = ("ten past", "quarter past", "twenty past", "half past", "twenty to", "quarter to")


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 3 < day < 21 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


# Day of the year 2024 (its first is a Monday) -> the ways to say it.
_DAYS = [
    (
        f"the {_ordinal(day)} of {month}",
        f"{weekday} the {_ordinal(day)} of {month}",
        f"{weekday} {day} {month}",
    )
    for number, (month, day) in enumerate(
        (month, day) for month, length in _MONTHS for day in range(1, length + 1)
    )
    for weekday in [_WEEKDAYS[number % 7]]
]


class _Call:
    """What is fixed for one call: its people, its day, and what was used up already."""

    __slots__ = ("common", "days", "i", "key", "numbers", "pool", "ranges", "rnd", "sums", "today")

    def __init__(self, i: int, key: int, rnd: Callable[[], float], grammar: _Grammar) -> None:
        names = grammar.names
        self.i, self.key, self.rnd, self.pool = i, key, rnd, names
        self.days: set[int] = set()
        self.sums: set[int] = set()
        self.numbers = 0
        self.ranges = int(rnd() * 997)
        self.today = 110 + int(rnd() * 140)
        first, last = names["first"], names["last"]
        # One full name a call: a walk over all pairs, so that it comes again after thousands of calls only.
        pair = (i * 9973 + key % 100_003) % (len(first) * len(last))
        pick = self.pick
        other, he = pick((("husband", "he"), ("wife", "she"), ("sister", "she"), ("brother", "he"),
                          ("business partner", "she"), ("son", "he"), ("daughter", "she")))  # fmt: skip
        agent = pick(names["agent"])
        mate = pick(names["agent"])
        self.common: dict[str, str] = {
            "me": f"{first[pair % len(first)]} {last[pair // len(first)]}",
            "title": first[pair % len(first)],
            "other": other, "he": he, "his": "his" if he == "he" else "her",
            "him": "him" if he == "he" else "her", "ag": agent,
            "col": mate if mate != agent else names["first"][self.today % len(first)],
            "biz": pick(names["biz"]), "town": pick(names["town"]), "street": pick(names["street"]),
        }  # fmt: skip

    def pick(self, options: Sequence[_T]) -> _T:
        return options[int(self.rnd() * len(options))]

    def number(self, digits: int) -> str:
        """A number that no other call of this seed has: a walk over all numbers of that many digits."""
        self.numbers += 1
        size = 10**digits
        value = ((self.i * 64 + self.numbers) * 7_368_787 + self.key) % size
        return f"{value:0{digits}d}"

    def money(self, low: int, high: int, step: int = 1) -> str:
        """An amount in pence that this call has not named yet."""
        value = low + int(self.rnd() * (high - low)) // step * step
        while value in self.sums:
            value += step
        self.sums.add(value)
        pounds, pence = divmod(value, 100)
        return f"£{pounds:,}.{pence:02d}" if pence else f"£{pounds:,}"

    def day(self, low: int, high: int) -> int:
        """A day of the year within the bounds, no Sunday, that this call has not named yet if possible."""
        span = high - low + 1
        start = int(self.rnd() * span)
        for step in range(span):
            day = low + (start + step) % span
            if day not in self.days and day % 7 != 6:
                break
        else:
            day = low + start
        self.days.add(day)
        return day


class _Values(dict[str, str]):
    """The values of one topic's slots, drawn when first needed."""

    __slots__ = ("call", "day_of", "goods", "tails")

    def __init__(self, call: _Call, goods: list[str], tails: tuple[list[_Text], list[_Text]]) -> None:
        self.call, self.goods = call, goods
        self.tails = [self._shuffled(lines) for lines in tails]
        self.day_of: dict[str, int] = {}
        self.update(call.common)

    def _shuffled(self, lines: list[_Text]) -> list[_Text]:
        start = int(self.call.rnd() * len(lines)) if lines else 0
        return lines[start:] + lines[:start]

    def __missing__(self, name: str) -> str:
        value = self[name] = self._draw(name)
        return value

    def _day(self, name: str) -> int:
        if name in self.day_of:
            return self.day_of[name]
        call = self.call
        today = call.today
        if name == "fd":
            low, high = today + 8, today + 60
        elif name in ("fd2", "fd3"):
            first = self._day("fd" if name == "fd2" else "fd2")
            low, high = first + 2, first + 16
        elif name in ("fdb", "fd2b", "edb"):
            low, high = today + 1, self._day(name[:-1]) - 1
        elif name == "ed":
            low, high = today + 34, today + 50
        elif name == "rd":
            low, high = today - 5, today - 1
        elif name == "rde":
            low = high = self._day("rd") + 14
        elif name == "pd":
            low, high = today - 70, today - 12
        elif name == "pd2":
            low, high = self._day("pd") + 1, today - 1
        elif name == "pd0":
            low, high = today - 105, today - 71
        else:
            raise ValueError(f"the grammar asks for an unknown day [{name}]")
        day = self.day_of[name] = call.day(low, high)
        return day

    def _draw(self, name: str) -> str:
        call = self.call
        pick, rnd, pool = call.pick, call.rnd, call.pool
        if name == "ord":
            number = call.number(8)
            return f"{number[:4]}-{number[4:]}"
        if name == "ref":
            return f"R-{call.number(7)}"
        if name in ("item", "item2"):
            ranges = pool["range"]
            call.ranges += 1
            goods = pool[pick(self.goods)] if name == "item" else pool[self.goods[0]]
            noun = pick(goods)
            other = self.get("item2" if name == "item" else "item", "")
            while other.endswith(noun):
                noun = pick(goods)
            return f"{ranges[(call.ranges * 37) % len(ranges)]} {noun}"
        if name == "item3":
            call.ranges += 1
            ranges = pool["range"]
            return f"{ranges[(call.ranges * 37) % len(ranges)]} {self['item'].partition(' ')[2]}"
        if name in ("as", "as2"):
            return call.money(350, 5900, 5)
        if name == "am":
            return call.money(6000, 39000, 50)
        if name == "al":
            return call.money(40000, 240000, 5)
        if name in ("am2", "am3"):
            base = _pence(self["am"])
            low, high = (
                (base * 11 // 10, base * 15 // 10) if name == "am2" else (base * 6 // 10, base * 9 // 10)
            )
            return call.money(low - low % 50, high, 50)
        if name == "lim":
            return call.money(150000, 600000, 25000)
        if name in ("lim2", "lim3", "owe"):
            base = _pence(self["lim"])
            if name == "lim2":
                return call.money(base * 15 // 10, base * 2, 5000)
            if name == "lim3":
                return call.money(base * 11 // 10 // 5000 * 5000, base * 14 // 10, 5000)
            return call.money(base * 8 // 10, base, 5)
        if name in ("pts", "pts2"):
            if name == "pts":
                return f"{1000 + int(rnd() * 5000):,}"
            return f"{int(self['pts'].replace(',', '')) + 120 + int(rnd() * 1800):,}"
        if name in ("fdy", "pdy"):  # the day of another year, which has another weekday
            return _DAYS[self._day(name[:2])][0]
        if name[:2] in ("fd", "pd", "rd", "ed"):
            return pick(_DAYS[self._day(name)])
        if name in ("p", "pm"):
            return f"{pick(pool['female' if name == 'p' else 'male'])} {pick(pool['last'])}"
        if name == "first":
            return pick(pool["either"])
        if name in ("town2", "street2"):
            place = pick(pool[name[:-1]])
            while place == self[name[:-1]]:
                place = pick(pool[name[:-1]])
            return place
        if name == "rel":
            return pick(("father", "mother", "uncle", "aunt", "cousin"))
        if name in ("cm", "cm2"):
            return f"{(200 if name == 'cm' else 130) + int(rnd() * 65)} centimetres"
        if name == "cm3":
            return f"{int(self['cm'].split()[0]) + 12 + int(rnd() * 40)} centimetres"
        if name == "n":
            return _NUMBERS[int(rnd() * 4)]
        if name == "n2":
            return _NUMBERS[4 + int(rnd() * 6)]
        if name == "n0":
            return str(12 + int(rnd() * 60))
        if name == "n02":
            return str(int(self["n0"]) * (4 + int(rnd() * 5)) // 10)
        if name == "nth":
            return _ordinal(1 + int(rnd() * 12))
        if name == "nth2":
            return _ordinal(14 + int(rnd() * 13))
        if name == "dig":
            return f"{int(rnd() * 10_000):04d}"
        if name in ("tm", "tm2"):
            hour = int(rnd() * 5) + (5 if name == "tm2" else 0)
            return f"{pick(_MINUTES)} {_HOURS[hour]}"
        if name == "code":
            return f"{pick('BCDFGHKLMNPRTVX')}{pick('ACEHKMNPRTWXY')}{int(rnd() * 900) + 100}"
        raise ValueError(f"the grammar asks for an unknown slot [{name}]")


def _pence(amount: str) -> int:
    pounds, _, pence = amount[1:].replace(",", "").partition(".")
    return int(pounds) * 100 + int(pence or 0)


# Composing a call

# Characters that a sentence is to have, by quantile: (quantile, for a p95 of 1.3 times the median, of twice
# the median). A sentence often stays below its target, for want of something to say, so that the targets
# lie above the lengths wanted; lengths for other ratios lie on a line through these two.
_TARGETS = (
    (0.0, 94, 40), (0.1, 96, 68), (0.3, 98, 100), (0.5, 98, 122), (0.7, 98, 144), (0.85, 98, 168),
    (0.95, 98, 200), (0.99, 98, 250), (1.0, 100, 310),
)  # fmt: skip


def _targets(p95_ratio: float) -> list[float]:
    """A table of 1,001 lengths in characters; a uniform draw from it has the distribution asked for."""
    table = []
    knot = 0
    for step in range(1001):
        u = step / 1000
        while u > _TARGETS[knot + 1][0]:
            knot += 1
        (u0, *low), (u1, *high) = _TARGETS[knot], _TARGETS[knot + 1]
        narrow, wide = (
            left + (right - left) * (u - u0) / (u1 - u0) for left, right in zip(low, high, strict=True)
        )
        table.append(max(20.0, narrow + (wide - narrow) * (p95_ratio - 1.3) / 0.7))
    return table


_targets_of = lru_cache(maxsize=8)(_targets)


# What begins so takes no opening words, and follows no other sentence after ", and".
_OPENED = (
    "and ", "but ", "so ", "then ", "oh", "ah", "no ", "no,", "not ", "yes", "well", "good", "gone", "there",
    "by all", "happily", "of course", "congrat", "thank", "bless", "lovely", "wonderful", "perfect", "done",
    "fine", "hang on", "one second", "I'm so sorry", "please", "never", "spot on", "just in time",
)  # fmt: skip


def _fill(text: _Text, values: _Values, rnd: Callable[[], float]) -> str:
    """One wording of a compiled text."""
    said = ""
    for variants in text:
        form, slots = variants[int(rnd() * len(variants))]
        said += form % tuple([values[slot] for slot in slots]) if slots else form
    return said


class _Bank(Generic[_T]):
    """Things given out in a shuffled order, so that a call uses each once before any comes twice."""

    __slots__ = ("lines", "next", "step")

    def __init__(self, lines: Sequence[_T], rnd: Callable[[], float]) -> None:
        self.lines = lines
        size = len(lines)
        self.next = int(rnd() * size)
        step = 1 + int(rnd() * (size - 1))
        while _gcd(step, size) != 1:
            step = step % size + 1
        self.step = step

    def take(self) -> _T:
        self.next = (self.next + self.step) % len(self.lines)
        return self.lines[self.next]


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


class _Writer:
    """The text of a call as it grows, with the place of every tagged sentence."""

    def __init__(self, call: _Call, grammar: _Grammar, labels: tuple[str, str], targets: list[float]) -> None:
        rnd = call.rnd
        self.names = call.common["title"], call.common["ag"]  # whom the agent and the caller speak to
        self.rnd, self.targets, self.labels = rnd, targets, labels
        lines = grammar.lines

        def banks(*names: str) -> list[_Bank[_Text]]:
            made = {name: _Bank(lines[name], rnd) for name in names}
            return [made[name] for name in names]

        # Of the agent and of the caller, each without and with a fact in the sentence.
        self.prefixes = banks("agent_prefix", "agent_fact_prefix", "caller_prefix", "caller_prefix")
        self.tails = banks("agent_tail", "agent_fact", "caller_tail", "caller_fact")
        self.long = banks("agent_long", "agent_fact_long", "caller_long", "caller_long")
        self.qtails = banks("agent_qtail", "caller_qtail")
        self.asking = _Bank(lines["question_prefix"], rnd)
        self.pieces: list[str] = []
        self.position = 0
        self.count = 0
        self.named = -9  # the sentence in which one called the other by name
        self.speaker: bool | None = None

    def say(
        self, turns: list[_Turn], values: _Values, said: dict[str, _Said], *, part: str = "small talk"
    ) -> None:
        """One exchange. Small talk takes no closing words, the end of a matter none about the matter."""
        rnd, targets, pieces = self.rnd, self.targets, self.pieces
        position, count = self.position, self.count
        for turn in turns:
            caller = turn.caller
            left = 0
            if caller is self.speaker:
                lead = " "
            else:
                self.speaker = caller
                lead = self.labels[caller]
                left = len(lead)  # the speaker's name counts as part of the first sentence
                if count:
                    lead = "\n" + lead
            sentences = turn.sentences
            n = 0
            while n < len(sentences):
                pieces.append(lead)
                position += len(lead)
                lead = " "
                room = targets[int(rnd() * 1001)] - left
                left = 0
                core, _, segments, mark, tags, bare, _ = sentences[n]
                n += 1
                text = _fill(core, values, rnd)
                if len(text) > room:
                    text = min(text, _fill(core, values, rnd), _fill(core, values, rnd), key=len)
                # What is said in few ways is said with other opening words, or to the other by name.
                plain = not bare and len(core) == 1 and len(core[0]) < 13 and not core[0][0][1]
                if (
                    not bare
                    and rnd() < (0.45 if plain else 0.16)
                    and room > len(text) + 12
                    and not text.startswith(_OPENED)
                ):
                    bank = self.asking if mark == "?" else self.prefixes[2 * caller + bool(tags)]
                    opening = _fill(bank.take(), values, rnd)
                    if text.partition(" ")[0].rstrip(",") not in opening.replace(",", "").split():
                        text = f"{opening} {text}"
                room -= len(text)
                while True:
                    for segment, length in segments:
                        if room < length * 0.8:
                            break
                        more = _fill(segment, values, rnd)
                        text += more
                        room -= len(more)
                    if n == len(sentences) or mark != "." or bare or not sentences[n].joins:
                        break
                    if room < 0.8 * sentences[n].length + 6:
                        break
                    # A long sentence goes on with the speaker's next one, as people talk.
                    core, _, segments, mark, more_tags, bare, _ = sentences[n]
                    n += 1
                    tags += more_tags
                    more = _fill(core, values, rnd)
                    text += f", and {more}"
                    room -= len(more) + 6
                if room > 25 and not bare and len(text) > 19:
                    if part != "small talk":
                        closing = self.close(caller, mark, values, room, len(text), bool(tags), part)
                        # No "it, it's".
                        if not closing[2:].startswith(text[text.rfind(" ") + 1 :]):
                            text += closing
                elif (
                    len(text) < 40
                    and not tags
                    and rnd() < 0.42
                    and not bare
                    and count - self.named > 3
                    and self.names[caller] not in text
                ):
                    text += f", {self.names[caller]}"
                    self.named = count
                text = text[0].upper() + text[1:] + mark
                pieces.append(text)
                if tags:
                    place = _Said(position, position + len(text), count)
                    for tag in tags:
                        said[tag] = place
                position += len(text)
                count += 1
        self.position, self.count = position, count

    def close(
        self, caller: bool, mark: str, values: _Values, room: float, length: int, fact: bool, part: str
    ) -> str:
        """Closing words for a sentence that has room: about the matter if any are left, else general."""
        rnd = self.rnd
        if mark != ".":
            return _fill(self.qtails[caller].take(), values, rnd) if mark == "?" and rnd() < 0.45 else ""
        if room > 82 and length > 38:
            return _fill(self.long[2 * caller + fact].take(), values, rnd)
        tails = values.tails[caller]
        if tails and part not in ("close", "later"):
            return _fill(tails.pop(), values, rnd)
        return _fill(self.tails[2 * caller + fact].take(), values, rnd) if rnd() < 0.8 else ""


def call(i: int, *, seed: int = SEED, p95_ratio: float = 2.0) -> tuple[Document, list[Question]]:
    """Call number ``i`` and the gold questions that it answers (and one or none that it does not).

    Args:
        seed: another seed, other calls.
        p95_ratio: the 95th percentile of sentence lengths as a multiple of their median (about 22 tokens).

    >>> page, questions = call(7)
    >>> page.doc_id, all(page.text[q.start : q.end] == q.quote for q in questions[0].evidence)
    ('call-00007', True)
    """
    if i < 0:
        raise ValueError(f"i={i} must be at least 0")
    if p95_ratio <= 1:
        raise ValueError(f"p95_ratio={p95_ratio} must be above 1")
    grammar = _grammar()
    digest = hashlib.sha256(f"{seed}:{i}".encode()).digest()
    rnd = random.Random(int.from_bytes(digest, "big")).random
    key = int.from_bytes(hashlib.sha256(f"{seed}".encode()).digest()[:6], "big")
    made = _Call(i, key, rnd, grammar)
    common = made.common
    labels = ("Agent: ", "Caller: ")
    if rnd() < 0.5:
        first = common["title"] if common["title"] != common["ag"] else common["me"]
        labels = (f"{common['ag']}: ", f"{first}: ")
    writer = _Writer(made, grammar, labels, _targets_of(p95_ratio))
    doc_id = f"call-{i:05d}"

    everyday = _Values(made, [], ([], []))
    nothing: dict[str, _Said] = {}
    exchanges = {name: _Bank(grammar.exchanges[name], rnd) for name in _EXCHANGES}

    def talk(name: str) -> None:
        writer.say(exchanges[name].take(), everyday, nothing)

    talk("greeting")
    goal = 220 + int(rnd() * 66)
    topics = _Bank(grammar.topics, rnd)
    asked: list[tuple[_Topic, _Values, dict[str, _Said]]] = []
    pending: list[tuple[int, int]] = []
    while writer.count < goal:
        if pending and pending[0][0] <= writer.count:
            _, number = pending.pop(0)
            topic, values, said = asked[number]
            writer.say(made.pick(topic.parts["later"]), values, said, part="later")
        topic = topics.take()
        values, said = _Values(made, topic.goods, topic.tails), {}
        parts = topic.parts
        opening = made.pick(parts["open"])
        if asked and rnd() < 0.5:
            talk("transition" if opening[0].caller else "handover")
        writer.say(opening, values, said, part="open")
        aside = rnd()
        if aside < 0.16:
            talk("aside")
        devs = parts["dev"]
        chance = rnd()
        wanted = 1 if chance < 0.3 else 2 if chance < 0.75 else 3
        for number, dev in enumerate(devs):
            if rnd() * (len(devs) - number) < wanted:
                wanted -= 1
                writer.say(dev, values, said, part="dev")
        if rnd() < 0.5:
            writer.say(made.pick(parts["comp"]), values, said, part="comp")
        if 0.16 < aside < 0.3:
            talk("aside")
        writer.say(made.pick(parts["close"]), values, said, part="close")
        if parts["later"] and rnd() < 0.75:
            pending.append((writer.count + 45 + int(rnd() * 60), len(asked)))
            pending.sort()
        asked.append((topic, values, said))
    for due, number in pending:
        if due - writer.count < 45:
            topic, values, said = asked[number]
            writer.say(made.pick(topic.parts["later"]), values, said, part="later")
    talk("farewell")
    text = "".join(writer.pieces) + "\n"
    document = Document(doc_id=doc_id, title=doc_id, text=text, corpus=CORPUS, source=f"{doc_id}.txt")
    return document, _questions(document, i, asked, grammar, made)


def _questions(
    document: Document,
    i: int,
    asked: list[tuple[_Topic, _Values, dict[str, _Said]]],
    grammar: _Grammar,
    made: _Call,
) -> list[Question]:
    """Four to eight questions, no two of one topic while others are left, as many kinds as there are."""
    rnd, text, doc_id = made.rnd, document.text, document.doc_id
    by_kind: dict[str, list[tuple[int, _Ask, list[_Said], list[_Said]]]] = {}
    for number, (topic, _, said) in enumerate(asked):
        for ask in topic.asks:
            if not all(tag in said for tag in ask.evidence + ask.qualifiers):
                continue
            if any(tag in said for tag in ask.undone):
                continue
            evidence = sorted({said[tag] for tag in ask.evidence})
            qualifiers = sorted({said[tag] for tag in ask.qualifiers} - set(evidence))
            places = [place.sentence for place in evidence + qualifiers]
            apart = max(places) - min(places)
            if ask.qualifiers:
                kind = "number with qualifier"
            elif apart > 33:
                kind = "far apart"
            elif apart == 0:
                kind = "one sentence"
            else:
                kind = "neighbouring sentences" if apart <= 3 else "same section"
            if ask.evidence.endswith("l") and apart <= 33:
                continue
            by_kind.setdefault(kind, []).append((number, ask, evidence, qualifiers))
    wanted = 4 + int(rnd() * 5)
    kinds = [kind for kind in _KINDS if kind in by_kind]
    used: set[int] = set()
    chosen: list[tuple[str, str, str, list[_Said], list[_Said], list[_Said]]] = []
    if rnd() < 0.9:
        number = int(rnd() * len(asked))
        lines = grammar.lines["unanswerable"]
        line = lines[int(rnd() * len(lines))]
        if asked[number][0].goods:
            wanted -= 1
            used.add(number)
            question = _fill(line, asked[number][1], rnd)
            chosen.append(("unanswerable", question, "The call does not say.", [], [], []))
    turn = int(rnd() * 8)
    while wanted > 0 and any(by_kind.values()):
        kind = kinds[turn % len(kinds)]
        turn += 1
        options = by_kind[kind]
        if not options:
            continue
        number, ask, evidence, qualifiers = options.pop(int(rnd() * len(options)))
        if number in used:
            continue
        used.add(number)
        wanted -= 1
        topic, values, said = asked[number]
        question, answer = _fill(ask.question, values, rnd), _fill(ask.answer, values, rnd)
        forbidden = [said[tag] for tag in ask.forbidden if tag in said]
        if ask.sort:
            fact = _FACTS[ask.sort]
            # The facts of the same sort of the topics on either side.
            for near in (number - 1, number + 1, number - 2, number + 2):
                if not 0 <= near < len(asked) or len(forbidden) >= 2:
                    continue
                other, _, heard = asked[near]
                forbidden += [
                    heard[tag]
                    for one in other.asks
                    if one.sort == ask.sort
                    for tag in one.evidence
                    if tag in heard and fact.search(text, heard[tag].start, heard[tag].end)
                ][:1]
        gold = {*evidence, *qualifiers}
        answer = answer[0].upper() + answer[1:]
        chosen.append((kind, question, answer, evidence, qualifiers, sorted({*forbidden} - gold)))
    for number in range(len(chosen) - 1, 0, -1):
        other_number = int(rnd() * (number + 1))
        chosen[number], chosen[other_number] = chosen[other_number], chosen[number]

    def quotes(places: list[_Said]) -> tuple[Quote, ...]:
        return tuple(
            Quote(doc_id=doc_id, start=place.start, end=place.end, quote=text[place.start : place.end])
            for place in places
        )

    return [
        Question(
            question_id=f"{doc_id}-q{number}",
            corpus=CORPUS,
            question=question,
            answer=answer,
            evidence=quotes(evidence),
            qualifiers=quotes(qualifiers),
            forbidden=quotes(forbidden),
            kind=kind,
            part="test" if (i + number) % 3 == 0 else "dev",
        )
        for number, (kind, question, answer, evidence, qualifiers, forbidden) in enumerate(chosen)
    ]


_FACTS = {"amt": re.compile("£"), "date": re.compile("|".join(f" {month}" for month, _ in _MONTHS))}
_KINDS = ("number with qualifier", "neighbouring sentences", "far apart", "same section", "one sentence")


def stream_calls(
    n: int = CALLS, *, seed: int = SEED, p95_ratio: float = 2.0
) -> Iterator[tuple[Document, list[Question]]]:
    """The first ``n`` calls, one at a time; nothing is kept.

    >>> [page.doc_id for page, _ in stream_calls(2)]
    ['call-00000', 'call-00001']
    """
    return (call(i, seed=seed, p95_ratio=p95_ratio) for i in range(n))
