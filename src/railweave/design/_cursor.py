"""Where a place in a design's text is: the field's path, even while the YAML is broken.

A line scanner, tolerant of everything: it reads indentation, keys, list dashes, flow brackets,
quotes, comments and block texts, and guesses where a parser would give up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from railweave.formats.yaml_source import PathStep

__all__ = ["Cursor", "locate"]

Path_: TypeAlias = tuple[PathStep, ...]

_KEY: Final = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#,\[\]{}'":-][^:#,\[\]{}]*?)\s*:(?=\s|$)"""
)
_BLOCK_TEXT: Final = re.compile(r"[|>][-+0-9]*\s*(#.*)?$")
_WORD_END: Final = re.compile(r"[,\[\]{}#\n]|\s:|:\s|:$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a text.

    Attributes:
        path: of the mapping or list whose key or entry stands here, or of the field whose value
            does.
        at: whether a key or a value belongs here; "none" inside comments and block texts.
        start: where the word at the place begins (an index into the text).
        end: where it ends; equal to ``start`` where nothing is written yet.
        written: keys that the mapping at ``path`` has already.
        flow: whether brackets are open around it.
        indent: column of the block mapping or list it stands in.
    """

    path: Path_
    at: Literal["key", "value", "none"]
    start: int
    end: int
    written: frozenset[str] = frozenset()
    flow: bool = False
    indent: int = 0


@dataclass(slots=True)
class _Frame:
    """An open block mapping or list; ``pending`` is the key whose value may still follow."""

    indent: int
    is_list: bool
    path: Path_
    pending: str | None = None
    filled: bool = False
    index: int = -1

    @property
    def child(self) -> Path_:
        if self.is_list:
            return (*self.path, self.index)
        return self.path if self.pending is None else (*self.path, self.pending)


@dataclass(slots=True)
class _Flow:
    is_list: bool
    path: Path_
    key: str | None = None
    index: int = 0
    token: int = 0

    @property
    def child(self) -> Path_:
        if self.is_list:
            return (*self.path, self.index)
        return self.path if self.key is None else (*self.path, self.key)


@dataclass
class _Scan:
    text: str
    offset: int
    frames: list[_Frame] = field(default_factory=list)
    keys: dict[Path_, set[str]] = field(default_factory=dict)
    found: Cursor | None = None

    def add(self, path: Path_, key: str) -> None:
        self.keys.setdefault(path, set()).add(key)

    def close_to(self, column: int, *, dash: bool) -> None:
        """Close what ends where something stands at this column."""
        frames = self.frames
        while frames and (
            frames[-1].indent > column
            or (frames[-1].indent == column and frames[-1].is_list and not dash)
        ):
            frames.pop()

    def base(self) -> Path_:
        return self.frames[-1].child if self.frames else ()


def locate(text: str, offset: int) -> Cursor:
    """Say where an index of a text is.

    Never fails, whatever the text: what cannot be made out counts as the nearest thing around it.
    """
    offset = max(0, min(offset, len(text)))
    scan = _Scan(text, offset)
    start = 0
    while start <= len(text):
        start = _line(scan, start)
    found = scan.found or Cursor((), "none", offset, offset)
    written = frozenset(scan.keys.get(found.path, ()))
    start, end = min(found.start, offset), max(found.end, offset)
    return Cursor(found.path, found.at, start, end, written, found.flow, found.indent)


def _line(scan: _Scan, start: int) -> int:
    """Take one line, or more where its value goes on; return where the next begins."""
    text, offset = scan.text, scan.offset
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    line = text[start:end]
    here = start <= offset <= end
    content = line.lstrip(" \t")
    column = len(line) - len(content)
    if not content or content.startswith("#"):
        if here and scan.found is None:
            scan.found = (
                _blank(scan, offset - start)
                if not content or offset - start <= column
                else Cursor((), "none", offset, offset)
            )
        return end + 1
    while content == "-" or content.startswith("- "):
        scan.close_to(column, dash=True)
        top = scan.frames[-1] if scan.frames else None
        if top is None or not (top.is_list and top.indent == column):
            scan.frames.append(_Frame(column, True, scan.base()))
            top = scan.frames[-1]
        top.index += 1
        rest = content[1:].lstrip(" ")
        if here and offset - start <= column:
            scan.found = Cursor(top.path, "none", offset, offset)
        column += len(content) - len(rest)
        content = rest
        if not rest:
            if here and scan.found is None:
                scan.found = Cursor(top.child, "key", offset, offset, indent=offset - start)
            return end + 1
    scan.close_to(column, dash=False)
    match = _KEY.match(content)
    if match is None:
        return _loose(scan, start + column, end, here=here, column=column)
    return _entry(scan, start, column, match, end, here=here)


def _blank(scan: _Scan, column: int) -> Cursor:
    """Say where an empty line's place is: in the innermost thing that its column belongs to."""
    frames = [frame for frame in scan.frames if frame.indent <= column]
    offset = scan.offset
    if not frames:
        return Cursor((), "key", offset, offset, indent=column)
    top = frames[-1]
    if top.is_list and top.indent == column:
        outer = [f for f in frames if not f.is_list and f.indent <= column]
        top = outer[-1] if outer else top
    if top.indent < column and not top.filled:
        return Cursor(top.child, "key", offset, offset, indent=column)
    return Cursor(top.child if top.is_list else top.path, "key", offset, offset, indent=top.indent)


def _loose(scan: _Scan, begin: int, end: int, *, here: bool, column: int) -> int:
    """Take a line without a key: one being typed, an entry of a list, or a text that goes on."""
    text, offset = scan.text, scan.offset
    if text[begin] in "[{":
        return _flow(scan, begin, scan.base(), column)
    if here and scan.found is None and offset >= begin:
        top = scan.frames[-1] if scan.frames else None
        goes_on = top is not None and not top.is_list and top.indent < column
        path = scan.base()
        if top is not None and not top.is_list and top.indent == column:
            path = top.path
        if goes_on and top is not None and top.filled:
            scan.found = Cursor(path, "value", begin, _word_end(text, offset), indent=column)
        else:
            scan.found = Cursor(path, "key", begin, _word_end(text, offset), indent=column)
    return end + 1


def _entry(
    scan: _Scan, start: int, column: int, match: re.Match[str], end: int, *, here: bool
) -> int:
    """Take a line with a key, and its value."""
    text, offset = scan.text, scan.offset
    top = scan.frames[-1] if scan.frames else None
    if top is None or top.is_list or top.indent < column:
        scan.frames.append(_Frame(column, False, scan.base()))
        top = scan.frames[-1]
    key = match[1].strip("\"'")
    top.pending, top.filled = key, False
    scan.add(top.path, key)
    key_start = start + column
    key_end = key_start + len(match[1])
    if here and scan.found is None and offset <= key_end:
        before = offset < key_start  # in the indentation
        place = Cursor((), "none", offset, offset)
        scan.found = place if before else Cursor(top.path, "key", key_start, key_end, indent=column)
    value_start = key_start + match.end()
    while value_start < end and text[value_start] in " \t":
        value_start += 1
    value = text[value_start:end]
    if not value or value.startswith("#"):
        if here and scan.found is None:
            comment = bool(value) and offset > value_start
            scan.found = Cursor(top.child, "none" if comment else "value", offset, offset)
        return end + 1
    top.filled = True
    if value[0] in "[{":
        if here and scan.found is None and offset <= value_start:
            scan.found = Cursor(top.child, "value", offset, offset)
        return _flow(scan, value_start, top.child, column)
    if _BLOCK_TEXT.match(value):
        return _block_text(scan, end, column)
    if here and scan.found is None:
        scan.found = _scalar(text, top.child, value_start, end, offset)
    return end + 1


def _scalar(text: str, path: Path_, begin: int, end: int, offset: int) -> Cursor:
    comment = re.search(r"\s#", text[begin:end])
    stop = begin + comment.start() if comment and text[begin] not in "\"'" else end
    if offset > stop and comment:
        return Cursor((), "none", offset, offset)
    while stop > begin and text[stop - 1] in " \t\r" and stop > offset:
        stop -= 1
    return Cursor(path, "value", min(begin, offset), max(stop, offset))


def _block_text(scan: _Scan, end: int, column: int) -> int:
    """Step over a block text: the lines further in than its key."""
    text, offset = scan.text, scan.offset
    if scan.found is None and offset <= end and text.rfind("\n", 0, offset) < offset:
        line = text.rfind("\n", 0, end) + 1
        if line <= offset <= end:
            scan.found = Cursor((), "none", offset, offset)
    at = end + 1
    while at <= len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        line_text = text[at:stop]
        if line_text.strip() and len(line_text) - len(line_text.lstrip(" ")) <= column:
            break
        inside = offset - at > column
        if at <= offset <= stop and inside and scan.found is None and line_text.strip():
            scan.found = Cursor((), "none", offset, offset)
        elif at <= offset <= stop and scan.found is None:
            scan.found = _blank(scan, offset - at)
        at = stop + 1
    return at


def _flow(scan: _Scan, begin: int, base: Path_, column: int) -> int:
    """Take a flow collection, over as many lines as it has; return where the next line begins."""
    text, offset = scan.text, scan.offset
    stack: list[_Flow] = []
    at = begin
    while at < len(text):
        if text[at] == "\n" and _begins_key(text, at + 1, column):
            break  # never closed: what follows is the next field
        if at == offset and stack and scan.found is None:
            scan.found = _flow_cursor(scan, stack[-1], column)
        at = _flow_step(scan, stack, at, base, column)
        if not stack:
            break
    stop = text.find("\n", at)
    stop = len(text) if stop < 0 else stop
    if scan.found is None and begin <= offset <= stop:
        inside = _flow_cursor(scan, stack[-1], column) if stack and offset > begin else None
        scan.found = inside or Cursor((), "none", offset, offset)
    return stop + 1


def _flow_step(scan: _Scan, stack: list[_Flow], at: int, base: Path_, column: int) -> int:
    """Take one character of a flow collection, or a quoted text or a comment as a whole."""
    text = scan.text
    char = text[at]
    if char in "\"'":
        return _after_quote(scan, stack, at, column)
    if char == "#" and text[at - 1] in " \t\n":
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        if at < scan.offset <= stop and scan.found is None:
            scan.found = Cursor((), "none", scan.offset, scan.offset)
        return stop
    if char in "[{":
        path = stack[-1].child if stack else base
        stack.append(_Flow(char == "[", path, token=at + 1))
    elif char in "]}":
        stack.pop()
        if stack:
            stack[-1].token = at + 1
    elif char == ",":
        top = stack[-1]
        top.index, top.key, top.token = top.index + 1, None, at + 1
    elif char == ":" and (at + 1 >= len(text) or text[at + 1] in " \t\n,]}"):
        _flow_key(scan, stack[-1], at)
    return at + 1


def _begins_key(text: str, at: int, column: int) -> bool:
    stop = text.find("\n", at)
    line = text[at : stop if stop >= 0 else len(text)]
    content = line.lstrip(" ")
    return bool(content) and len(line) - len(content) <= column and _KEY.match(content) is not None


def _after_quote(scan: _Scan, stack: list[_Flow], at: int, column: int) -> int:
    quote, stop = scan.text[at], at + 1
    while stop < len(scan.text) and scan.text[stop] not in (quote, "\n"):
        stop += 2 if quote == '"' and scan.text[stop] == "\\" else 1
    stop = min(stop + 1, len(scan.text))
    if at < scan.offset < stop and stack and scan.found is None:
        scan.found = _flow_cursor(scan, stack[-1], column)
    return stop


def _flow_key(scan: _Scan, top: _Flow, at: int) -> None:
    if top.is_list or top.key is not None:
        return
    top.key = scan.text[top.token : at].strip().strip("\"'")
    scan.add(top.path, top.key)
    top.token = at + 1


def _flow_cursor(scan: _Scan, top: _Flow, column: int) -> Cursor:
    text, offset = scan.text, scan.offset
    begin = top.token
    while begin < offset and text[begin] in " \t\n":
        begin += 1
    end = max(_word_end(text, offset), offset)
    while end > max(begin, offset) and text[end - 1] in " \t":
        end -= 1
    if top.is_list:
        return Cursor(top.child, "value", begin, end, flow=True, indent=column)
    if top.key is None:
        return Cursor(top.path, "key", begin, end, flow=True, indent=column)
    return Cursor(top.child, "value", begin, end, flow=True, indent=column)


def _word_end(text: str, offset: int) -> int:
    match = _WORD_END.search(text, offset)
    stop = match.start() if match else len(text)
    while stop > offset and text[stop - 1] in " \t\r":
        stop -= 1
    return stop
