"""An installed package -> Documents: its docstrings, one page a public class or function."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from .errors import CorpusError, MissingExtraError
from .rst import to_markdown
from .types import Document


class _Text(NamedTuple):
    """A docstring where it shows: on page ``page`` as ``member`` ("" for the page's own)."""

    page: str
    member: str
    docstring: str
    rank: tuple[int, int]  # the lowest keeps the text when several pages show it


def load_docstrings(package: str = "pandas") -> list[Document]:
    """One page a class or function in the package's ``__all__``, in the order of their names.

    A class's public members are sections of its page, its accessors (``Series.str``) are pages. Only
    what the package itself defines is taken: texts inherited from the standard library change with
    the version of Python. A text that several classes share stands once, on the page of the class that
    defines it, or else of the one with the fewest base classes; the others name that page.

    Raises:
        ValueError: the name is no module's.
        MissingExtraError: the package is not installed.
        CorpusError: it holds no docstring.
    """
    if not all(part.isidentifier() for part in package.split(".")):
        raise ValueError(f"package={package!r} must be a module's name, such as 'pandas'")
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"package {package!r} cannot be imported ({error}): pip install {package}"
        ) from error
    root = package.partition(".")[0]
    pages = _pages(module, root)
    texts = [text for name, thing in pages.items() for text in _texts(name, thing, root)]
    home: dict[str, _Text] = {}
    for text in sorted(texts, key=lambda text: text.rank):
        home.setdefault(text.docstring, text)
    version = getattr(importlib.import_module(root), "__version__", "")
    source = f"{package} {version} docstrings".replace("  ", " ")
    documents = []
    for name in sorted(pages):
        own = [text for text in texts if text.page == name]
        if page := _render(name, own, home, aliases=_aliases(name, texts, home)):
            documents.append(Document(doc_id=name, title=name, text=page, corpus=package, source=source))
    if not documents:
        raise CorpusError(f"package {package!r} has no class or function of its own with a docstring")
    return documents


def _pages(module: Any, root: str) -> dict[str, Any]:
    """Public name -> class or function, by name; then accessors under dotted names."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    things = {name: getattr(module, name, None) for name in sorted(names)}
    pages: dict[str, Any] = {
        name: thing
        for name, thing in things.items()
        if callable(thing) and _owns(root, thing)  # NumPy's ufuncs are neither classes nor routines
    }
    accessors = {name: _accessors(thing, root) for name, thing in pages.items() if inspect.isclass(thing)}
    # One that several classes share comes first under the class with the most (Series.str, not Index.str).
    for name in sorted(accessors, key=lambda name: -len(accessors[name])):
        pages |= {f"{name}.{member}": value for member, value in accessors[name].items()}
    return pages


def _accessors(cls: type, root: str) -> dict[str, type]:
    """Members that show a class when read from the class, without being one: ``Series.str``."""
    return {
        member: value
        for member in _members(cls, root)
        if inspect.isclass(value := getattr(cls, member, None))
        and not inspect.isclass(inspect.getattr_static(cls, member))
        and _owns(root, value)
    }


def _owns(root: str, thing: Any) -> bool:
    return (getattr(thing, "__module__", None) or "").partition(".")[0] == root


def _members(cls: type, root: str) -> dict[str, list[type]]:
    """Public member -> the package's own classes that define it, nearest first."""
    members: dict[str, list[type]] = {}
    for base in cls.__mro__:
        if _owns(root, base):
            for name in vars(base):
                if name[0] != "_":
                    members.setdefault(name, []).append(base)
    return members


def _texts(page: str, thing: Any, root: str) -> Iterator[_Text]:
    """The docstrings that belong on the page: its own first, then its members' by name."""
    depth = len(thing.__mro__) if inspect.isclass(thing) else 0
    if docstring := _docstring(thing):
        yield _Text(page, "", docstring, (0, depth))
    if not inspect.isclass(thing):
        return
    for member, bases in sorted(_members(thing, root).items()):
        for base in bases:
            value = vars(base)[member]
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            if inspect.isclass(value) or inspect.isclass(getattr(base, member, None)):
                break  # a class is a page of its own or none
            if docstring := _docstring(value):
                yield _Text(page, member, docstring, (0 if base is thing else 1, depth))
                break


def _docstring(thing: Any) -> str:
    """The thing's own docstring without indentation; that of its type (an int's) does not count."""
    docstring = getattr(thing, "__doc__", None)
    if not isinstance(docstring, str) or (
        not inspect.isclass(thing) and docstring == getattr(type(thing), "__doc__", None)
    ):
        return ""
    return inspect.cleandoc(docstring).strip()


def _aliases(page: str, texts: list[_Text], home: dict[str, _Text]) -> list[str]:
    """Other public names of the page's own text (``isnull`` for ``isna``)."""
    return sorted(
        text.page
        for text in texts
        if not text.member and text.page != page and home[text.docstring][:2] == (page, "")
    )


def _render(page: str, texts: list[_Text], home: dict[str, _Text], *, aliases: list[str]) -> str:
    """The page as Markdown, or "" when every text on it stands elsewhere."""
    parts = []
    elsewhere: dict[str, list[str]] = {}
    for text in texts:
        where = home[text.docstring]
        if where is text:
            heading = f"## {page}.{text.member}" if text.member else f"# {page}"
            parts += [heading, to_markdown(text.docstring, level=3 if text.member else 2)]
        elif text.member:
            as_name = "" if where.member == text.member else f" (as `{where.member or where.page}`)"
            elsewhere.setdefault(where.page, []).append(f"`{text.member}`{as_name}")
    if not parts:
        return ""
    if not parts[0].startswith("# "):
        parts.insert(0, f"# {page}")
    if aliases:
        parts.insert(1, "Also available as " + ", ".join(f"`{alias}`" for alias in aliases) + ".")
    if elsewhere:
        parts.append("## Members described on other pages")
        lines = [f"- {', '.join(names)}: see `{where}`." for where, names in sorted(elsewhere.items())]
        parts.append("\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"
