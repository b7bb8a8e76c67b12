"""One field of a design's text changed, everything else left as it was written.

The text is spliced at the positions that the YAML parser gives, so comments, order, quotes and
line breaks stay byte for byte. Each result is read again before it is returned: it says what was
asked and nothing else has changed.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from railweave.errors import InputError
from railweave.formats.yaml_source import PathStep, format_path, parse_yaml

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

__all__ = ["add_item", "remove_field", "rename_key", "set_field", "value_span"]

Path_: TypeAlias = tuple[PathStep, ...]
#: fields that may be written as the value of one of their own fields, and which one that is
_SHORT: Final[Mapping[str, str]] = {"routing": "scheme", "congestion": "scheme"}
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_./+(µ][^\n#\[\]{},&*!|>'\"%@`]*")
_NO_VALUE: Final = re.compile(r"[ \t]*")


def set_field(text: str, path: Sequence[PathStep], value: object) -> str:
    """Return the text with one field set; it and what it stands in are written where missing.

    Args:
        text: sound YAML.
        path: of the field, such as ``("planes", "backend", "speed")``. A list's end is the number
            of its entries.
        value: text, number, truth value, or a list or mapping of them.

    Raises:
        DesignError: the text is no sound YAML.
        InputError: the path leads through something that is neither a mapping nor a list.
    """
    wanted = tuple(path)
    data = parse_yaml(text, "design").data
    real = _through_short_forms(data, wanted)
    expected = _with(data, real, value)
    root = _compose(text)
    changed = _set(text, root, data, real, value)
    return _checked(changed, expected, real)


def remove_field(text: str, path: Sequence[PathStep]) -> str:
    """Return the text without a field or an entry of a list, so that it has its default again.

    What is not written is left out already. A mapping that becomes empty stays, as ``{}``.

    Raises:
        DesignError: the text is no sound YAML.
    """
    document = parse_yaml(text, "design")
    real = _through_short_forms(document.data, tuple(path))
    if not document.has(real):
        short = real[:-1]
        if not (document.has(short) and _is_short(document.data, tuple(path), short)):
            return text
        real = short
    expected = _without(document.data, real)
    return _checked(_remove(text, _compose(text), real), expected, real)


def add_item(text: str, path: Sequence[PathStep], value: Mapping[str, object]) -> str:
    """Return the text with an entry more at the end of a list, which is made where missing."""
    data: Any = parse_yaml(text, "design").data
    for step in path:
        data = data.get(step) if isinstance(data, dict) else data[step]
        if data is None:
            return set_field(text, path, [dict(value)])
    return set_field(text, (*path, len(data)), dict(value))


def rename_key(text: str, path: Sequence[PathStep], name: str) -> str:
    """Return the text with a field under another name, its value as it is."""
    document = parse_yaml(text, "design")
    if not document.has(path):
        return text
    parent = _node(_compose(text), tuple(path[:-1]))
    key, _ = _pair(parent, path[-1])
    begin, end = key.start_mark.index, key.end_mark.index
    return text[:begin] + _scalar(name) + text[end:]


def value_span(text: str, path: Sequence[PathStep]) -> tuple[int, int] | None:
    """Return where a field's value stands in the text, or None where it is not written."""
    try:
        node = _node(_compose(text), tuple(path))
    except (KeyError, InputError):
        return None
    return node.start_mark.index, _end(text, node)


# ---------------------------------------------------------------- the data, to check against


def _through_short_forms(data: Any, path: Path_) -> Path_:  # noqa: ANN401 - any YAML value
    """Leave the index out of a path where a single mapping stands for a list of one."""
    real: list[PathStep] = []
    at = data
    for step in path:
        if step == 0 and isinstance(at, dict):
            continue
        real.append(step)
        if isinstance(at, dict):
            at = at.get(str(step))
        elif isinstance(at, list) and isinstance(step, int) and step < len(at):
            at = at[step]
        else:
            at = None
    return tuple(real)


def _is_short(data: Any, path: Path_, short: Path_) -> bool:  # noqa: ANN401
    """Whether a field is written as the short form of what it stands in."""
    at = data
    for step in short:
        at = at[step]
    return (
        bool(short) and not isinstance(at, dict | list) and _SHORT.get(str(short[-1])) == path[-1]
    )


def _with(data: Any, path: Path_, value: object) -> Any:  # noqa: ANN401
    """Return a copy of the data with a value at a path."""
    if not path:
        return copy.deepcopy(value)
    step, rest = path[0], path[1:]
    if data is None:
        data = [] if isinstance(step, int) else {}
    if isinstance(data, list) and isinstance(step, int) and step <= len(data):
        inner = data[step] if step < len(data) else None
        return [*data[:step], _with(inner, rest, value), *data[step + 1 :]]
    if isinstance(data, dict) and isinstance(step, str):
        inner = data.get(step)
        if rest and inner is not None and not isinstance(inner, dict | list):
            inner = _expanded(step, inner)
        return {**data, step: _with(inner, rest, value)}
    raise InputError(f"{format_path(path)} cannot be set: it stands in something without fields")


