"""What an application does with the stock Python driver: python_driver.py PORT [WRITERS]

Every check runs on both versions of the native protocol. WRITERS is how many write to one row at
once.
"""

import collections
import datetime
import decimal
import math
import sys
import traceback
import uuid

from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest
from cassandra.cluster import Cluster, EXEC_PROFILE_DEFAULT, ExecutionProfile
from cassandra.metadata import Murmur3Token
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import SyntaxException
from cassandra.query import (
    UNSET_VALUE,
    BatchStatement,
    BatchType,
    SimpleStatement,
)
from cassandra.util import Date, Duration, Time

WRITERS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def raises(error, function, *arguments):
    try:
        function(*arguments)
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} expected")


@check
def the_server_describes_itself(session):
    cluster = session.cluster
    hosts = cluster.metadata.all_hosts()
    assert len(hosts) == 1 and hosts[0].is_up, hosts
    assert hosts[0].release_version.startswith("5.0.0-carnet"), hosts[0].release_version
    assert cluster.metadata.partitioner.endswith("Murmur3Partitioner")
    assert "system" in cluster.metadata.keyspaces


@check
def connected_clients_are_listed(session):
    version = session.cluster.protocol_version
    rows = session.execute("SELECT * FROM system_views.clients").all()
    own = [row for row in rows if row.protocol_version == version]
    # The control connection and that of the pool.
    assert len(own) >= 2, rows
    for row in own:
        assert row.address == "127.0.0.1" and row.port > 0, row
        assert row.connection_stage == "ready" and row.request_count > 0, row
        assert row.driver_name.endswith("Python Driver") and row.driver_version, row
        assert row.client_options["DRIVER_NAME"] == row.driver_name, row
        assert row.username is None and row.ssl_enabled is False, row


@check
def schema_errors_have_cassandras_codes(session):
    keyspace = session.keyspace
    for code, statement in [
        (0x2000, "CREATE TABLE odd (id int PRIMARY KEY) WITH colour = 'red'"),
        (0x2000, "CREATE TABLE odd (id int PRIMARY KEY) WITH gc_grace_seconds = 'soon'"),
        (0x2100, "DROP KEYSPACE system"),
        (0x2100, "CREATE TABLE system.odd (id int PRIMARY KEY)"),
        (0x2200, "CREATE KEYSPACE system WITH replication = {'class': 'SimpleStrategy'}"),
        (0x2300, "CREATE TABLE odd (id int PRIMARY KEY) WITH gc_grace_seconds = -1"),
        (0x2300, f"ALTER KEYSPACE {keyspace} WITH replication = {{'class': 'NoStrategy'}}"),
    ]:
        error = raises(Exception, session.execute, statement)
        # Some of the driver's exceptions only have the code in their text.
        assert f"code={code:04x}" in str(error), (statement, error)


@check
def prepared_statements_take_positions_and_names(session):
    session.execute("CREATE TABLE people (id int, day int, name text, PRIMARY KEY (id, day))")
    insert = session.prepare("INSERT INTO people (id, day, name) VALUES (?, ?, ?)")
    session.execute(insert, (1, 1, "Ada"))
    named = session.prepare("INSERT INTO people (id, day, name) VALUES (:who, :day, :name)")
    session.execute(named, {"who": 1, "day": 2, "name": "Grace"})
    simple = "INSERT INTO people (id, day, name) VALUES (%s, %s, %s)"
    session.execute(simple, (1, 3, "it's"))
    select = session.prepare("SELECT day, name FROM people WHERE id = :id AND day >= :first")
    rows = list(session.execute(select, {"id": 1, "first": 2}))
    assert [(row.day, row.name) for row in rows] == [(2, "Grace"), (3, "it's")], rows
    descending = session.execute("SELECT day FROM people WHERE id = 1 ORDER BY day DESC LIMIT 2")
    assert [row.day for row in descending] == [3, 2]


