"""Text in -> sentence spans out, cut inside the blocks of the page and never across them.

Prose is cut by ``nupunkt`` (abbreviations, initials, ellipses, quotes) and by rules of this module for
scripts that put no space after a sentence, for logs, and for lines that begin a turn or a bullet. A
heading, a table row and the front matter are one sentence each; code is cut at blank lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from .blocks import Block, blocks
from .tokens import DEFAULT_ENCODING, MIN_LIMIT, TokenMap, counts
from .types import Document, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_PROSE = ("paragraph", "item", "html")
_WORD = re.compile(r"\w")
_BLANK_LINE = re.compile(r"(?>\r\n?|\n)[ \t]*(?>\r\n?|\n)\s*")
_LINE_END = re.compile(r"\r\n?|\n")
_LONGEST_TOKEN = 128  # characters: a run of spaces in cl100k_base

# (Runs have a largest length, so that no text takes quadratic time.)
# What may end a sentence inside a block: a mark, closing quotes and brackets, white space, more text.
_CANDIDATE = re.compile(
    r"[.!?\u2026](?P<close>[)\"';}\]*_:@({\[!?.\u201d\u2019\u00bb]{0,8}+)\s++(?P<next>[\"'\u201c\u2018(*`\[]{0,8}+)(?=(\S))"
)
# A word, a number or a chain of them, not the first of its line; and what stands up to a space.
_INNER_WORD = re.compile(r"(?<=\S )[\w'\u2019-]{1,40}+(?:\.[\w'\u2019-]{1,40}+){0,4}+")
_SHORT_CHUNK = re.compile(r"\S{1,40}+(?!\S)")
_PLAIN_CLOSE = frozenset(")]*_`")
_CLOSE = frozenset("\"')]*_\u201d\u2019\u00bb!?")
_CODE_ENDS = frozenset("`)]_*")
# (Where nupunkt is asked about a paragraph, it also decides about its code and emphasis.)
_CODE_END = re.compile(r"[`)\]_*][.!?\u2026]\s+\S")
_OPEN = "\"'(\u201c\u2018*_["
# A word longer than this holds no sentence end with a space; nupunkt's time is quadratic in it.
_GIANT_WORD = re.compile(r"(?<!\S)\S{400,}")
# Emphasis, a citation or a footnote's mark after the end: read as closing marks.
_CITATION = r"(?:(?:\[\^?\w{1,8}\]){1,8}+|[\xb9\xb2\xb3\u2070-\u2079]{1,4}+)(?=\s)"
_TRAILER = re.compile(rf"([.!?\u2026][\"')\u201d\u2019]{{0,8}}+)(_{{1,8}}+(?=\s)|{_CITATION})")
# A candidate, or (without groups) a mark with a citation behind it.
_CANDIDATE_OR_CITATION = re.compile(rf"{_CANDIDATE.pattern}|[.!?\u2026][\"')\u201d\u2019]{{0,8}}+{_CITATION}")

# Terminators that need no space after them (Unicode's Sentence_Terminal outside Latin script, and ASCII
# marks before CJK text), then closing brackets and quotes. A full stop between digits is a decimal
# point; a comma or a Japanese quoting particle after the bracket carries the sentence on.
_STOPS = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a\u104b\u1362\u1367"
    "\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b"
    "\u1c3c\u1c7e\u1c7f\u3002\ua4ff\ua60e\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f"
    "\uaaf0\uaaf1\uabeb\ufe12\ufe15\ufe16\uff01\uff1f\uff61"
)
_CLOSERS = (
    "\u300d\u300f\u3011\u300b\u3009\u3015\u3017\u3019\uff09\uff3d\uff5d\uff63\ufe42\ufe44\u201d\u2019\"')\\]"
)
_OTHER_SCRIPT = re.compile("[\u0530-\u1fff\u203c-\u2049\u2c00-\uffff][^\r\n]*+")  # to the end of the line
_UNSPACED = re.compile(
    rf"(?:[{_STOPS}]|(?<!\d)\uff0e|\uff0e(?!\d)|[!?](?=[\u3040-\u30ff\u3400-\u9fff])"
    r"|[\u203c\u203d\u2047-\u2049]\ufe0f?(?=\s))"
    rf"[{_STOPS}\uff0e!?]{{0,8}}+(?:[{_CLOSERS}]{{1,8}}+(?!\s*(?:\u3068|\u3063\u3066)))?+\s*+"
    rf"(?![{_STOPS}{_CLOSERS}\u3001\u060c,\uff0c\uff1b;\uff1a:\u2026\u200d\ufe0e\ufe0f])"
)

# A mark inside quotes ends no sentence when its speaker follows: "Ready?" Ana asked.
_QUOTES = "\"'\u201d\u2019\u00bb"
_SPEECH_TAG = re.compile(
    r"(?:I|(?:The\s+|[A-Z][\w.\u2019'-]*\s+){0,3}[\w\u2019'-]+)\s+"
    r"(?:said|says|asked|asks|answered|replied|cried|shouted|yelled|whispered|murmured|muttered|exclaimed|"
    r"called|added|wondered|demanded|snapped|screamed|laughed|sighed|insisted|repeated|begged|continued)\b"
)

# Abbreviations that end no sentence before a name or a number, and that nupunkt's model lacks.
_BEFORE_NAME = ("Lt", "Cmdr", "Mme", "Mlle")
_BEFORE_NUMBER = ("Tab", "Max", "max")

# Lines that begin a record of a log, or a frame of a stack trace. A bare level needs a second such line.
# (These patterns look for the line end before the line: a literal first character makes them fast.)
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)"
_LOG = (
    rf"[\[(<]?(?:\d{{4}}[-/.]\d\d[-/.]\d\d|[A-Z][a-z]{{2}}[ \t]+\d{{1,2}})[T \t,:]+{_TIME}"
    rf"|[\[(]?{_TIME}\S*[ \t]+[\[(]?{_LEVEL}\b|[\[(<]{_LEVEL}[\])>]"
    r"|at [\w$.<>/]+\(|at \S+:\d+|File \"[^\"\r\n]+\", line \d|Traceback \(most recent"
    r"|Caused by: |Exception in thread |\.\.\. \d+ more|thread '[^'\r\n]*' panicked at"
    rf"|(?P<level>{_LEVEL})(?=[ \t:|])"
)
# Lines that begin a turn of a dialogue, a labelled entry or a bullet that Markdown does not know.
_ENTRY = (
    rf"[\u2022\u2023\u25e6\u25aa\u25cf\u2013\u2014]\s|[\[(]?{_TIME}[\])]?[ \t]"
    r"|(?:\*\*)?[A-Z][\w.\u2019'-]*(?: [A-Z0-9(][\w.)\u2019'-]*){0,2}:(?:\*\*)?[ \t]+\S"
)
_LOG_LINE = re.compile(rf"\n[ \t]*+(?:{_LOG})")
_ENTRY_LINE = re.compile(rf"\n[ \t]*+(?:{_ENTRY})")
# Either; a look at the first character passes most lines by in half the time.
_SPECIAL_LINE = re.compile(
    rf"\n[ \t]*+(?=[A-Z\d\[(<at.*\u2022\u2023\u25e6\u25aa\u25cf\u2013\u2014])(?:{_LOG}|{_ENTRY})"
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    r"""Half-open spans of the sentences of a Markdown or plain text; joined they give the text back.

    White space after a sentence belongs to it. No span crosses a block, and none is blank unless the
    whole text is.

    >>> text = "# Kiln\n\nAsk Dr. Varga. See Fig. 4.\n"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['# Kiln\n\n', 'Ask Dr. Varga. ', 'See Fig. 4.\n']
    """
    tiles = blocks(text)
    starts = sentence_starts(text, [tile.start for tile in tiles], [tile.kind for tile in tiles])
    return list(pairwise([*starts, len(text)]))


def split_block(text: str, block: Block) -> list[tuple[int, int]]:
    """The sentences of one block of the text; they tile the block.

    >>> split_block("Stop! Wait.", Block(0, 11, "paragraph"))
    [(0, 6), (6, 11)]
    """
    return splitter(text)(block)


def splitter(text: str) -> Callable[[Block], list[tuple[int, int]]]:
    """A function from a block of this text to its sentences; for some blocks of one text.

    It looks once through the whole text for what needs more than the plain rules, and takes the plain
    way through every paragraph without it. For all blocks, ``sentence_starts`` is faster.
    """
    places: list[int] | None = None

    def split(block: Block) -> list[tuple[int, int]]:
        nonlocal places
        start, end, kind = block[:3]
        is_special = False
        if kind in _PROSE:
            if places is None:
                places = _special_places(text)
            place = bisect_left(places, start)
            is_special = place < len(places) and places[place] < end
        borders = None
        if not is_special and not _has_blank_line(text, start, end, kind):
            candidates = _CANDIDATE_OR_CITATION.finditer(text, start, end) if kind in _PROSE else ()
            borders = _plain_borders(text, candidates, start, end)
        if borders is None:
            borders = _all_borders(text, start, end, kind, is_special)
        return list(pairwise((start, *borders, end)))

    return split


def sentence_starts(text: str, starts: Sequence[int], kinds: Sequence[str]) -> list[int]:
    """Where the sentences of a text begin, given where all its blocks begin and of what kind they are.

    The same as ``splitter`` gives for each block, in one look at the whole text.
    """
    ends = [*starts[1:], len(text)]
    special = {bisect_right(starts, place) - 1 for place in _special_places(text)}
    unclear = [
        number
        for number, kind in enumerate(kinds)
        if (kind in _PROSE and number in special) or _has_blank_line(text, starts[number], ends[number], kind)
    ]
    skipped = {*unclear, *(number for number, kind in enumerate(kinds) if kind not in _PROSE)}
    borders = list(starts)
    candidates = _CANDIDATE_OR_CITATION.finditer(text)
    for number, group in groupby(candidates, lambda match: bisect_right(starts, match.start()) - 1):
        if number not in skipped:
            found = _plain_borders(text, group, starts[number], ends[number])
            if found is None:
                unclear.append(number)
            else:
                borders += found
    for number in unclear:
        borders += _all_borders(text, starts[number], ends[number], kinds[number], number in special)
    borders.sort()
    return borders


def _has_blank_line(text: str, start: int, end: int, kind: str) -> bool:
    """Whether code or HTML has a blank line inside, which parts sentences there."""
    if kind not in ("code", "html"):
        return False
    match = _BLANK_LINE.search(text, start, end)
    return match is not None and match.end() < end


def _special_places(text: str) -> list[int]:
    """Where a text holds what only the full rules know: records, entries, other scripts."""
    places = [match.start() for match in _SPECIAL_LINE.finditer("\n" + text)]
    if not text.isascii():
        places += [match.start() for match in _OTHER_SCRIPT.finditer(text)]
        places.sort()
    return places


def _plain_borders(text: str, candidates: Iterable[re.Match[str]], start: int, end: int) -> list[int] | None:
    """Borders after plain words, or None when a case needs the full rules."""
    borders: list[int] = []
    last = start
    for match in candidates:
        close, opening, following = match.groups()
        if following is None:  # a citation
            return None
        border = match.end() - len(opening)
        if border >= end:
            break
        is_border: bool | None = None
        if following.isupper() and (not close or _PLAIN_CLOSE.issuperset(close)):
            mark = match.start()
            word_start = max(text.rfind(" ", last, mark), text.rfind("\n", last, mark), last - 1) + 1
            if _is_plain(text[word_start:mark]):
                is_border = True
            elif not close and not opening and text[mark] == "." and word_start > start + 1:
                word = _INNER_WORD.fullmatch(text, word_start, mark)
                chunk = _SHORT_CHUNK.match(text, border, end)
                if word and chunk and not _CODE_END.search(text, start, end):
                    is_border = _ends_before(word[0], text[mark:border], chunk[0])
        if is_border is None:
            if _WORD.search(text, border, end) or _CODE_END.search(text, start, border):
                return None
            break  # behind the last word nothing begins
        if is_border:
            last = border
            borders.append(last)
    # What follows the last border must hold a word; each sentence before it ends with one.
    return borders if not borders or _WORD.search(text, last, end) else None


@lru_cache(maxsize=16_384)
def _is_plain(word: str) -> bool:
    """Whether a mark after the word ends a sentence: code, emphasis, or letters that abbreviate nothing."""
    if word[-1:] in _CODE_ENDS:
        return _WORD.search(word) is not None
    letters = word.lstrip(_OPEN)
    return (
        len(letters) > 1
        and letters.isalpha()
        and letters.lower() not in _abbreviations()
        and letters not in _BEFORE_NAME
        and letters not in _BEFORE_NUMBER
    )


@lru_cache(maxsize=4096)
def _ends_before(word: str, gap: str, chunk: str) -> bool | None:
    """Whether a sentence ends in the gap (a full stop and white space) after an abbreviation or a number.

    nupunkt tells it from the chunk that follows. It looks at no more of a paragraph, except for a number
    or a letter at the start of a line; asked so, it takes a third of the time.
    """
    if word.endswith((*_BEFORE_NAME, *_BEFORE_NUMBER)):
        return None
    return bool(_nupunkt_borders(f"x {word}{gap}{chunk}"))


def _all_borders(text: str, start: int, end: int, kind: str, is_special: bool) -> list[int]:
    """Borders inside a block of prose, code or HTML, by the full rules."""
    borders = set[int]()
    if kind in _PROSE:
        borders.update(_prose_borders(text[start:end], is_special))
    if kind in ("code", "html"):
        borders.update(match.end() - start for match in _BLANK_LINE.finditer(text, start, end))
    if not borders:
        return []
    return _with_words(text, start, [start + border for border in sorted(borders)], end)[1:-1]


def sentences(
    document: Document,
    *,
    max_tokens: int | None = None,
    encoding: str = DEFAULT_ENCODING,
) -> list[Span]:
    """The sentences of a document; with ``max_tokens``, longer ones are cut at words, then graphemes.

    Args:
        max_tokens: largest size of a span, at least 4 (one code point can take 4 tokens).
        encoding: the tokenizer that counts.

    Returns:
        Spans in order. They tile the text, except that under a cap a stretch of white space too long to
        stay with a word is left out.

    >>> page = Document(doc_id="kiln", title="Kiln", text="Heat slowly. Then wait for two whole days.")
    >>> [page.text[span.start : span.end] for span in sentences(page, max_tokens=5)]
    ['Heat slowly. ', 'Then wait for two ', 'whole days.']
    """
    spans = sentence_spans(document.text)
    if max_tokens is not None:
        if max_tokens < MIN_LIMIT:
            raise ValueError(f"max_tokens={max_tokens} must be at least {MIN_LIMIT}")
        sizes = counts((document.text[start:end] for start, end in spans), encoding=encoding)
        pieces = capped(document.text, spans, sizes, max_tokens=max_tokens, encoding=encoding)
        spans = [(start, end) for start, end, _ in pieces if not document.text[start:end].isspace()]
    return [Span(doc_id=document.doc_id, start=start, end=end) for start, end in spans]


def capped(
    text: str,
    spans: Iterable[tuple[int, int]],
    sizes: Iterable[int],
    *,
    max_tokens: int,
    encoding: str = DEFAULT_ENCODING,
) -> Iterator[tuple[int, int, int]]:
    """Start, end and tokens of spans of a text: as they are, or in pieces where they are above the limit.

    A long span is cut before words where that leaves a piece, by its own tokens alone, whatever stands
    around it.

    Args:
        sizes: the tokens of each span.

    >>> list(capped("Heat slowly. Then wait.", [(0, 13), (13, 23)], [4, 3], max_tokens=4))
    [(0, 13, 4), (13, 23, 3)]
    """
    for (start, end), n_tokens in zip(spans, sizes, strict=True):
        if n_tokens <= max_tokens:
            yield start, end, n_tokens
        else:
            for first, last, n_piece in _pieces(TokenMap(text[start:end], encoding=encoding), max_tokens):
                yield start + first, start + last, n_piece


def _pieces(tokens: TokenMap, max_tokens: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and tokens of the pieces of a text that keep the limit and are not blank."""
    text = tokens.text
    start, end = 0, len(text)
    while start < end:
        fits = end - start <= max_tokens and text[start:end].isascii()
        # (A long rest is not counted for every piece of it.)
        if fits or (end - start <= _LONGEST_TOKEN * max_tokens and tokens.count(start, end) <= max_tokens):
            stop = end
        else:
            stop = tokens.cut(start, end, max_tokens)
            # Back to the start of a word, unless that leaves nothing but white space.
            word = stop
            while word > start and not text[word - 1].isspace():
                word -= 1
            if not text[start:word].isspace() and word > start:
                stop = word
        if not text[start:stop].isspace():
            yield start, stop, tokens.count(start, stop)
        start = stop


