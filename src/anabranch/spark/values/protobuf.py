"""Reads and writes protocol buffers, and finds the columns of a message type."""

from __future__ import annotations

import base64
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.errors import GraphError
from anabranch.formats import Format
from anabranch.spark.internals import protobuf_messages
from anabranch.spark.values import codec, way

__all__ = ["ProtobufReader", "ProtobufWriter"]

_TIMESTAMP = "google.protobuf.Timestamp"
_SIMPLE: dict[int, T.DataType] = {
    FieldDescriptor.TYPE_BOOL: T.BooleanType(),
    FieldDescriptor.TYPE_INT32: T.IntegerType(),
    FieldDescriptor.TYPE_SINT32: T.IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: T.IntegerType(),
    FieldDescriptor.TYPE_UINT32: T.LongType(),
    FieldDescriptor.TYPE_FIXED32: T.LongType(),
    FieldDescriptor.TYPE_INT64: T.LongType(),
    FieldDescriptor.TYPE_SINT64: T.LongType(),
    FieldDescriptor.TYPE_SFIXED64: T.LongType(),
    FieldDescriptor.TYPE_UINT64: T.DecimalType(20, 0),
    FieldDescriptor.TYPE_FIXED64: T.DecimalType(20, 0),
    FieldDescriptor.TYPE_FLOAT: T.FloatType(),
    FieldDescriptor.TYPE_DOUBLE: T.DoubleType(),
    FieldDescriptor.TYPE_STRING: T.StringType(),
    FieldDescriptor.TYPE_BYTES: T.BinaryType(),
    FieldDescriptor.TYPE_ENUM: T.StringType(),
}


@dataclass(frozen=True)
class ProtobufReader:
    """Reads protocol-buffer messages of one type.

    Attributes:
        files: the descriptor set.
        message: the message type's full name.
        declared: the declared columns. All of them are checked.
        schema: the columns that the rows have: either all declared columns, or only the columns that are needed.
    """

    files: bytes
    message: str
    declared: T.StructType
    schema: T.StructType

    @classmethod
    def of(cls, format_: Format, where: str) -> ProtobufReader:
        """The reader of a stream with the format ``format_``. ``where`` names the operator in error messages.

        Raises:
            GraphError: the descriptor set isn't valid; the message name in the settings matches no message type, or
                more than one; or the message type, or a type inside it, contains itself.
        """
        found = _message(format_, where)
        columns = codec.nullable(_columns(found, where, ()))
        return cls(_files(format_), found.full_name, columns, columns)

    def narrowed(self, declared: T.StructType, where: str) -> ProtobufReader:
        """The same reader for only the declared columns. For the errors, see :func:`way.check_declared`."""
        way.check_declared(declared, self.schema, where, f"the message {self.message}")
        columns = codec.nullable(declared)
        return replace(self, declared=columns, schema=columns)

    def opened(self, value: Column) -> Column:
        return protobuf_messages.row(value, self.files, self.message, self.declared, self.schema)

    def fault(self, opened: str) -> Column:
        return F.col(opened).isNull()

    def reason(self, value: Column) -> Column:
        return protobuf_messages.reason(value, self.files, self.message, self.declared)

    def pruned(self, only: Set[str]) -> ProtobufReader:
        return replace(self, schema=codec.pruned(self.schema, only))


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes protocol-buffer messages of one type."""

    format: Format

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        message = _message(self.format, where)
        held = _columns(message, where, ())
        way.check_written(frame, names, _insisting(message, held), where, f"the message {message.full_name}")
        columns = T.StructType([held[name] for name in names])
        struct = F.struct(*[frame[codec.quoted(name)] for name in names])
        return protobuf_messages.written(struct, _files(self.format), message.full_name, columns)


def _files(format_: Format) -> bytes:
    return base64.b64decode(format_.schema)


def _message(format_: Format, where: str) -> Descriptor:
    """The message type that the settings name. The settings can contain the type's full name. They can also contain
    only the last parts of the full name, unless another type's name ends with the same parts.
    """
    cure = "make the schema file by protoc --include_imports --descriptor_set_out, and name one of its messages"
    pool = descriptor_pool.DescriptorPool()
    names: list[str] = []
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(_files(format_))
        added: set[str] = set()
        waiting = list(files.file)
        while waiting:
            ready = [each for each in waiting if added.issuperset(each.dependency)]
            if not ready:
                raise ValueError(f"it lacks what {waiting[0].name} imports")
            for each in ready:
                pool.Add(each)
                added.add(each.name)
                waiting.remove(each)
                names += _names(each.package, each.message_type)
    except Exception as error:
        raise GraphError(
            f"{where}: the schema file of its message {format_.message} can't be read: {error}", cure
        ) from None
    fitting = [name for name in names if name == format_.message or name.endswith(f".{format_.message}")]
    wanted = format_.message if format_.message in fitting else fitting[0] if len(fitting) == 1 else None
    if wanted is None:
        what = "several messages are called" if fitting else "there is no message"
        raise GraphError(f"{where}: {what} {format_.message} in its schema file", f"it has: {', '.join(names) or '-'}")
    found: Descriptor = pool.FindMessageTypeByName(wanted)
    return found


def _names(above: str, messages: Sequence[descriptor_pb2.DescriptorProto]) -> list[str]:
    found = []
    for each in messages:
        name = f"{above}.{each.name}" if above else each.name
        found += [name, *_names(name, each.nested_type)]
    return found


def _columns(message: Descriptor, where: str, above: tuple[str, ...]) -> T.StructType:
    if message.full_name in above:
        raise GraphError(
            f"{where}: the message {message.full_name} holds itself, and rows can't", 'read it with format = "raw"'
        )
    inside = (*above, message.full_name)
    return T.StructType([T.StructField(f.name, _type(f, where, inside), not f.is_required) for f in message.fields])


def _insisting(message: Descriptor, columns: T.StructType) -> T.StructType:
    """The columns of a message that is written. The columns of required fields aren't nullable, and neither are those
    of fields without presence, unless the field is repeated. (In a field without presence, a null would be read as the
    default value of the field's type.)
    """
    absent = {f.name for f in message.fields if f.is_repeated or (f.has_presence and not f.is_required)}
    return T.StructType([T.StructField(each.name, each.dataType, each.name in absent) for each in columns])


def _type(field: FieldDescriptor, where: str, above: tuple[str, ...]) -> T.DataType:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        names, values = (_type(kind.fields_by_name[name], where, above) for name in ("key", "value"))
        return T.MapType(names, values)
    single = _SIMPLE.get(field.type) or (
        T.TimestampType() if kind.full_name == _TIMESTAMP else _columns(kind, where, above)
    )
    return T.ArrayType(single) if field.is_repeated else single