@check
def null_and_unset_differ(session):
    session.execute("CREATE TABLE sparse (id int PRIMARY KEY, a text, b text)")
    insert = session.prepare("INSERT INTO sparse (id, a, b) VALUES (?, ?, ?)")
    session.execute(insert, (1, "a", "b"))
    session.execute(insert, (1, UNSET_VALUE, None))
    row = session.execute("SELECT a, b FROM sparse WHERE id = 1").one()
    assert (row.a, row.b) == ("a", None), row
    session.execute(insert, (2, "", None))
    assert session.execute("SELECT a, b FROM sparse WHERE id = 2").one() == ("", None)
    raises(InvalidRequest, session.execute, insert, (None, "a", "b"))


@check
def vectors_come_back(session):
    session.execute(
        "CREATE TABLE vectors (id int PRIMARY KEY, v vector<float, 3>, w vector<text, 2>,"
        " l list<frozen<vector<int, 1>>>)"
    )
    insert = session.prepare("INSERT INTO vectors (id, v, w, l) VALUES (?, ?, ?, ?)")
    session.execute(insert, (1, [1.0, 0.0, 0.5], ["a", "x" * 300], [[7], [8]]))
    session.execute(insert, (2, [0.0, 1.0, 0.0], None, None))
    row = session.execute("SELECT v, w, l FROM vectors WHERE id = 1").one()
    assert (list(row.v), list(row.w)) == ([1.0, 0.0, 0.5], ["a", "x" * 300]), row
    assert [list(item) for item in row.l] == [[7], [8]], row
    raises(Exception, session.execute, insert, (3, [1.0], None, None))
    nearest = session.prepare(
        "SELECT id, similarity_euclidean(v, ?) AS near FROM vectors"
        " ORDER BY v ANN OF ? LIMIT 1 ALLOW FILTERING"
    )
    row = session.execute(nearest, ([0.0, 1.0, 0.0], [0.0, 2.0, 0.0])).one()
    assert row == (2, 1.0), row
    column = session.cluster.metadata.keyspaces[session.keyspace].tables["vectors"].columns["v"]
    assert column.cql_type == "vector<float, 3>", column.cql_type


@check
def traces_show_the_steps_of_a_statement(session):
    session.execute("CREATE TABLE traced (id int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO traced (id, v) VALUES (?, ?)")
    written = session.execute(insert, (1, 2), trace=True).get_query_trace()
    assert written.request_type == "Execute CQL3 prepared query", written.request_type
    steps = [event.description for event in written.events]
    assert any("Committed" in step for step in steps), steps
    read = session.execute("SELECT v FROM traced WHERE id = 1", trace=True)
    assert read.one().v == 2
    trace = read.get_query_trace()
    assert trace.parameters["query"] == "SELECT v FROM traced WHERE id = 1", trace.parameters
    assert trace.client == "127.0.0.1" and trace.duration is not None, trace
    elapsed = [event.source_elapsed for event in trace.events]
    assert elapsed == sorted(elapsed) and len(elapsed) >= 4, elapsed
    assert "Found 1 rows" in [event.description for event in trace.events], trace.events
    missing = raises(InvalidRequest, session.execute, "SELECT w FROM traced", None, 10, True)
    assert "no column w" in str(missing), missing


@check
def aggregates_of_partitions_come_with_a_warning(session):
    session.execute("CREATE TABLE summed (id int PRIMARY KEY, v int)")
    for query, warning in [
        ("SELECT count(*) FROM summed", "Aggregation query used without partition key"),
        (
            "SELECT sum(v) FROM summed WHERE id IN (1, 2)",
            "Aggregation query used on multiple partition keys (IN restriction)",
        ),
        ("SELECT sum(v) FROM summed WHERE id = 1", None),
    ]:
        future = session.execute_async(query)
        future.result()
        assert future.warnings == ([warning] if warning else None), (query, future.warnings)