def _expanded(name: str, value: object) -> dict[str, object]:
    """Return the long form of a field that is written short."""
    if name not in _SHORT:
        raise InputError(f"{name} is {value!r} here, which has no fields; write the fields out")
    return {_SHORT[name]: value}


def _without(data: Any, path: Path_) -> Any:  # noqa: ANN401
    step, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(step, int):
        inner = [_without(data[step], rest)] if rest else []
        return [*data[:step], *inner, *data[step + 1 :]]
    if rest:
        return {**data, step: _without(data[step], rest)}
    return {key: value for key, value in data.items() if key != step}


def _checked(text: str, expected: object, path: Path_) -> str:
    """Return the text if it says what it must.

    Raises:
        InputError: it does not, because of YAML that this module cannot splice (an alias, say).
    """
    from railweave.errors import DesignError

    try:
        found = parse_yaml(text, "design").data
    except DesignError:
        found = object()
    if found != expected:
        raise InputError(
            f"{format_path(path)} cannot be changed here without touching the rest of the text; "
            "change it in the text itself"
        )
    return text


# ---------------------------------------------------------------- the text


def _compose(text: str) -> Node:
    from ruamel.yaml import YAML

    root: Node | None = YAML(typ="safe", pure=True).compose(text)
    if root is None:
        raise InputError("the text is empty; write the first field by hand")
    return root


def _is_mapping(node: Node) -> bool:
    from ruamel.yaml.nodes import MappingNode

    return isinstance(node, MappingNode)


def _is_list(node: Node) -> bool:
    from ruamel.yaml.nodes import SequenceNode

    return isinstance(node, SequenceNode)


def _style(node: Node) -> str:
    """Return how a scalar is written: ``|`` and ``>`` blocks, quotes, or ``""`` for plain."""
    return str(getattr(node, "style", None) or "")


def _flows(node: Node) -> bool:
    """Whether a node is a collection in brackets."""
    return bool(getattr(node, "flow_style", False))


def _pair(node: Node, step: PathStep) -> tuple[Node, Node]:
    """Return key and value at a step; an entry of a list is its own key."""
    if _is_list(node):
        item = node.value[int(step)]
        return item, item
    for key, value in node.value:
        if key.value == step:
            return key, value
    raise KeyError(step)


def _node(root: Node, path: Path_) -> Node:
    node = root
    for step in path:
        if isinstance(node.value, str):
            raise KeyError(step)
        node = _pair(node, step)[1]
    return node


def _end(text: str, node: Node) -> int:
    """Return where a node's own text ends: a block collection's mark stands before what follows."""
    if not isinstance(node.value, str) and not _flows(node) and node.value:
        last = node.value[-1]
        return _end(text, last[1] if _is_mapping(node) else last)
    end: int = node.end_mark.index
    if isinstance(node.value, str) and _style(node) in {"|", ">"}:
        return len(text[:end].rstrip("\n"))
    while end > node.start_mark.index and text[end - 1] in " \t\r\n":
        end -= 1
    return end


def _set(text: str, root: Node, data: Any, path: Path_, value: object) -> str:  # noqa: ANN401
    """Splice a value in: at its own place, or as a new entry of the deepest parent written."""
    node, depth = root, 0
    flow = _flows(root)
    while depth < len(path):
        step = path[depth]
        if isinstance(node.value, str):
            break
        try:
            node = _pair(node, step)[1]
        except (KeyError, IndexError):
            return _insert(text, node, step, _nested(path[depth + 1 :], value), flow=flow)
        depth += 1
        flow = flow or _flows(node)
        data = data[step]
    rest = path[depth:]
    if rest:  # a scalar stands where a mapping is wanted: a short form, or nothing at all
        value = _with(None if data is None else _expanded(str(path[depth - 1]), data), rest, value)
    return _replace(text, root, node, path[:depth], value, flow=flow)


def _nested(path: Path_, value: object) -> object:
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _replace(text: str, root: Node, node: Node, path: Path_, value: object, *, flow: bool) -> str:
    if not path:
        raise InputError("the whole design cannot be replaced by one field")
    key, _ = _pair(_node(root, path[:-1]), path[-1])
    inside_list = key is node
    begin, end = node.start_mark.index, _end(text, node)
    empty = isinstance(node.value, str) and node.value == "" and not _style(node)
    if empty and not inside_list:  # 'key:' with nothing behind it
        begin = text.index(":", key.end_mark.index) + 1
        return text[:begin] + " " + _flow_text(value) + text[begin:]
    if not isinstance(node.value, str) and not _flows(node) and not inside_list:
        begin = text.index(":", key.end_mark.index) + 1  # a block: put the value on the key's line
        return text[:begin] + " " + _flow_text(value) + text[end:]
    return text[:begin] + _flow_text(value) + text[end:]


