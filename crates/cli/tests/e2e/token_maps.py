"""The Python driver's token map: token_maps.py PORT KEYSPACE...

Every keyspace, those that it creates included, has one replica for each token.
"""

import sys

from cassandra.cluster import Cluster


def main(port, keyspaces):
    cluster = Cluster(["127.0.0.1"], port=port, protocol_version=5)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE python_s WITH replication = {'class': 'SimpleStrategy'}")
    session.execute(
        "CREATE KEYSPACE python_n WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"
    )
    cluster.refresh_schema_metadata()
    for keyspace in [*keyspaces, "python_s", "python_n"]:
        for key in range(100):
            replicas = cluster.metadata.get_replicas(keyspace, key.to_bytes(4, "big"))
            assert len(replicas) == 1, (keyspace, key, replicas)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