@check
def collections_and_tuples_come_back(session):
    session.execute(
        "CREATE TABLE composite (id int PRIMARY KEY, l list<int>, s set<text>,"
        " m map<text, frozen<list<double>>>, f frozen<set<timeuuid>>, t tuple<int, text>,"
        " d duration)"
    )
    ids = {uuid.uuid1(), uuid.uuid1()}
    values = (1, [3, 1, 3], {"b", "a"}, {"x": [1.5], "y": []}, ids, (7, None), Duration(1, 2, 3))
    insert = session.prepare(
        "INSERT INTO composite (id, l, s, m, f, t, d) VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    session.execute(insert, values)
    query = "SELECT id, l, s, m, f, t, d FROM composite WHERE id = %s"
    row = session.execute(query, (1,)).one()
    assert tuple(row) == values, row
    # Literals of the driver for values of simple statements.
    session.execute(
        "UPDATE composite SET l = %s, s = s + %s, m['z'] = %s WHERE id = %s",
        ([1, 2], {"it's"}, [2.5], 1),
    )
    change = session.prepare(
        "UPDATE composite SET l = ? + l, l[0] = ?, s = s - ?, m = m - ? WHERE id = ?"
    )
    session.execute(change, ([9, 9], 8, {"a"}, {"x", "y"}, 1))
    row = session.execute(query, (1,)).one()
    assert (row.l, set(row.s), dict(row.m)) == ([8, 9, 1, 2], {"b", "it's"}, {"z": [2.5]}), row
    session.execute("DELETE l, s, m FROM composite WHERE id = 1")
    row = session.execute(query, (1,)).one()
    assert (row.l, row.s, row.m) == (None, None, None), row
    table = session.cluster.metadata.keyspaces[session.keyspace].tables["composite"]
    assert table.columns["m"].cql_type == "map<text, frozen<list<double>>>", table.columns["m"]
    assert table.columns["f"].cql_type == "frozen<set<timeuuid>>", table.columns["f"]


@check
def user_types_are_named_tuples(session):
    session.execute("CREATE TYPE phone (kind text, number bigint)")
    session.execute("CREATE TYPE address (street text, phones map<text, frozen<phone>>)")
    session.execute("CREATE TABLE homes (id int PRIMARY KEY, a address, b frozen<address>)")
    types = session.cluster.metadata.keyspaces[session.keyspace].user_types
    assert list(types["phone"].field_names) == ["kind", "number"], types
    insert = session.prepare("INSERT INTO homes (id, a, b) VALUES (?, ?, ?)")
    Phone = collections.namedtuple("Phone", "kind number")
    Address = collections.namedtuple("Address", "street phones")
    home = Address("Main Street", {"x": Phone("mobile", 7), "y": Phone(None, -1)})
    session.execute(insert, (1, home, home))
    row = session.execute("SELECT a, b, a.street FROM homes WHERE id = 1").one()
    for found in (row.a, row.b):
        phones = {key: (phone.kind, phone.number) for key, phone in found.phones.items()}
        expected = ("Main Street", {"x": ("mobile", 7), "y": (None, -1)})
        assert (found.street, phones) == expected, row
    assert row.a_street == "Main Street", row
    change = session.prepare("UPDATE homes SET a.street = ?, a.phones = ? WHERE id = ?")
    session.execute(change, ("Side Street", None, 1))
    row = session.execute("SELECT a FROM homes WHERE id = 1").one()
    assert (row.a.street, row.a.phones) == ("Side Street", None), row
    session.execute("ALTER TYPE phone ADD note text")
    row = session.execute("SELECT b FROM homes WHERE id = 1").one()
    assert row.b.phones["x"].note is None, row


@check
def indexes_are_described_and_used(session):
    session.execute("CREATE TABLE indexed (k int, c int, v text, m map<text, int>, PRIMARY KEY (k, c))")
    session.execute("CREATE INDEX by_v ON indexed (v)")
    session.execute("CREATE CUSTOM INDEX by_m ON indexed (ENTRIES(m)) USING 'sai'")
    table = session.cluster.metadata.keyspaces[session.keyspace].tables["indexed"]
    options = {name: index.index_options for name, index in table.indexes.items()}
    assert options["by_v"] == {"target": "v"}, options
    assert options["by_m"] == {"target": "entries(m)", "class_name": "sai"}, options
    insert = session.prepare("INSERT INTO indexed (k, c, v, m) VALUES (?, ?, ?, ?)")
    for c in range(50):
        session.execute(insert, (c % 3, c, "even" if c % 2 == 0 else "odd", {"x": c}))
    by_v = session.prepare("SELECT c FROM indexed WHERE v = ?")
    by_v.fetch_size = 4
    found = sorted(row.c for row in session.execute(by_v, ("even",)))
    assert found == list(range(0, 50, 2)), found
    by_m = session.prepare("SELECT c FROM indexed WHERE m[?] = ?")
    assert [row.c for row in session.execute(by_m, ("x", 7))] == [7]
    session.execute("DROP INDEX by_v")
    table = session.cluster.metadata.keyspaces[session.keyspace].tables["indexed"]
    assert list(table.indexes) == ["by_m"], table.indexes
    # The statement was prepared for the table with the index.
    assert raises(InvalidRequest, session.execute, by_v, ("even",))


@check
def views_are_described_and_read(session):
    session.execute("CREATE TABLE viewed (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO viewed (k, c, v) VALUES (?, ?, ?)")
    for c in range(50):
        session.execute(insert, (c % 3, c, "even" if c % 2 == 0 else "odd"))
    session.execute(
        "CREATE MATERIALIZED VIEW viewed_by_v AS SELECT * FROM viewed "
        "WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, c, k)"
    )
    keyspace = session.cluster.metadata.keyspaces[session.keyspace]
    view = keyspace.views["viewed_by_v"]
    assert view.base_table_name == "viewed" and view.include_all_columns, view
    key = view.partition_key + view.clustering_key
    assert [column.name for column in key] == ["v", "c", "k"], view
    assert list(keyspace.tables["viewed"].views) == ["viewed_by_v"]
    assert "viewed_by_v" not in keyspace.tables
    assert "CREATE MATERIALIZED VIEW" in view.as_cql_query()
    by_v = session.prepare("SELECT c FROM viewed_by_v WHERE v = ?")
    by_v.fetch_size = 4
    found = [row.c for row in session.execute(by_v, ("even",))]
    assert found == list(range(0, 50, 2)), found
    session.execute("UPDATE viewed SET v = 'even' WHERE k = 1 AND c = 1")
    assert [row.c for row in session.execute(by_v, ("even",))][:2] == [0, 1]
    session.execute("ALTER TABLE viewed ADD w int")
    session.cluster.refresh_materialized_view_metadata(session.keyspace, "viewed_by_v")
    view = session.cluster.metadata.keyspaces[session.keyspace].views["viewed_by_v"]
    assert "w" in view.columns, view.columns
    assert raises(InvalidRequest, session.execute, "DELETE FROM viewed_by_v WHERE v = 'even'")
    assert raises(InvalidRequest, session.execute, "DROP TABLE viewed")
    session.execute("DROP MATERIALIZED VIEW viewed_by_v")
    assert not session.cluster.metadata.keyspaces[session.keyspace].views


@check
def every_scalar_comes_back(session):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    values = {
        "ascii": ["", "plain"],
        "bigint": [-(2**63), 0, 2**63 - 1],
        "blob": [b"", b"\x00\xff" * 100],
        "boolean": [True, False],
        "date": [Date(0), Date("2026-01-02"), Date(-(2**31)), Date(2**31 - 1)],
        "decimal": [decimal.Decimal(text) for text in ("0", "-1.50", "1E+30", "1E-30", "9" * 60)],
        "double": [0.0, -1.5e300, 5e-324, math.inf, -math.inf],
        "float": [0.0, 1.5, -math.inf],
        "inet": ["127.0.0.1", "::1", "2001:db8::ff"],
        "int": [-(2**31), 2**31 - 1],
        "smallint": [-(2**15), 2**15 - 1],
        "text": ["", "ünï→😀", "it's; -- \"q\"\n", "x" * 100_000],
        "time": [Time(0), Time("23:59:59.999999999")],
        "timestamp": [moment, datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)],
        "timeuuid": [uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"), uuid.uuid1()],
        "tinyint": [-128, 127],
        "uuid": [uuid.uuid4(), uuid.UUID(int=0)],
        "varint": [0, -1, 127, 128, -(2**200), 2**200],
    }
    columns = ", ".join(f"c_{name} {name}" for name in values)
    session.execute(f"CREATE TABLE scalars (id int PRIMARY KEY, {columns})")
    for name, samples in values.items():
        insert = session.prepare(f"INSERT INTO scalars (id, c_{name}) VALUES (?, ?)")
        select = session.prepare(f"SELECT c_{name} AS v FROM scalars WHERE id = ?")
        for number, sample in enumerate(samples):
            session.execute(insert, (number, sample))
            back = session.execute(select, (number,)).one().v
            assert back == sample, f"{name}: {sample!r} came back as {back!r}"
    insert = session.prepare("INSERT INTO scalars (id, c_double) VALUES (?, ?)")
    session.execute(insert, (0, math.nan))
    assert math.isnan(session.execute("SELECT c_double FROM scalars WHERE id = 0").one()[0])


@check
def pages_are_one_snapshot(session):
    session.execute("CREATE TABLE wide (p int, c int, v text, PRIMARY KEY (p, c))")
    insert = session.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)")
    for start in range(0, 1_500, 100):
        batch = BatchStatement(BatchType.UNLOGGED)
        for number in range(start, start + 100):
            batch.add(insert, (number % 3, number, "x"))
        session.execute(batch)
    for query in ("SELECT c FROM wide", "SELECT c FROM wide WHERE p IN (0, 1, 2)"):
        result = session.execute(SimpleStatement(query, fetch_size=70))
        first = list(result.current_rows)
        assert len(first) == 70 and result.has_more_pages
        # Rows that come in the middle of the sequence are not of its snapshot.
        session.execute(insert, (2, 5_000, "late"))
        session.execute("DELETE FROM wide WHERE p = 2 AND c = 1499")
        numbers = sorted(row.c for row in result)
        assert numbers == list(range(1_500)), (query, len(numbers))
        session.execute("DELETE FROM wide WHERE p = 2 AND c = 5000")
        session.execute(insert, (2, 1_499, "x"))
    backwards = SimpleStatement("SELECT c FROM wide WHERE p = 1 ORDER BY c DESC", fetch_size=33)
    assert [row.c for row in session.execute(backwards)] == list(range(1_498, 0, -3))
    prepared = session.prepare("SELECT c FROM wide WHERE p = ? AND c >= ? LIMIT 250")
    prepared.fetch_size = 99
    assert [row.c for row in session.execute(prepared, (0, 300))] == list(range(300, 1050, 3))
    assert session.execute("SELECT count(*) FROM wide").one()[0] == 1_500


