"""A bulk load with the stock Python driver and its defaults: bulk.py PORT ROWS

All requests are in flight at once.
"""

import sys

from cassandra.cluster import Cluster

port, rows = int(sys.argv[1]), int(sys.argv[2])
cluster = Cluster(["127.0.0.1"], port=port)
session = cluster.connect()
session.execute(
    "CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
session.execute("CREATE TABLE bulk.t (k int PRIMARY KEY, v text)")
insert = session.prepare("INSERT INTO bulk.t (k, v) VALUES (?, ?)")
futures = [session.execute_async(insert, (k, "x" * 100)) for k in range(rows)]
for future in futures:
    future.result()
count = session.execute("SELECT count(*) FROM bulk.t").one()[0]
assert count == rows, count
cluster.shutdown()
