"""Command line -> an answer with its evidence, or executed notebooks.

The two commands::

    python -m cookbook ask "What does merge do with keys that match nothing?" --corpus pandas
    python -m cookbook run
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from .errors import CookbookError
from .types import Quote, Trace


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


def ask(arguments: argparse.Namespace) -> int:
    """Index the corpus where the store is empty, then answer."""
    from . import corpora, pipeline, prompts
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
            docs = (
                corpora.load_folder(arguments.folder)
                if arguments.folder is not None
                else corpora.load_corpus(source)
            )
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


def claims(_: argparse.Namespace) -> int:
    """The verdicts on the sources' claims, as the notebooks stored them."""
    from . import verdicts

    print(verdicts.markdown(verdicts.collect()))
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    from .pipeline import STRATEGIES

    top = argparse.ArgumentParser(prog="python -m cookbook", description="Small-to-big retrieval.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("ask", help="answer a question over a corpus")
    one.add_argument("question")
    where = one.add_mutually_exclusive_group()
    where.add_argument("--corpus", default="pandas", help="a corpus by name (default: pandas)")
    where.add_argument("--folder", help="a folder of Markdown and text files of your own")
    one.add_argument("--strategy", choices=sorted(STRATEGIES), default="section")
    one.add_argument(
        "--store", default=":memory:", help="where the index is kept: :memory:, a folder, or a URL"
    )
    one.set_defaults(call=ask)
    two = commands.add_parser("run", help="execute the notebooks into build/")
    two.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="notebooks by the start of their name"
    )
    two.set_defaults(call=run)
    three = commands.add_parser("claims", help="what the notebooks found of the sources' claims")
    three.set_defaults(call=claims)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code. Errors of the package are one line on stderr."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except (CookbookError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    # One question multiplies small matrices, and threads for them cost more than they save. NumPy's
    # library reads this when it is loaded, which is later.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