@check
def a_batch_is_all_or_nothing(session):
    session.execute("CREATE TABLE pairs (id int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO pairs (id, v) VALUES (?, ?)")
    batch = BatchStatement(consistency_level=ConsistencyLevel.QUORUM)
    batch.add(insert, (1, 10))
    batch.add("INSERT INTO pairs (id, v) VALUES (%s, %s)", (2, 20))
    batch.add(SimpleStatement("UPDATE pairs SET v = 30 WHERE id = 3"))
    session.execute(batch)
    rows = {row.id: row.v for row in session.execute("SELECT id, v FROM pairs")}
    assert rows == {1: 10, 2: 20, 3: 30}, rows
    broken = BatchStatement()
    broken.add(insert, (4, 40))
    broken.add("INSERT INTO pairs (id, nothing) VALUES (5, 50)")
    raises(InvalidRequest, session.execute, broken)
    assert session.execute("SELECT v FROM pairs WHERE id = 4").one() is None


@check
def conditions_say_whether_they_held(session):
    session.execute("CREATE TABLE once (id int PRIMARY KEY, v int)")
    create = session.prepare("INSERT INTO once (id, v) VALUES (?, ?) IF NOT EXISTS")
    assert session.execute(create, (1, 10)).was_applied
    again = session.execute(create, (1, 11))
    assert not again.was_applied
    assert again.one().v == 10
    swap = session.prepare("UPDATE once SET v = ? WHERE id = ? IF v = ?")
    assert session.execute(swap, (20, 1, 10)).was_applied
    assert not session.execute(swap, (30, 1, 10)).was_applied
    assert session.execute("SELECT v FROM once WHERE id = 1").one().v == 20


