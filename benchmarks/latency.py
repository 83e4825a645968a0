"""The pages and questions of a corpus -> milliseconds an answer takes, and how often it is right.

    python benchmarks/latency.py [--corpus pandas] [--part dev] [--strategy section] [--questions FILE]

Indexes the pages, loads the models with a question that is not among them, then asks every question once,
one after the other. Time is of all questions; quality is of one part, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import numpy as np

from cookbook import corpora, pipeline
from cookbook.eval import interval, score
from cookbook.providers import LLMClient
from cookbook.stores import open_store
from cookbook.tables import table
from cookbook.types import Question, Strategy, Trace

WARM_UP = "What does a wine glass hold?"
LIMIT_MS = 50


def measure(
    corpus: str, questions: list[Question], strategy: Strategy, location: str
) -> tuple[list[Trace], dict[str, list[float]]]:
    """Every question's trace, and the milliseconds it took by two clocks."""
    client = LLMClient("local")
    settings = {"strategy": strategy.name, "corpus": corpus, "embedder": client.embed_model}
    traces: list[Trace] = []
    milliseconds: dict[str, list[float]] = {"elapsed": [], "processor": []}
    with open_store(location, collection=f"latency-{corpus}-{strategy.name}", settings=settings) as store:
        if not store.count():
            pages = corpora.load_corpus(corpus)
            pipeline.index(pages, store=store, client=client, chunker=strategy.chunker, progress=True)
        pipeline.ask(WARM_UP, store=store, client=client, strategy=strategy)
        for question in questions:
            wall, work = time.perf_counter(), time.process_time()
            traces.append(pipeline.ask(question.question, store=store, client=client, strategy=strategy))
            milliseconds["elapsed"].append((time.perf_counter() - wall) * 1000)
            milliseconds["processor"].append((time.process_time() - work) * 1000)
        print(f"{store.count():,} chunks in {location}, strategy {strategy.name}, one question at a time")
    return traces, milliseconds


def main() -> None:
    """Ask, then print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--corpus", default="pandas", help="a corpus with questions.jsonl")
    parser.add_argument("--part", choices=corpora.PARTS, default="dev", help="whose quality is shown")
    parser.add_argument("--strategy", choices=sorted(pipeline.STRATEGIES), default="section")
    parser.add_argument("--store", default=":memory:", help=":memory:, a folder, or a URL")
    parser.add_argument("--questions", type=Path, help="a file of questions in place of the corpus's own")
    options = parser.parse_args()
    questions = (
        corpora.load_eval_questions(options.corpus)
        if options.questions is None
        else corpora.read_questions(options.questions)
    )
    threads = os.environ["OPENBLAS_NUM_THREADS"]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, "
        f"OPENBLAS_NUM_THREADS={threads}"
    )
    traces, milliseconds = measure(
        options.corpus, questions, pipeline.STRATEGIES[options.strategy], options.store
    )

    print(f"\nms an answer, {len(questions)} questions (p95 at most {LIMIT_MS})")
    rows = [
        {"clock": clock, **{f"p{p}": float(np.percentile(values, p)) for p in (50, 95, 100)}}
        for clock, values in milliseconds.items()
    ]
    print(table(rows))

    scored = [
        (question, score(question, trace))
        for question, trace in zip(questions, traces, strict=True)
        if question.part == options.part
    ]
    known = [row for question, row in scored if question.evidence]
    unknown = [row for question, row in scored if not question.evidence]
    shares = {
        "all evidence is in the prompt (at least 0.80)": [row["recall"] == 1.0 for row in known],
        "a sentence of the answer is evidence (at least 0.60)": [row["cited"] for row in known],
        "an answerable question is refused": [row["refused"] for row in known],
        "an unanswerable question is refused (at least 0.60)": [row["refused"] for row in unknown],
    }
    n_tokens = [row["n_tokens"] for _, row in scored]
    print(f"\nquality, part {options.part}; {np.mean(n_tokens):,.0f} tokens a prompt on average")
    print(
        table(
            [
                {"share of questions": name, "n": len(values), "mean [95 %]": str(interval(values))}
                for name, values in shares.items()
                if values
            ]
        )
    )


if __name__ == "__main__":
    main()