def _prose_borders(piece: str, is_special: bool) -> set[int]:
    """Where a new sentence begins inside a paragraph."""
    if not is_special:
        return {*_latin_borders(piece)} - {0, len(piece)}
    log_start = len(piece)
    lines = "\n" + piece  # so that an offset of a line end in it is that of the line in the piece
    records = list(_LOG_LINE.finditer(lines))
    if len(records) > 1 or (records and records[0]["level"] is None):
        log_start = records[0].start()
    borders = set(_latin_borders(piece[:log_start]))
    if not piece.isascii() and _OTHER_SCRIPT.search(piece):
        borders.update(match.end() for match in _UNSPACED.finditer(piece, 0, log_start))
    entries = [match.start() for match in _ENTRY_LINE.finditer(lines, 0, log_start)]
    if len(entries) > 1:
        borders.update(entries)
    if log_start < len(piece):
        borders.add(log_start)
        borders.update(match.end() for match in _LINE_END.finditer(piece, log_start))
    return borders - {0, len(piece)}


def _latin_borders(piece: str) -> Iterable[int]:
    """Borders at white space after ``.``, ``!``, ``?``, less those between a quotation and its speaker."""
    piece = _TRAILER.sub(lambda match: match[1] + "*" * len(match[2]), piece)
    borders = []
    start = 0
    for match in _CANDIDATE.finditer(piece):
        mark, close = match.start(), match["close"]
        border = match.start("next")
        # A plain word that is no abbreviation (or code, or emphasis), then a capital: nupunkt says yes to
        # all of these, so it is asked only about a paragraph that holds another case.
        if match[3].isupper() and _CLOSE.issuperset(close):
            word = piece[max(start, mark - 40) : mark].rsplit(None, 1)[-1:]
            if word and (
                word[0][-1] in _CODE_ENDS
                or (
                    len(plain := word[0].lstrip(_OPEN)) > 1
                    and plain.isalpha()
                    and plain.lower() not in _abbreviations()
                )
            ):
                borders.append(border)
                start = border
                continue
        elif close and match[3].islower() and not match["next"] and "\n" not in piece[mark:border]:
            continue
        borders = _nupunkt_borders(piece)
        break
    return [border for border in borders if not _goes_on(piece, border)]


