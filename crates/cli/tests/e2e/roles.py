"""Roles log in, are checked, and lose what is revoked: with the Python driver.

Arguments: the port, and the file with the first superuser."""

import sys

from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable


def connect(user, password):
    cluster = Cluster(
        ["127.0.0.1"], port=int(sys.argv[1]), auth_provider=PlainTextAuthProvider(user, password)
    )
    return cluster.connect()


def refused(statement, *values):
    try:
        ann.execute(statement, *values)
    except Unauthorized as error:
        return str(error)
    raise AssertionError(f"{statement} is not refused")


def cannot_log_in(user, password):
    try:
        connect(user, password)
    except NoHostAvailable as error:
        return str(error)
    raise AssertionError(f"{user} has logged in")


with open(sys.argv[2]) as file:
    name, password = file.read().strip().split(":")
admin = connect(name, password)
for statement in [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    "INSERT INTO ks.t (k, v) VALUES (1, 2)",
    "CREATE ROLE readers",
    "GRANT SELECT ON ks.t TO readers",
    "CREATE ROLE ann WITH PASSWORD = 'correct horse' AND LOGIN = true",
    "CREATE ROLE bob WITH PASSWORD = 'battery staple'",
]:
    admin.execute(statement)
assert "not permitted to log in" in cannot_log_in("bob", "battery staple")
for user, wrong in [("ann", "wrong"), ("bob", "wrong"), ("eve", "correct horse")]:
    assert "the user or the password is wrong" in cannot_log_in(user, wrong), user

ann = connect("ann", "correct horse")
select = ann.prepare("SELECT v FROM ks.t WHERE k = ?")
assert "role ann has no SELECT permission on <table ks.t>" in refused(select, [1])
admin.execute("GRANT readers TO ann")
assert ann.execute(select, [1]).one().v == 2
assert "MODIFY" in refused("INSERT INTO ks.t (k) VALUES (2)")
admin.execute("REVOKE readers FROM ann")
refused(select, [1])

rows = list(admin.execute("LIST ROLES"))
assert [row.role for row in rows] == [name, "ann", "bob", "readers"], rows
assert [row.role for row in ann.execute("LIST ROLES")] == ["ann"]
ann.execute("ALTER ROLE ann WITH PASSWORD = 'new'")
connect("ann", "new")
admin.execute("DROP ROLE ann")
assert "was dropped" in refused("SELECT key FROM system.local")
