"""Traces -> a sheet to label by hand; a labelled sheet -> Questions with the spans of the pasted quotes.

A sheet is Markdown: under each question some fields to fill in, then what the model would have read. A
person copies the words that an answer needs from there behind ``evidence:``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from .corpora import KINDS
from .errors import CorpusError
from .types import Document, Question, Quote, Trace

_FIELDS = ("question", "kind", "part", "answer", "evidence", "qualifier", "forbidden")
_HEAD = """\
# {n} traces to label

Below each question stands what reached the prompt. Copy from there, or from any other page, the words that an
answer needs behind `evidence:`, what limits them behind `qualifier:`, what is near but wrong behind
`forbidden:`; repeat a field for another quote. Line ends inside a quote do not matter. `kind:` is one of
{kinds}.
A question that the pages do not answer has the kind unanswerable and no evidence. A question whose kind
stays empty is left out.
"""


def sheet(traces: Sequence[Trace], *, part: str = "dev") -> str:
    """The sheet for some traces, its fields empty, in the order of the traces.

    >>> sheet([]).splitlines()[0]
    '# 0 traces to label'
    """
    pieces = [_HEAD.format(n=len(traces), kinds=", ".join(KINDS))]
    for number, trace in enumerate(traces, start=1):
        values = {"question": " ".join(trace.question.split()), "part": part}
        pieces.append(f"\n## trace-{number:03}\n")
        pieces += [f"{name}: {values.get(name, '')}".rstrip() for name in _FIELDS]
        pieces.append("")
        for place, passage in enumerate(trace.prompt.passages, start=1):
            quoted = "\n".join(f"> {line}".rstrip() for line in passage.text.rstrip().splitlines())
            pieces.append(f"[{place}] {passage.doc_id}\n\n{quoted}\n")
    return "\n".join(pieces)


_BLOCK = re.compile(r"^## (?=trace-)", re.MULTILINE)
_FIELD = re.compile(rf"^({'|'.join(_FIELDS)}):[ \t]*(.*)$")


def read(text: str, documents: Iterable[Document], *, corpus: str) -> list[Question]:
    """The labelled questions of a sheet; a question whose kind is empty is left out.

    Raises:
        CorpusError: a quote stands nowhere in the documents or in more than one place, a kind is unknown,
            or evidence is missing; the message names the trace.
    """
    pages = list(documents)
    return [
        question
        for block in _BLOCK.split(text)[1:]
        if (question := _question(block, pages, corpus=corpus)) is not None
    ]


def _question(block: str, pages: Sequence[Document], *, corpus: str) -> Question | None:
    name, fields = block.splitlines()[0].strip(), _fields(block)
    kind = " ".join(fields["kind"])
    if not kind:
        return None
    if kind not in KINDS:
        raise CorpusError(f"{name}: kind {kind!r} must be one of {', '.join(KINDS)}")
    if (kind == "unanswerable") == bool(fields["evidence"]):
        raise CorpusError(
            f"{name}: a question of kind {kind!r} has {len(fields['evidence'])} quotes as evidence"
        )
    shown = re.findall(r"^\[\d+\] (.+)$", block, re.MULTILINE)
    quotes = {
        field: tuple(_find(quote, pages, shown, f"{name}, {field}") for quote in fields[field])
        for field in ("evidence", "qualifier", "forbidden")
    }
    return Question(
        question_id=f"{corpus}-{name}",
        corpus=corpus,
        question=" ".join(fields["question"]),
        answer=" ".join(fields["answer"]),
        evidence=quotes["evidence"],
        qualifiers=quotes["qualifier"],
        forbidden=quotes["forbidden"],
        kind=kind,
        part=" ".join(fields["part"]) or "dev",
    )


def _fields(block: str) -> Mapping[str, list[str]]:
    """The values that were filled in; a value may go on in the next lines, up to a blank one."""
    found: dict[str, list[str]] = {name: [] for name in _FIELDS}
    name = None
    for line in block.splitlines()[1:]:
        match = _FIELD.match(line)
        if match:
            name = match[1]
            found[name].append(match[2])
        elif not line.strip() or line.startswith("["):
            name = None
        elif name:
            found[name][-1] += "\n" + line.removeprefix(">").strip()
    return {name: [value.strip() for value in values if value.strip()] for name, values in found.items()}


def _find(quote: str, pages: Sequence[Document], shown: Sequence[str], where: str) -> Quote:
    """The one place of a quote: in the pages that were shown, else in any other."""
    pattern = re.compile(r"\s+".join(map(re.escape, quote.split())))
    for wanted in (True, False):
        places = [
            Quote(doc_id=page.doc_id, start=match.start(), end=match.end(), quote=match.group())
            for page in pages
            if (page.doc_id in shown) == wanted
            for match in pattern.finditer(page.text)
        ]
        if len(places) == 1:
            return places[0]
        if places:
            at = ", ".join(f"{place.doc_id} {place.start}" for place in places[:4])
            raise CorpusError(f"{where}: {quote!r} stands in {len(places)} places ({at}): quote more of it")
    raise CorpusError(f"{where}: no page holds {quote!r}; copy it from the page as it stands")


def jsonl(questions: Iterable[Question]) -> str:
    """The questions as the lines of a ``questions.jsonl``."""
    rows = (json.dumps(dataclasses.asdict(question), ensure_ascii=False) for question in questions)
    return "".join(f"{row}\n" for row in rows)