TRANSFER = """
BEGIN TRANSACTION
  LET src = (SELECT balance FROM accounts WHERE id = {source});
  LET dst = (SELECT balance FROM accounts WHERE id = {target});
  IF src.balance >= {amount} AND dst IS NOT NULL THEN
    UPDATE accounts SET balance = balance - {amount} WHERE id = {source};
    UPDATE accounts SET balance = balance + {amount} WHERE id = {target};
  END IF
{end} TRANSACTION
"""


@check
def transactions_run_as_text_and_prepared(session):
    session.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)")
    for account in (1, 2):
        session.execute(f"INSERT INTO accounts (id, balance) VALUES ({account}, 100)")

    def balances():
        rows = session.execute("SELECT id, balance FROM accounts WHERE id IN (1, 2)")
        return {row.id: row.balance for row in rows}

    session.execute(TRANSFER.format(source=1, target=2, amount=30, end="COMMIT"))
    assert balances() == {1: 70, 2: 130}, balances()
    names = dict(source=":source", target=":target", amount=":amount", end="APPLY")
    prepared = session.prepare(TRANSFER.format(**names))
    result = session.execute(prepared, {"source": 1, "target": 2, "amount": 70})
    assert result.one()[0] is True
    result = session.execute(prepared, {"source": 1, "target": 2, "amount": 1})
    assert result.one()[0] is False
    assert balances() == {1: 0, 2: 200}, balances()
    reading = """
        BEGIN TRANSACTION
          LET a = (SELECT balance FROM accounts WHERE id = 1);
          LET b = (SELECT balance FROM accounts WHERE id = 2);
          SELECT a.balance, b.balance;
        COMMIT TRANSACTION"""
    assert tuple(session.execute(reading).one()) == (0, 200)


