"""Tables with indexes and a view, changed while the server is killed: a part of `crash.py`.

`bank.items` has two indexes and a view throughout. `bank.parts` has many rows and gets an index or
a view while the server runs, so that a crash interrupts the build. After a crash every row of a
table is found through its indexes and is in its view, and nothing else is.
"""

import time
from collections import namedtuple

from cassandra.query import SimpleStatement

KINDS = range(6)
TAGS = range(8)
PARTITIONS = 8
ITEMS = 40
PARTS = 1_500
BUILD_SECONDS_MAX = 120
COLUMNS = "part, id, kind, tags, marks, steps"
DEFINITION = """(
  part int, id int, kind int, tags set<int>, marks map<int, int>, steps list<int>,
  PRIMARY KEY (part, id))"""
VIEW = """CREATE MATERIALIZED VIEW bank.{view} AS SELECT * FROM bank.{table}
  WHERE kind IS NOT NULL AND part IS NOT NULL AND id IS NOT NULL PRIMARY KEY (kind, part, id)"""

Build = namedtuple("Build", "name state rows")


def setup(session):
    for table in ("items", "parts"):
        session.execute(f"CREATE TABLE bank.{table} {DEFINITION}")
    create_indexes(session, "items")
    session.execute(VIEW.format(table="items", view="items_by_kind"))
    for part in range(PARTITIONS):
        for first in range(0, PARTS, 250):
            inserts = "".join(
                f"INSERT INTO bank.parts (part, id, kind, tags) VALUES"
                f" ({part}, {n}, {n % len(KINDS)}, {{{n % len(TAGS)}, {n * 7 % len(TAGS)}}});"
                for n in range(first, first + 250)
            )
            session.execute(f"BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")


def create_indexes(session, table):
    session.execute(f"CREATE INDEX {table}_kind ON bank.{table} (kind)")
    session.execute(f"CREATE INDEX {table}_tags ON bank.{table} (tags)")


def change(random, part):
    """Returns a statement that changes a row, or some, of one partition."""
    table, row_count = random.choice([("items", ITEMS), ("parts", PARTS)])
    number = random.randrange(row_count)
    kind, tag, mark = random.choice(KINDS), random.choice(TAGS), random.randrange(4)
    ttl = random.choice(["", "", "USING TTL 1", "USING TTL 3", "USING TTL 10000"])
    update = f"UPDATE bank.{table} {ttl} SET"
    row = f"WHERE part = {part} AND id = {number}"
    return random.choice(
        [
            f"INSERT INTO bank.{table} (part, id, kind, tags, marks, steps) VALUES"
            f" ({part}, {number}, {kind}, {{{tag}, {mark}}}, {{{mark}: {kind}}}, [{kind}]) {ttl}",
            f"{update} kind = {kind} {row}",
            f"{update} kind = null {row}",
            f"{update} tags = tags + {{{tag}}} {row}",
            f"{update} tags = tags - {{{tag}}} {row}",
            f"{update} tags = {{{tag}}}, kind = {kind} {row}",
            f"{update} marks[{mark}] = {kind}, steps = steps + [{kind}] {row}",
            f"DELETE marks[{mark}] FROM bank.{table} {row}",
            f"DELETE tags FROM bank.{table} {row}",
            f"DELETE FROM bank.{table} {row}",
            f"DELETE FROM bank.{table} WHERE part = {part} AND id >= {number} AND id < {number + 3}",
        ]
    )


def begin_build(session, number):
    """Creates an index or a view of `bank.parts`, and waits until a part of it is built."""
    if number % 2 == 0:
        name, table, column = "parts_kind", "indexes", "index_name"
        create_indexes(session, "parts")
    else:
        name, table, column = "parts_by_kind", "materialized_views", "view_name"
        session.execute(VIEW.format(table="parts", view=name))
    state = (
        f"SELECT is_building, rows_read FROM system_views.{table}"
        f" WHERE keyspace_name = 'bank' AND {column} = '{name}'"
    )
    deadline = time.monotonic() + BUILD_SECONDS_MAX
    while True:
        row = session.execute(state).one()
        if not row.is_building or row.rows_read:
            return Build(name, state, row.rows_read or 0)
        assert time.monotonic() < deadline, f"no row is read for {name} in {BUILD_SECONDS_MAX} s"


def finish_build(session, build):
    """Waits for the end of a build, compares and drops the index or view. Returns whether the
    crash fell into the build."""
    row = session.execute(build.state).one()
    was_building = row.is_building
    if was_building:
        read = row.rows_read or 0
        assert read >= build.rows, f"{build.rows} rows were read before the crash, and {read} are"
    deadline = time.monotonic() + BUILD_SECONDS_MAX
    is_view = build.name == "parts_by_kind"
    states = [build.state]
    if not is_view:
        states.append(build.state.replace("parts_kind", "parts_tags"))
    while any(session.execute(state).one().is_building for state in states):
        assert time.monotonic() < deadline, f"{build.name} is not built after {BUILD_SECONDS_MAX} s"
        time.sleep(0.02)
    compare(session, "parts", indexes=not is_view, view=is_view)
    if is_view:
        session.execute("DROP MATERIALIZED VIEW bank.parts_by_kind")
    else:
        session.execute("DROP INDEX bank.parts_kind")
        session.execute("DROP INDEX bank.parts_tags")
    return was_building


def compare(session, table, indexes=True, view=True):
    """Compares a table with its indexes and its view, at one snapshot and one wall time."""

    def select(query):
        return list(session.execute(SimpleStatement(query, fetch_size=5_000)))

    def keys(condition):
        return sorted(select(f"SELECT part, id FROM bank.{table} WHERE {condition}"))

    session.execute("START TRANSACTION READ ONLY")
    rows = select(f"SELECT {COLUMNS} FROM bank.{table}")
    if view:
        viewed = select(f"SELECT {COLUMNS} FROM bank.{table}_by_kind")
        viewed.sort(key=lambda row: row[:2])
        expected = [row for row in rows if row.kind is not None]
        expected.sort(key=lambda row: row[:2])
        assert viewed == expected, f"{table}, only in view or table: {differ(viewed, expected)}"
    if indexes:
        for kind in KINDS:
            found = keys(f"kind = {kind}")
            expected = sorted((row.part, row.id) for row in rows if row.kind == kind)
            assert found == expected, f"{table}, kind = {kind}: {differ(found, expected)}"
        for tag in TAGS:
            found = keys(f"tags CONTAINS {tag}")
            expected = sorted((row.part, row.id) for row in rows if tag in (row.tags or ()))
            assert found == expected, f"{table}, tag {tag}: {differ(found, expected)}"
    session.execute("ROLLBACK")
    return len(rows)


def differ(found, expected):
    return [row for row in found if row not in expected], [
        row for row in expected if row not in found
    ]
