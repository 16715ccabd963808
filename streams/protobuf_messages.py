"""Classes of protobuf messages, from a table of their fields: those of others' formats that we read or write, and no more.

No code is generated and no .proto is copied; a field that is not in the table is passed over when a message is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
ONE: Final = _FIELD.LABEL_OPTIONAL
MANY: Final = _FIELD.LABEL_REPEATED
BYTES: Final = _FIELD.TYPE_BYTES
STRING: Final = _FIELD.TYPE_STRING
BOOL: Final = _FIELD.TYPE_BOOL
INT32: Final = _FIELD.TYPE_INT32
INT64: Final = _FIELD.TYPE_INT64
UINT32: Final = _FIELD.TYPE_UINT32
DOUBLE: Final = _FIELD.TYPE_DOUBLE

Fields = Sequence[tuple[str, int, Any, Any]]
"""Name, number, type (one of the above, or the name of a message of the same table), and ONE or MANY."""


def classes(package: str, messages: Mapping[str, Fields]) -> dict[str, Any]:
    """The class of each message, by its name. A message as BYTES is one that is read or written separately."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            of = {"type": _FIELD.TYPE_MESSAGE, "type_name": f".{package}.{kind}"} if isinstance(kind, str) else {"type": kind}
            message.field.add(name=field, number=number, label=label, **of)
    # A pool of its own: in that of the process messages of others may have the same names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}
