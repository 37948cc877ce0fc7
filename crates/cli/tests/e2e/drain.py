"""Has many writes under way when the server is told to end: drain.py PORT SERVER_PROCESS

Prints the ids of the rows whose writes were acknowledged. Every request that the server has begun
is answered; those that come later fail clearly.
"""

import os
import signal
import sys
import threading

from cassandra.cluster import Cluster
from cassandra.policies import FallthroughRetryPolicy
from cassandra.cluster import ExecutionProfile, EXEC_PROFILE_DEFAULT

port, server = int(sys.argv[1]), int(sys.argv[2])
profile = ExecutionProfile(retry_policy=FallthroughRetryPolicy(), request_timeout=20)
cluster = Cluster(
    ["127.0.0.1"], port=port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
)
session = cluster.connect()
session.execute(
    "CREATE KEYSPACE drain WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
session.execute("CREATE TABLE drain.t (id int PRIMARY KEY, v text)")
insert = session.prepare("INSERT INTO drain.t (id, v) VALUES (?, ?)")

acknowledged = []
begun = threading.Event()


def write(client):
    for number in range(1_000_000):
        try:
            session.execute(insert, (client * 1_000_000 + number, "x" * 100))
        except Exception:
            return
        acknowledged.append(client * 1_000_000 + number)
        if len(acknowledged) > 200:
            begun.set()


threads = [threading.Thread(target=write, args=(client,), daemon=True) for client in range(8)]
for thread in threads:
    thread.start()
assert begun.wait(20), "the server answers too slowly"
os.kill(server, signal.SIGTERM)
for thread in threads:
    thread.join(20)
    assert not thread.is_alive(), "a request was never answered, nor its connection closed"
print(*acknowledged)
cluster.shutdown()
