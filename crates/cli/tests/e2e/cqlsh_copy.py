"""COPY by stock cqlsh, of rows of every type: cqlsh_copy.py PORT make|check FOLDER

make   makes the tables, fills `copies.source`, and exports it to FOLDER/cqlsh.csv
check  imports FOLDER/carnet.csv into `copies.by_cqlsh`, and compares all copies with the source
"""

import datetime
import decimal
import ipaddress
import pathlib
import random
import subprocess
import sys
import uuid

from cassandra.cluster import Cluster

PORT, STEP, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
CQLSH = pathlib.Path(sys.executable).with_name("cqlsh")
COPIES = ["of_cqlsh", "by_cqlsh", "own", "own_rfc"]
# cqlsh writes an empty text like null, and nothing at all of a row with a null inside a value.
NOT_WRITTEN_BY_CQLSH = {"empty", "tu_null", "person_null"}
# It takes an empty text for null, and reads no duration and no tuple with a null. It reads line
# breaks, except that it makes \r to \n, and then waits 90 seconds for as many rows as lines.
NOT_READ_BY_CQLSH = {"empty", "tu_null", "z_duration", "breaks", "break_list"}
COLUMNS = {
    "k": "int",
    "c": "text",
    "zz": "text static",
    "aa": "text",
    "empty": "text",
    "breaks": "text",
    "break_list": "list<text>",
    "asci": "ascii",
    "big": "bigint",
    "bl": "blob",
    "bo": "boolean",
    "da": "date",
    "de": "decimal",
    "dou": "double",
    "fl": "float",
    "addr": "inet",
    "li": "list<text>",
    "ma": "map<text, int>",
    "se": "set<text>",
    "fr": "frozen<map<text, frozen<list<int>>>>",
    "small": "smallint",
    "tiny": "tinyint",
    "ti": "time",
    "stamp": "timestamp",
    "tu": "tuple<int, text>",
    "tu_null": "tuple<int, text>",
    "tid": "timeuuid",
    "u": "uuid",
    '"Person"': "frozen<person>",
    "person_null": "frozen<person>",
    "var": "varint",
    "vec": "vector<float, 2>",
    "z_duration": "duration",
}
TEXTS = [
    "back\\slash",
    "\\n in letters",
    "two \\\\",
    'quote " only',
    'say "hi", ok',
    "it's",
    "tab\there",
    "control \x01 \x7f \x85 \xa0",
    "é ☃ 𝄞",
    " blanks ",
    "{'a': [1, (2)]}",
    "null",
    "x, y: z",
]
BREAKS = ["a\nb", "carriage\rreturn", "\n", "\r\n", "\\n\n\\"]


def cqlsh(statement):
    command = [CQLSH, "--no-color", "127.0.0.1", PORT, "-e", statement]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = result.stdout + result.stderr
    assert result.returncode == 0 and "Failed" not in said, said
    return said


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def row(rng, number):
    text = lambda: rng.choice(TEXTS)
    maybe = lambda value: value if rng.random() < 0.8 else None
    items = lambda make: [make() for _ in range(rng.randrange(3))]
    person = f"{{name: {literal(text())}, \"Home\": [1, 2]}}"
    half = rng.choice(["{\"Home\": []}", f"{{name: {literal(text())}}}"])
    pairs = {text(): number for _ in range(2)}
    quoted = lambda value: value and f"'{value}'"
    return {
        "k": number // 2,
        "c": literal(f"{number} {text()}"),
        "aa": maybe(literal(text())),
        "empty": rng.choice(["''", None, "'x'"]),
        "breaks": literal(rng.choice(BREAKS)),
        "break_list": [rng.choice(BREAKS), text()],
        "asci": maybe(literal(rng.choice(["a", 'b"', "c\\d", "e,f", "~"]))),
        "big": maybe(rng.randrange(-(2**63), 2**63)),
        "bl": maybe("0x" + rng.randbytes(rng.randrange(4)).hex()),
        "bo": maybe(rng.random() < 0.5),
        "da": quoted(maybe(datetime.date(rng.randrange(1, 9999), 2, 28))),
        "de": maybe(decimal.Decimal(rng.randrange(-999, 999)).scaleb(rng.randrange(-9, 9))),
        # cqlsh exports 12 digits of a double and 5 of a float.
        "dou": maybe(rng.choice(["NaN", "Infinity", "-Infinity", 0.5, -1e300, 1e-7, 123456.75])),
        "fl": maybe(rng.choice(["NaN", 0.5, -1e20, 12.75])),
        "addr": quoted(maybe(ipaddress.ip_address(rng.choice(["::1", "10.1.2.3", "fe80::1"])))),
        "li": [text() for _ in range(2)],
        "ma": pairs,
        "se": set(items(text)) or None,
        "fr": maybe({text(): [1, -2], "": []}),
        "small": maybe(rng.randrange(-(2**15), 2**15)),
        "tiny": maybe(rng.randrange(-128, 128)),
        "ti": quoted(maybe(f"0{rng.randrange(10)}:59:0{rng.randrange(10)}.123456789")),
        "stamp": quoted(maybe(f"{rng.randrange(1900, 2100)}-03-04 05:06:07.{rng.randrange(100, 999)}Z")),
        "tu": maybe(f"({number}, {literal(text())})"),
        "tu_null": rng.choice([f"({number}, null)", f"(null, {literal(text())})"]),
        "tid": maybe(uuid.uuid1(clock_seq=number)),
        "u": maybe(uuid.UUID(int=rng.getrandbits(128))),
        '"Person"': maybe(person),
        "person_null": half,
        "var": maybe(rng.randrange(-(10**30), 10**30)),
        "vec": maybe([0.5, -2.0]),
        "z_duration": maybe("1y2mo3d4h5m6s"),
    }


