"""Command line -> an answer with its evidence, executed notebooks, a sheet to label, a table of verdicts.

The commands::

    python -m cookbook ask "What does merge do with keys that match nothing?" --corpus pandas
    python -m cookbook run
    python -m cookbook traces --sample 20 --corpus wiki
    python -m cookbook claims
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

from .errors import CookbookError
from .types import Document, Quote, Trace


def show(trace: Trace, *, seconds: float) -> str:
    """The answer, what it stands on, and what was sent, as text."""
    lines = []
    if trace.answer is not None:
        lines += [trace.answer.text, ""]
        lines += [
            f"  [{_number(quote, trace)}] {quote.doc_id}, characters {quote.start:,} to {quote.end:,}"
            for quote in trace.answer.citations
        ]
    pages = ", ".join(dict.fromkeys(passage.doc_id for passage in trace.prompt.passages))
    lines.append(
        f"\n{len(trace.ranked)} hits -> {len(trace.prompt.passages)} passages from {pages or 'no page'}; "
        f"{trace.prompt.n_tokens:,} of {trace.prompt.budget:,} tokens; {seconds * 1000:.0f} ms"
    )
    if trace.prompt.dropped:
        lines.append(f"{len(trace.prompt.dropped)} passages did not fit the budget")
    return "\n".join(lines)


def _number(quote: Quote, trace: Trace) -> int:
    """The passage that holds a quote, numbered as in the prompt and in the answer."""
    passages = trace.prompt.passages
    return 1 + next(
        n for n, passage in enumerate(passages) if any(s.contains(quote.span) for s in passage.spans)
    )


def _documents(arguments: argparse.Namespace) -> list[Document]:
    from . import corpora

    if arguments.folder is not None:
        return corpora.load_folder(arguments.folder)
    return corpora.load_corpus(arguments.corpus)


def ask(arguments: argparse.Namespace) -> int:
    """Index the corpus where the store is empty, then answer."""
    from . import pipeline, prompts
    from .providers import LLMClient
    from .stores import open_store
    from .tracing import init_tracing

    init_tracing()
    client = LLMClient()
    strategy = pipeline.STRATEGIES[arguments.strategy]
    source = arguments.corpus if arguments.folder is None else arguments.folder
    # What cannot be asked is refused before the work of indexing.
    prompts.pack(arguments.question, [], budget=strategy.budget)
    settings = {"strategy": strategy.name, "corpus": str(source), "embedder": client.embed_model}
    with open_store(arguments.store, collection="cookbook", settings=settings) as store:
        if not (store.complete and store.count()):
            print(f"reading {source}", file=sys.stderr)
            docs = _documents(arguments)
            print(f"cutting, embedding and storing {len(docs)} pages", file=sys.stderr)
            n_chunks = pipeline.index(
                docs, store=store, client=client, chunker=strategy.chunker, progress=True
            )
            print(f"indexed {len(docs)} pages as {n_chunks:,} chunks", file=sys.stderr)
        begun = time.perf_counter()
        trace = pipeline.ask(arguments.question, store=store, client=client, strategy=strategy)
        print(show(trace, seconds=time.perf_counter() - begun))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Execute the notebooks."""
    from . import runner

    return runner.run(only=arguments.only)


def traces(arguments: argparse.Namespace) -> int:
    """Write a sheet of traces to label by hand, or read one back as questions."""
    from . import corpora, labels, pipeline
    from .providers import LLMClient
    from .stores import MemoryBackend

    docs = _documents(arguments)
    name = arguments.corpus if arguments.folder is None else Path(arguments.folder).resolve().name
    if arguments.read is not None:
        questions = labels.read(arguments.read.read_text(encoding="utf-8"), docs, corpus=name)
        _write_new(arguments.out or arguments.read.with_suffix(".jsonl"), labels.jsonl(questions))
        print(f"{len(questions)} questions are labelled", file=sys.stderr)
        return 0
    if arguments.questions is not None:
        lines = arguments.questions.read_text(encoding="utf-8").splitlines()
        asked = [line.strip() for line in lines if line.strip()]
    elif arguments.folder is not None:
        raise ValueError("--folder needs --questions FILE: what your users asked, one question a line")
    else:
        asked = [question.question for question in corpora.load_eval_questions(name)]
    sample = random.Random(arguments.seed).sample(asked, min(arguments.sample, len(asked)))
    client, strategy = LLMClient(), pipeline.STRATEGIES[arguments.strategy]
    with MemoryBackend("traces") as store:
        pipeline.index(docs, store=store, client=client, chunker=strategy.chunker, progress=True)
        found = [
            pipeline.ask(question, store=store, client=client, strategy=strategy, read=False)
            for question in sample
        ]
    _write_new(arguments.out or Path("traces.md"), labels.sheet(found))
    return 0


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet: what somebody labelled is not written over."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise ValueError(f"{str(path)!r} exists: move it, or name another file with --out") from error
    print(f"wrote {path}", file=sys.stderr)


def claims(_: argparse.Namespace) -> int:
    """The verdicts on the sources' claims, as the notebooks stored them."""
    from . import verdicts

    print(verdicts.markdown(verdicts.collect()))
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="python -m cookbook", description="Small-to-big retrieval.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("ask", help="answer a question over a corpus")
    one.add_argument("question")
    _add_source(one)
    one.add_argument(
        "--store", default=":memory:", help="where the index is kept: :memory:, a folder, or a URL"
    )
    one.set_defaults(call=ask)
    two = commands.add_parser("run", help="execute the notebooks into build/")
    two.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="notebooks by the start of their name"
    )
    two.set_defaults(call=run)
    sheet = commands.add_parser("traces", help="write a sheet of traces to label by hand, or read it back")
    _add_source(sheet)
    sheet.add_argument("--sample", type=_count, default=20, metavar="N", help="how many traces (default: 20)")
    sheet.add_argument("--seed", type=int, default=0, help="which ones")
    sheet.add_argument("--questions", type=Path, metavar="FILE", help="questions, one a line, to draw from")
    sheet.add_argument("--read", type=Path, metavar="SHEET", help="read a labelled sheet as questions")
    sheet.add_argument("--out", type=Path, metavar="FILE", help="what to write (default: traces.md)")
    sheet.set_defaults(call=traces)
    three = commands.add_parser("claims", help="what the notebooks found of the sources' claims")
    three.set_defaults(call=claims)
    return top


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return number


def _add_source(command: argparse.ArgumentParser) -> None:
    """Where the pages come from and how they are cut."""
    from .pipeline import STRATEGIES

    where = command.add_mutually_exclusive_group()
    where.add_argument("--corpus", default="pandas", help="a corpus by name (default: pandas)")
    where.add_argument("--folder", help="a folder of Markdown and text files of your own")
    command.add_argument("--strategy", choices=sorted(STRATEGIES), default="section")


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code. Errors of the package are one line on stderr."""
    arguments = parser().parse_args(argv)
    try:
        code = int(arguments.call(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output, such as head, has gone; Python would complain again as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (CookbookError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    # One question multiplies small matrices, and threads for them cost more than they save. NumPy's
    # library reads this when it is loaded, which is later.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