def _nupunkt_borders(piece: str) -> list[int]:
    """Borders that nupunkt finds at white space."""
    from nupunkt import sent_spans

    if len(piece) > 400:
        piece = _GIANT_WORD.sub(lambda match: "x" * len(match[0]), piece)
    return [border for border, _ in sent_spans(piece)[1:] if piece[border - 1].isspace()]


@lru_cache(maxsize=1)
def _abbreviations() -> frozenset[str]:
    """What nupunkt's model takes for an abbreviation, in lower case."""
    from nupunkt import load

    return load("default").abbreviations


def _goes_on(piece: str, border: int) -> bool:
    """Whether a sentence goes on: a speaker after a quotation, a name after a title, a closing tag."""
    if piece.startswith("</", border):
        return True
    last = border - 1
    while piece[last].isspace():
        last -= 1
    if piece[last] == ".":
        following = _BEFORE_NUMBER if piece[border].isdigit() else _BEFORE_NAME
        return piece.endswith(following, 0, last)
    return (
        piece[last] in _QUOTES
        and piece[last - 1] in "!?\u2026"
        and (piece[border].islower() or _SPEECH_TAG.match(piece, border) is not None)
    )


def _with_words(text: str, start: int, borders: list[int], end: int) -> list[int]:
    """The borders from start to end, less those that part off a piece without a letter or digit.

    Such a piece (dots, a bracket, an emoji) joins the sentence before it, the first one the next.
    """
    kept = [start]
    for border in [*borders, end]:
        if _WORD.search(text, kept[-1], border) or (len(kept) == 1 and border == end):
            kept.append(border)
        elif len(kept) > 1:
            kept[-1] = border
    return kept
