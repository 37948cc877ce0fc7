#!/usr/bin/env python3
"""Writes murmur3_vectors.json: the tokens that a stock driver computes.

    pip install cassandra-driver
    python3 make_murmur3_vectors.py > murmur3_vectors.json

The driver has one implementation in C and one in Python; both are asked and must agree.
"""

import json
import random

import cassandra
from cassandra import cmurmur3, murmur3
from cassandra.metadata import Murmur3Token


def keys():
    draw = random.Random(20260102)
    for length in range(1, 41):
        yield bytes(draw.randrange(0x80) for _ in range(length))
        yield bytes(draw.randrange(0x80, 0x100) for _ in range(length))
        yield draw.randbytes(length)
    # One high byte in each place of a tail of 15, behind no block and behind one.
    for place in range(15):
        for block in (b"", bytes(range(16))):
            tail = bytearray(b"carnet-of-tickets"[:15])
            tail[place] = 0x80 + draw.randrange(0x80)
            yield block + bytes(tail)
    for byte in (0x00, 0x7F, 0x80, 0xFF):
        for length in (1, 8, 15, 16, 17, 32):
            yield bytes([byte]) * length
    for length in (100, 255, 256, 1000, 4096, 5000):
        yield draw.randbytes(length)


def token(key):
    got = Murmur3Token.hash_fn(key)
    assert got == Murmur3Token.from_key(key).value
    assert got == cmurmur3.murmur3(key) == murmur3.murmur3(key), key.hex()
    return got


vectors = [{"key": key.hex(), "token": token(key)} for key in keys()]
about = (
    "cassandra.metadata.Murmur3Token.hash_fn of cassandra-driver "
    f"{cassandra.__version__}; keys in hex, tokens as numbers"
)
print(json.dumps({"about": about, "vectors": vectors}, indent=1))