@check
def increments_of_many_threads_all_count(session):
    session.execute("CREATE TABLE hits (id int PRIMARY KEY, n bigint)")
    session.execute("INSERT INTO hits (id, n) VALUES (1, 0)")
    add = session.prepare(
        "BEGIN TRANSACTION UPDATE hits SET n = n + ? WHERE id = ?; COMMIT TRANSACTION"
    )
    futures = [session.execute_async(add, (1, 1)) for _ in range(WRITERS)]
    for future in futures:
        future.result()
    assert session.execute("SELECT n FROM hits WHERE id = 1").one().n == WRITERS


@check
def counters_count_every_addition(session):
    session.execute("CREATE TABLE votes (poll int, option text, n counter, PRIMARY KEY (poll, option))")
    add = session.prepare("UPDATE votes SET n = n + ? WHERE poll = ? AND option = ?")
    futures = [session.execute_async(add, (2, 1, "yes")) for _ in range(WRITERS)]
    for future in futures:
        future.result()
    batch = BatchStatement(BatchType.COUNTER)
    batch.add(add, (-1, 1, "yes"))
    batch.add(add, (5, 1, "no"))
    session.execute(batch)
    found = {row.option: row.n for row in session.execute("SELECT option, n FROM votes")}
    assert found == {"yes": 2 * WRITERS - 1, "no": 5}, found
    raises(InvalidRequest, session.execute, "INSERT INTO votes (poll, option, n) VALUES (1, 'x', 1)")
    session.cluster.refresh_schema_metadata()
    table = session.cluster.metadata.keyspaces[session.keyspace].tables["votes"]
    assert table.columns["n"].cql_type == "counter", table.columns["n"].cql_type


@check
def the_driver_routes_by_the_servers_tokens(session):
    keys = {
        "one_int": ("a int", [(0,), (-1,), (2**31 - 1,)]),
        "one_text": ("a text", [("",), ("ünï",), ("x" * 5_000,)]),
        "one_blob": ("a blob", [(b"\x80\xff" * 9,), (bytes(range(256)),)]),
        "two": ("a text, b bigint", [("", 0), ("x", -1)]),
        "three": ("a uuid, b text, c boolean", [(uuid.uuid4(), "é", True)]),
    }
    for table, (columns, samples) in keys.items():
        names = [column.split()[0] for column in columns.split(", ")]
        session.execute(
            f"CREATE TABLE route_{table} ({columns}, v int, PRIMARY KEY (({', '.join(names)})))"
        )
        markers = ", ".join("?" for _ in names)
        insert = session.prepare(
            f"INSERT INTO route_{table} (v, {', '.join(names)}) VALUES (?, {markers})"
        )
        where = " AND ".join(f"{name} = ?" for name in names)
        select = session.prepare(
            f"SELECT token({', '.join(names)}) AS t FROM route_{table} WHERE {where}"
        )
        for sample in samples:
            if sample == ("",):
                # An empty partition key is refused, as in Cassandra.
                raises(InvalidRequest, session.execute, insert, (1, *sample))
                continue
            bound = insert.bind((1, *sample))
            assert bound.routing_key is not None, table
            session.execute(bound)
            token = session.execute(select, sample).one().t
            expected = Murmur3Token.from_key(bound.routing_key).value
            assert token == expected, (table, sample, token, expected)


