"""What an application sees of two servers of one database: two_servers.py HOST:PORT HOST:PORT

It is given the first server as its contact point. It says "both" once it knows both, reads a line
when the second one was killed, and ends when it has let go of that.
"""

import sys
import time

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.connection import DefaultEndPoint
from cassandra.policies import RoundRobinPolicy, WhiteListRoundRobinPolicy


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


FIRST, SECOND = map(address, sys.argv[1:3])


def connect(server, policy):
    host, port = server
    profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=60)
    return Cluster(
        [DefaultEndPoint(host, port)],
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_event_refresh_window=1,
        topology_event_refresh_window=1,
        status_event_refresh_window=1,
        connect_timeout=30,
        control_connection_timeout=30,
    )


def eventually(what, is_so):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError(f"never happened: {what}")


def known(cluster):
    return {(host.address, host.endpoint.port) for host in cluster.metadata.all_hosts()}


cluster = connect(FIRST, RoundRobinPolicy())
session = cluster.connect()
eventually("both servers are known", lambda: known(cluster) == {FIRST, SECOND})
eventually("both are up", lambda: all(host.is_up for host in cluster.metadata.all_hosts()))
ring = cluster.metadata.token_map.ring
assert len(ring) == 32 and ring == sorted(ring), ring
owners = {host.address for host in cluster.metadata.token_map.token_to_host_owner.values()}
assert owners == {FIRST[0], SECOND[0]}, owners

# A change that goes through the second server is heard of at the first.
aside = connect(SECOND, WhiteListRoundRobinPolicy([SECOND[0]]))
other = aside.connect()
other.execute(
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
other.execute("CREATE TABLE shop.items (id int PRIMARY KEY, name text)")
eventually(
    "the table is heard of",
    lambda: "shop" in cluster.metadata.keyspaces
    and "items" in cluster.metadata.keyspaces["shop"].tables,
)
other.execute("ALTER TABLE shop.items ADD price int")
eventually(
    "the column is heard of",
    lambda: "price" in cluster.metadata.keyspaces["shop"].tables["items"].columns,
)

# A service level that is changed through the second server acts on open connections of the first.
near = connect(FIRST, WhiteListRoundRobinPolicy([FIRST[0]]))
one = near.connect()
other.execute("CREATE SERVICE LEVEL reports WITH shares = 77")
eventually("the level is known", lambda: any("reports" in row for row in one.execute("LIST ALL SERVICE LEVELS")))


def is_late():
    try:
        one.execute("SELECT * FROM shop.items WHERE id = 1")
    except Exception as error:
        text = str(error).lower()
        assert "timed out" in text or "overloaded" in text, error
        return True
    return False


assert not is_late()
other.execute("ALTER SERVICE LEVEL default WITH timeout = 1ms")
eventually("reads of the first server end at the timeout", is_late)
other.execute("ALTER SERVICE LEVEL default WITH timeout = null")
eventually("reads of the first server are answered again", lambda: not is_late())
near.shutdown()
aside.shutdown()

# Both serve: statements take turns.
insert = session.prepare("INSERT INTO shop.items (id, name) VALUES (?, ?)")
served = set()
for number in range(20):
    result = session.execute_async(insert, (number, "x"))
    result.result()
    served.add(result.coordinator_host.address)
assert served == {FIRST[0], SECOND[0]}, served

# So do the statements of one transaction, which one of the servers holds.
begin = session.execute_async("START DETACHED TRANSACTION")
transaction = begin.result().one().transaction
inside = session.prepare("INSERT INTO shop.items (id, name) VALUES (?, ?) USING TRANSACTION ?")
served = set()
for number in range(100, 110):
    result = session.execute_async(inside, (number, "x", transaction))
    result.result()
    served.add(result.coordinator_host.address)
assert served == {FIRST[0], SECOND[0]}, served
found = session.prepare("SELECT id FROM shop.items USING TRANSACTION ?")
found.fetch_size = 7
assert len(set(session.execute(found, (transaction,)))) == 30
session.execute(session.prepare("ROLLBACK TRANSACTION ?"), (transaction,))
assert session.execute("SELECT outcome(%s)", (transaction,)).one().outcome == "aborted"

print("both", flush=True)
sys.stdin.readline()
eventually("the dead server is let go", lambda: known(cluster) == {FIRST})
for number in range(20, 40):
    session.execute(insert, (number, "x"))
(count,) = session.execute("SELECT count(*) FROM shop.items").one()
assert count == 40, count
cluster.shutdown()
