"""The messages of a Chakra execution trace, built when first needed; no generated code.

Field numbers are those of MLCommons Chakra's ``et_def.proto`` (package ``ChakraProtoMsg``); only
what is read or written here is declared, everything else is skipped by the protobuf library.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from railweave.errors import MissingProgramError

__all__ = ["COLLECTIVE_CODES", "NodeType", "Schema", "schema"]

#: operation → number in ``comm_type``
COLLECTIVE_CODES: Final = {
    "all-reduce": 0,
    "reduce": 1,
    "all-gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all-to-all": 6,
    "reduce-scatter": 7,
    "barrier": 9,
}


class NodeType:
    """Numbers of ``Node.type``."""

    METADATA = 1
    LOAD = 2
    STORE = 3
    COMPUTE = 4
    SEND = 5
    RECV = 6
    COLLECTIVE = 7


#: values of an attribute: field → (number, type); all are of one ``oneof``
_VALUES: Final = {
    "double_val": (3, "DOUBLE"),
    "float_val": (5, "FLOAT"),
    "int32_val": (7, "INT32"),
    "int64_val": (9, "INT64"),
    "uint32_val": (11, "UINT32"),
    "uint64_val": (13, "UINT64"),
    "sint32_val": (15, "SINT32"),
    "sint64_val": (17, "SINT64"),
    "fixed32_val": (19, "FIXED32"),
    "fixed64_val": (21, "FIXED64"),
    "sfixed32_val": (23, "SFIXED32"),
    "sfixed64_val": (25, "SFIXED64"),
    "bool_val": (27, "BOOL"),
    "string_val": (29, "STRING"),
}
#: message → field → (number, type, repeated)
_MESSAGES: Final[dict[str, dict[str, tuple[int, str, bool]]]] = {
    "AttributeProto": {
        "name": (1, "STRING", False),
        **{name: (number, kind, False) for name, (number, kind) in _VALUES.items()},
    },
    "GlobalMetadata": {"version": (1, "STRING", False), "attr": (2, "AttributeProto", True)},
    "Node": {
        "id": (1, "UINT64", False),
        "name": (2, "STRING", False),
        "type": (3, "INT32", False),
        "ctrl_deps": (4, "UINT64", True),
        "data_deps": (5, "UINT64", True),
        "start_time_micros": (6, "UINT64", False),
        "duration_micros": (7, "UINT64", False),
        "attr": (10, "AttributeProto", True),
    },
}


class Schema(NamedTuple):
    """The classes of the messages, and what the library raises for broken ones."""

    node: type[Any]
    attribute: type[Any]
    metadata: type[Any]
    error: type[Exception]


@cache
def schema() -> Schema:
    """Return the message classes.

    Raises:
        MissingProgramError: the protobuf library is not installed.
    """
    try:
        pb = import_module("google.protobuf.descriptor_pb2")
        pool_module = import_module("google.protobuf.descriptor_pool")
        factory = import_module("google.protobuf.message_factory")
        message = import_module("google.protobuf.message")
    except ImportError:
        raise MissingProgramError(
            "Chakra traces need the protobuf library; install it with "
            "pip install 'railweave[traces]'"
        ) from None
    file = pb.FileDescriptorProto(
        name="railweave/chakra.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    kinds = pb.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        declared = file.message_type.add(name=name)
        if name == "AttributeProto":
            declared.oneof_decl.add(name="value")
        for field, (number, kind, repeated) in fields.items():
            entry = declared.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
            )
            if kind in _MESSAGES:
                entry.type, entry.type_name = kinds.TYPE_MESSAGE, f".ChakraProtoMsg.{kind}"
            else:
                entry.type = getattr(kinds, f"TYPE_{kind}")
            if field in _VALUES:
                entry.oneof_index = 0
    # A pool of our own: other programs in the process may have loaded the real schema.
    pool = pool_module.DescriptorPool()
    pool.Add(file)
    node, attribute, metadata = (
        factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("Node", "AttributeProto", "GlobalMetadata")
    )
    return Schema(node, attribute, metadata, message.DecodeError)