def composite(value):
    if isinstance(value, dict):
        inner = ", ".join(f"{composite(k)}: {composite(v)}" for k, v in value.items())
        return "{" + inner + "}"
    if isinstance(value, (list, set)):
        start, end = ("[", "]") if isinstance(value, list) else ("{", "}")
        return start + ", ".join(composite(item) for item in value) + end
    return literal(value)


def make(session):
    session.execute(
        "CREATE KEYSPACE copies WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute('CREATE TYPE copies.person (name text, "Home" frozen<list<int>>)')
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for table in ["source", *COPIES]:
        session.execute(f"CREATE TABLE copies.{table} ({columns}, PRIMARY KEY (k, c))")
        session.execute(f"CREATE TABLE copies.{table}_counts (k int PRIMARY KEY, b counter, a counter)")
    rng = random.Random(7)
    for number in range(300):
        values = {name: value for name, value in row(rng, number).items() if value is not None}
        texts = [
            composite(value) if isinstance(value, (dict, list, set)) else str(value)
            for value in values.values()
        ]
        session.execute(
            f"INSERT INTO copies.source ({', '.join(values)}) VALUES ({', '.join(texts)})"
        )
    session.execute("UPDATE copies.source SET zz = 'static \"text\"' WHERE k IN (1, 2, 3)")
    session.execute("UPDATE copies.source_counts SET a = a + 7, b = b - 2 WHERE k = 1")
    session.execute("UPDATE copies.source_counts SET a = a + 1 WHERE k = 2")
    cqlsh(f"COPY copies.source ({names(NOT_WRITTEN_BY_CQLSH)}) TO '{FOLDER}/cqlsh.csv'")
    cqlsh(f"COPY copies.source_counts TO '{FOLDER}/cqlsh_counts.csv'")


def names(without):
    return ", ".join(name for name in COLUMNS if name not in without)


def rows(session, table, columns):
    found = {}
    for values in session.execute(f"SELECT {', '.join(columns)} FROM copies.{table}"):
        found[tuple(values[:2])] = [repr(value) for value in values]
    return found


def check(session):
    cqlsh(f"COPY copies.by_cqlsh ({names(NOT_READ_BY_CQLSH)}) FROM '{FOLDER}/carnet_readable.csv'")
    cqlsh(f"COPY copies.by_cqlsh_counts FROM '{FOLDER}/carnet_counts.csv'")
    for table in COPIES:
        lost = {"of_cqlsh": NOT_WRITTEN_BY_CQLSH, "by_cqlsh": NOT_READ_BY_CQLSH}.get(table, set())
        columns = [name for name in COLUMNS if name not in lost]
        want, got = rows(session, "source", columns), rows(session, table, columns)
        assert len(got) == 300 and want.keys() == got.keys(), (table, len(got))
        for key, values in want.items():
            wrong = [(n, a, b) for n, a, b in zip(columns, values, got[key]) if a != b]
            assert not wrong, (table, key, wrong)
        counts = rows(session, f"{table}_counts", ["k", "a", "b"])
        expected = rows(session, "source_counts", ["k", "a", "b"])
        if table == "by_cqlsh":
            # cqlsh adds nothing to a counter that is null, which makes it 0.
            expected[(2, 1)][2] = "0"
        assert counts == expected, (table, counts)


with Cluster(["127.0.0.1"], port=int(PORT)) as cluster:
    session = cluster.connect()
    {"make": make, "check": check}[STEP](session)