def _insert(text: str, node: Node, step: PathStep, value: object, *, flow: bool) -> str:
    if _is_list(node) and (not isinstance(step, int) or step != len(node.value)):
        raise InputError(f"entry {step} cannot be added to a list of {len(node.value)}")
    if _flows(node) or flow:
        entry = _flow_text(value)
        if _is_mapping(node):
            entry = f"{_scalar(str(step))}: {entry}"
        close = node.end_mark.index - 1
        body = text[node.start_mark.index + 1 : close].rstrip()
        at = node.start_mark.index + 1 + len(body)
        comma = "" if not body.strip() or body.endswith(",") else ", "
        comma = " " if body.strip() and body.endswith(",") else comma
        return text[:at] + comma + entry + text[at:]
    indent = node.start_mark.column
    if _is_mapping(node):
        lines = _block_lines(str(step), value, indent)
    else:
        lines = _item_lines(node, value, indent)
    at = _line_end(text, _end(text, node))
    newline = "\r\n" if "\r\n" in text else "\n"
    before = "" if at == 0 or text[at - 1 : at] == "\n" else newline
    return text[:at] + before + newline.join(lines) + newline + text[at:]


def _line_end(text: str, at: int) -> int:
    """Return where the next line begins, or the text's end."""
    stop = text.find("\n", at)
    return len(text) if stop < 0 else stop + 1


def _block_lines(key: str, value: object, indent: int) -> list[str]:
    space = " " * indent
    name = _scalar(key)
    if isinstance(value, dict) and value:
        inner = [line for k, v in value.items() for line in _block_lines(str(k), v, indent + 2)]
        return [f"{space}{name}:", *inner]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        items = [f"{space}  - {_flow_text(item)}" for item in value]
        return [f"{space}{name}:", *items]
    return [f"{space}{name}: {_flow_text(value)}"]


def _item_lines(node: Node, value: object, indent: int) -> list[str]:
    """Write an entry of a list as the entries before it are."""
    flow = all(isinstance(item.value, str) or _flows(item) for item in node.value)
    space = " " * indent
    if flow or not isinstance(value, dict) or not value:
        return [f"{space}- {_flow_text(value)}"]
    lines = [line for k, v in value.items() for line in _block_lines(str(k), v, indent + 2)]
    return [f"{space}- {lines[0].lstrip()}", *lines[1:]]


def _remove(text: str, root: Node, path: Path_) -> str:
    parent = _node(root, path[:-1])
    key, value = _pair(parent, path[-1])
    begin, end = key.start_mark.index, _end(text, value)
    if value.value == "" and not _style(value) and key is not value:  # 'key:' and nothing more
        end = text.index(":", key.end_mark.index) + 1
    if _flows(parent):
        return _remove_from_flow(text, parent, begin, end)
    if len(parent.value) == 1:
        return _empty_block(text, root, parent, path[:-1], end)
    line = text.rfind("\n", 0, begin) + 1
    after = _line_end(text, end)
    if _is_mapping(parent) and text[line:begin].strip():  # behind a dash: '- name: x'
        following = parent.value[1][0].start_mark.index
        return text[:begin] + text[following:]
    return text[:line] + text[after:]


def _remove_from_flow(text: str, parent: Node, begin: int, end: int) -> str:
    close = parent.end_mark.index - 1
    after = re.compile(r"\s*,[ \t]*").match(text, end, close)
    if after:
        return text[:begin] + text[after.end() :]
    before = re.compile(r",\s*$").search(text[parent.start_mark.index : begin])
    start = parent.start_mark.index + before.start() if before else begin
    return text[:start] + text[end:]


def _empty_block(text: str, root: Node, parent: Node, path: Path_, end: int) -> str:
    """Write ``{}`` or ``[]`` for a block whose last entry goes."""
    nothing = "{}" if _is_mapping(parent) else "[]"
    if not path:
        return text[: parent.start_mark.index] + nothing + text[end:]
    key, _ = _pair(_node(root, path[:-1]), path[-1])
    if key is parent:  # an entry of a list
        return text[: parent.start_mark.index] + nothing + text[end:]
    colon = text.index(":", key.end_mark.index) + 1
    return text[:colon] + " " + nothing + text[end:]


def _flow_text(value: object) -> str:
    """Write a value on one line."""
    if isinstance(value, Mapping):
        pairs = [(_scalar(str(k)), _flow_text(v)) for k, v in value.items()]
        inner = ", ".join(f"{key}: {text}" for key, text in pairs)
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flow_text(item) for item in value)}]"
    return _scalar(value)


def _scalar(value: object) -> str:
    """Write a scalar, in quotes only where it would be read as something else, brackets around."""
    if value is None:
        return "null"
    if not isinstance(value, str):
        return json.dumps(value)
    plain = (
        _PLAIN_TEXT.fullmatch(value) is not None
        and value == value.strip()
        and not value.endswith(":")
        and ": " not in value
        and value.isprintable()
    )
    if plain and parse_yaml(f"k: {value}\n", "value").data == {"k": value}:
        return value
    return f'"{"".join(_quoted(char) for char in value)}"'


def _quoted(char: str) -> str:
    """Write a character within double quotes."""
    if char in {'"', "\\"}:
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
