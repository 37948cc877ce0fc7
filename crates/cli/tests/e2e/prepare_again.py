"""Statements that the server evicted are prepared again, unseen: prepare_again.py PORT"""

import sys

from cassandra.cluster import Cluster

STATEMENTS = 30


def main(port):
    for version in (4, 5):
        cluster = Cluster(["127.0.0.1"], port=port, protocol_version=version)
        session = cluster.connect()
        keyspace = f"again{version}"
        session.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.set_keyspace(keyspace)
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)")
        insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
        selects = [
            session.prepare(f"SELECT v, k AS n{n} FROM t WHERE k = ?") for n in range(STATEMENTS)
        ]
        for turn in range(3):
            session.execute(insert, (1, turn))
            for select in selects:
                assert session.execute(select, (1,)).one() == (turn, 1)
        cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