@check
def the_schema_is_known_and_follows_changes(session):
    metadata = session.cluster.metadata
    session.execute(
        "CREATE TABLE shapes (a int, b text, c timeuuid, s text static, d double,"
        " PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)"
    )
    table = metadata.keyspaces[session.keyspace].tables["shapes"]
    assert [column.name for column in table.partition_key] == ["a", "b"]
    assert [column.name for column in table.clustering_key] == ["c"]
    assert table.clustering_key[0].is_reversed and table.columns["s"].is_static
    assert table.columns["d"].cql_type == "double"
    session.execute("ALTER TABLE shapes ADD e inet")
    table = metadata.keyspaces[session.keyspace].tables["shapes"]
    assert table.columns["e"].cql_type == "inet", list(table.columns)
    session.execute("DROP TABLE shapes")
    assert "shapes" not in metadata.keyspaces[session.keyspace].tables


@check
def errors_are_of_their_classes(session):
    error = raises(SyntaxException, session.execute, "SELECT a WHERE b = 1")
    assert "FROM" in str(error), error
    raises(InvalidRequest, session.execute, "SELECT * FROM there_is_none")
    raises(InvalidRequest, session.execute, "USE there_is_none")
    session.execute("CREATE TABLE taken (id int PRIMARY KEY)")
    error = raises(AlreadyExists, session.execute, "CREATE TABLE taken (id int PRIMARY KEY)")
    assert (error.keyspace, error.table) == (session.keyspace, "taken")
    session.execute("CREATE TABLE IF NOT EXISTS taken (id int PRIMARY KEY)")
    error = raises(InvalidRequest, session.execute, "CREATE TRIGGER t ON taken USING 'x'")
    assert "not supported yet" in str(error), error
    error = raises(InvalidRequest, session.execute, "INSERT INTO taken (id) VALUES ('text')")
    assert "int" in str(error), error
    insert = session.prepare("INSERT INTO taken (id) VALUES (?)")
    bound = insert.bind((1,))
    bound.values[0] = b"\x00\x01\x02"
    raises(InvalidRequest, session.execute, bound)


@check
def a_table_that_changes_under_a_prepared_statement_is_noticed(session):
    session.execute("CREATE TABLE grows (id int PRIMARY KEY, a int)")
    select = session.prepare("SELECT * FROM grows WHERE id = ?")
    session.execute("INSERT INTO grows (id, a) VALUES (1, 2)")
    assert tuple(session.execute(select, (1,)).one()) == (1, 2)
    session.execute("ALTER TABLE grows ADD b int")
    session.execute("UPDATE grows SET b = 3 WHERE id = 1")
    row = session.execute(select, (1,)).one()
    # The server says "prepare again", and the driver does, unseen.
    assert (row.id, row.a, row.b) == (1, 2, 3), row


def main(port):
    for version in (4, 5):
        policy = TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc="datacenter1"))
        profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=30)
        cluster = Cluster(
            ["127.0.0.1"],
            port=port,
            protocol_version=version,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        session = cluster.connect()
        session.execute(
            f"CREATE KEYSPACE v{version} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.set_keyspace(f"v{version}")
        failures = 0
        for function in CHECKS:
            try:
                function(session)
            except Exception as error:
                traceback.print_exc()
                print(f"v{version}: {function.__name__}: {error!r}", file=sys.stderr)
                failures += 1
        session.execute(f"DROP KEYSPACE v{version}")
        cluster.shutdown()
        if failures:
            sys.exit(f"v{version}: {failures} of {len(CHECKS)} checks failed")


if __name__ == "__main__":
    main(int(sys.argv[1]))
