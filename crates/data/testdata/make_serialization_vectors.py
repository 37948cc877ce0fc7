#!/usr/bin/env python3
"""Writes serialization_vectors.json: values in a stock driver's own serialization.

    pip install cassandra-driver
    python3 make_serialization_vectors.py > serialization_vectors.json

`text` is a form that cqlsh would take for the value, `bytes` is hex. `composite` holds partition
keys of several columns, as the driver builds their routing keys.
"""

import datetime
import decimal
import json
import struct
import uuid

import cassandra
from cassandra import cqltypes, util
from cassandra.query import BoundStatement, PreparedStatement

PROTOCOL = 4
EPOCH = datetime.datetime(1970, 1, 1)


def ms(text):
    at = datetime.datetime.fromisoformat(text)
    return (text + "+00:00", at)


NUMBERS = {
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 1, -1, 300, 32767, -32768],
    "int": [0, 1, -1, 70000, 2147483647, -2147483648],
    "bigint": [0, 1, -1, 2**40, 2**63 - 1, -(2**63)],
    "varint": [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, 10**40, -(10**40), 2**64],
    "float": [0.0, -0.0, 1.5, -2.25, 1e10, float("inf"), float("-inf")],
    "double": [0.0, -0.0, 1.5, -2.25, 0.1, 1e300, 5e-324, float("inf"), float("-inf")],
}
OTHERS = {
    "ascii": [("", ""), ("abc", "abc"), ("a b~", "a b~")],
    "text": [("", ""), ("abc", "abc"), ("h\u00e9llo \u4e16 \U0001f3ab", "h\u00e9llo \u4e16 \U0001f3ab")],
    "blob": [("0x", b""), ("0x00ff80", b"\x00\xff\x80")],
    "boolean": [("true", True), ("False", False)],
    "decimal": [
        (text, decimal.Decimal(text))
        for text in ["0", "1.5", "-1.50", "123456789012345678901234567890.001", "1E+5", "-7E-20", "0.00"]
    ],
    "timestamp": [
        ms("1970-01-01T00:00:00"),
        ms("2026-01-02T03:04:05.678"),
        ms("1969-12-31T23:59:59.999"),
        ms("1600-02-29T12:00:00"),
        ms("9999-12-31T23:59:59.999"),
    ],
    "date": [
        (text, util.Date(text))
        for text in ["1970-01-01", "1969-12-31", "2026-01-02", "2000-02-29", "0001-01-01", "9999-12-31"]
    ],
    "time": [
        (text, util.Time(text))
        for text in ["00:00:00", "03:04:05.678", "23:59:59.999999999", "12:00:00.000000001"]
    ],
    "uuid": [
        (text, uuid.UUID(text))
        for text in [
            "00000000-0000-0000-0000-000000000000",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "3d813cbb-47fb-42ba-91df-831e1593ac29",
        ]
    ],
    "timeuuid": [
        (text, uuid.UUID(text))
        for text in ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "00000000-0000-1000-8080-808080808080"]
    ],
    "inet": [(text, text) for text in ["127.0.0.1", "255.255.255.255", "::1", "2001:db8::ff00:42:8329"]],
}


def driver_type(name):
    return cqltypes.lookup_casstype(
        {
            "ascii": "AsciiType", "bigint": "LongType", "blob": "BytesType", "boolean": "BooleanType",
            "date": "SimpleDateType", "decimal": "DecimalType", "double": "DoubleType",
            "float": "FloatType", "inet": "InetAddressType", "int": "Int32Type",
            "smallint": "ShortType", "text": "UTF8Type", "time": "TimeType",
            "timestamp": "DateType", "timeuuid": "TimeUUIDType", "tinyint": "ByteType",
            "uuid": "UUIDType", "varint": "IntegerType",
        }[name]
    )


def values():
    for name, numbers in NUMBERS.items():
        for number in numbers:
            yield name, repr(number), number
    for name, pairs in OTHERS.items():
        for text, value in pairs:
            yield name, text, value


def composite(parts):
    """The driver's own routing key of a statement whose partition key has these components."""
    statement = PreparedStatement([], b"id", list(range(len(parts))), "", "ks", PROTOCOL, [], None)
    bound = BoundStatement(statement)
    bound.values = [driver_type(name).serialize(value, PROTOCOL) for name, value in parts]
    return bound.routing_key


COMPOSITES = [
    [("int", "1", 1), ("text", "abc", "abc")],
    [("text", "", ""), ("text", "", "")],
    [("bigint", "-1", -1), ("blob", "0x0000", b"\0\0"), ("boolean", "true", True)],
    [("text", "x" * 300, "x" * 300), ("smallint", "7", 7)],
]

print(
    json.dumps(
        {
            "about": f"cassandra-driver {cassandra.__version__}, native protocol {PROTOCOL}",
            "values": [
                {"type": name, "text": text, "bytes": driver_type(name).serialize(value, PROTOCOL).hex()}
                for name, text, value in values()
            ],
            "composite": [
                {
                    "parts": [{"type": name, "text": text} for name, text, _ in parts],
                    "bytes": composite([(name, value) for name, _, value in parts]).hex(),
                }
                for parts in COMPOSITES
            ],
        },
        indent=1,
    )
)
