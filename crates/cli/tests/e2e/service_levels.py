"""Uses service levels as an operator and two applications would: service_levels.py PORT

The users are ann, who has no level of her own, and bob, to whom one is attached.
"""

import sys

from cassandra import InvalidRequest, OperationTimedOut, ReadTimeout
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy
from cassandra.query import SimpleStatement
from cassandra.util import Duration

port = int(sys.argv[1])


def connect(user, version):
    profile = ExecutionProfile(retry_policy=FallthroughRetryPolicy(), request_timeout=60)
    auth = PlainTextAuthProvider(user, "correct horse")
    return Cluster(
        ["127.0.0.1"],
        port=port,
        protocol_version=version,
        auth_provider=auth,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )


def times_out(run):
    try:
        run()
    except ReadTimeout:
        return True
    except OperationTimedOut as error:
        raise AssertionError("the driver gave up, not the server") from error
    return False


def refused(session, statement, why):
    try:
        session.execute(statement)
    except InvalidRequest as error:
        assert why in str(error), error
        return
    raise AssertionError(f"{statement} was not refused")


for version in (4, 5):
    clusters = {user: connect(user, version) for user in ("ann", "bob")}
    ann, bob = (clusters[user].connect() for user in ("ann", "bob"))
    ann.execute(
        f"CREATE KEYSPACE ks{version} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for session in (ann, bob):
        session.set_keyspace(f"ks{version}")
    ann.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
    insert = ann.prepare("INSERT INTO t (k, v) VALUES (?, ?) USING TIMEOUT ?")
    for key in range(20):
        ann.execute(insert, (key, "x" * 10_000, Duration(0, 0, 5_000_000_000)))

    # A level acts on the connections that are open.
    ann.execute("CREATE SERVICE LEVEL reports WITH timeout = 30s AND shares = 100")
    ann.execute("ATTACH SERVICE LEVEL reports TO bob")
    listed = ann.execute("LIST EFFECTIVE SERVICE LEVEL OF bob").all()
    options = {row.service_level_option: row.value for row in listed}
    assert options["timeout"] == "30s" and options["shares"] == "100", options
    names = [row.service_level for row in ann.execute("LIST ALL SERVICE LEVELS")]
    assert names == ["default", "driver", "reports"], names

    count = "SELECT count(*) FROM t"
    assert bob.execute(count).one()[0] == 20
    ann.execute("ALTER SERVICE LEVEL reports WITH timeout = 0s")
    assert times_out(lambda: bob.execute(count))
    assert not times_out(lambda: ann.execute(count))
    # A statement's own timeout beats that of its level, and a level can be named.
    assert not times_out(lambda: bob.execute(f"{count} USING TIMEOUT 1m"))
    assert times_out(lambda: ann.execute(f"{count} USING TIMEOUT 0s"))
    assert times_out(lambda: ann.execute(f"{count} USING SERVICE LEVEL reports"))
    prepared = ann.prepare(f"{count} USING TIMEOUT ? AND SERVICE LEVEL reports")
    assert times_out(lambda: ann.execute(prepared, (Duration(0, 0, 0),)))
    assert not times_out(lambda: ann.execute(prepared, (Duration(0, 0, 60_000_000_000),)))

    # Limits of memory: a page ends there, a result without pages fails.
    ann.execute(
        "ALTER SERVICE LEVEL reports WITH timeout = null AND memory_hard = 100000 "
        "AND memory_soft = 50000"
    )
    whole = SimpleStatement("SELECT v FROM t", fetch_size=None)
    refused(bob, whole, "memory_hard of the service level reports")
    paged = bob.execute(SimpleStatement("SELECT v FROM t", fetch_size=100))
    assert paged.has_more_pages and 5 <= len(paged.current_rows) < 20, len(paged.current_rows)
    assert any("server's memory" in warning for warning in paged.response_future.warnings)
    assert len(list(paged)) == 20
    assert len(ann.execute(whole).all()) == 20

    refused(ann, "ATTACH SERVICE LEVEL reports TO carl", "carl")
    refused(ann, "SELECT v FROM t USING SERVICE LEVEL absent", "absent")
    ann.execute("DROP SERVICE LEVEL reports")
    assert not times_out(lambda: bob.execute(count))
    assert bob.execute("LIST ALL ATTACHED SERVICE LEVELS").all() == []
    for cluster in clusters.values():
        cluster.shutdown()
