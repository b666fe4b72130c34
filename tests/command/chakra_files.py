"""Reads Chakra execution traces with Google's protobuf, by the fields that docs/other_simulators.md lists, and nothing of ours."""

import functools
import sys

sys.path.append("/usr/lib/python3/dist-packages")  # where Debian's is, for a Python that is not Debian's
try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:  # Debian: python3-protobuf
    descriptor_pb2 = None

ONE, MANY = 1, 3  # labels of descriptor.proto
TYPES = {"int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "enum": 14}

# message: field: number, type, label
SCHEMA = {
    "GlobalMetadata": {"version": (1, "string", ONE), "attr": (2, ".AttributeProto", MANY)},
    "Node": {"id": (1, "uint64", ONE), "name": (2, "string", ONE), "type": (3, "NodeType", ONE),
             "ctrl_deps": (4, "uint64", MANY), "data_deps": (5, "uint64", MANY),
             "start_time_micros": (6, "uint64", ONE), "duration_micros": (7, "uint64", ONE),
             "attr": (10, ".AttributeProto", MANY)},
    "AttributeProto": {"name": (1, "string", ONE), "doc_string": (2, "string", ONE), "int32_val": (7, "int32", ONE),
                       "int64_val": (9, "int64", ONE), "uint64_val": (13, "uint64", ONE), "bool_val": (27, "bool", ONE)},
}
NODE_TYPES = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")


@functools.cache
def messages():
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", syntax="proto3")
    kinds = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODE_TYPES):
        kinds.value.add(name=name, number=number)
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field, (number, kind, label) in fields.items():
            added = message.field.add(name=field, number=number, label=label)
            if kind in TYPES:
                added.type = TYPES[kind]
            else:
                added.type, added.type_name = (TYPES["enum"], ".NodeType") if kind == "NodeType" else (11, kind)
            if field.endswith("_val"):
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in SCHEMA}


def split(data):
    """The messages of a stream, each behind its length."""
    at = 0
    while at < len(data):
        length = shift = 0
        while True:
            byte, at = data[at], at + 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if at + length > len(data):
            raise ValueError("the file ends inside a message")
        yield data[at:at + length]
        at += length


def parse(kind, data):
    message = messages()[kind]()
    message.ParseFromString(data)
    if len(message.UnknownFields()) > 0:
        raise ValueError(f"{kind} has a field that its schema has not")
    return message


def nodes_of(path):
    """{id: node} of one rank, each a dictionary with its attributes beside its fields."""
    metadata, *nodes = split(path.read_bytes())
    if parse("GlobalMetadata", metadata).version != "0.0.4":
        raise ValueError("another version of the schema")
    out = {}
    for data in nodes:
        node = parse("Node", data)
        attributes = {attribute.name: getattr(attribute, attribute.WhichOneof("value")) for attribute in node.attr}
        if node.id in out or len(attributes) != len(node.attr):
            raise ValueError(f"node {node.id} or an attribute of it is there twice")
        out[node.id] = {"name": node.name, "type": NODE_TYPES[node.type], "after": list(node.data_deps),
                        "micros": node.duration_micros, **attributes}
    return out
