"""Logs in with right and wrong passwords: auth.py PORT"""

import sys

from cassandra import AuthenticationFailed
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

port = int(sys.argv[1])


def connect(version, auth):
    cluster = Cluster(["127.0.0.1"], port=port, protocol_version=version, auth_provider=auth)
    try:
        return cluster.connect().execute("SELECT cluster_name FROM system.local").one()
    finally:
        cluster.shutdown()


def refused(version, auth):
    try:
        connect(version, auth)
    except NoHostAvailable as error:
        causes = list(error.errors.values())
        assert causes and all(isinstance(cause, AuthenticationFailed) for cause in causes), causes
        return
    raise AssertionError("a client was let in that should not be")


for version in (4, 5):
    assert connect(version, PlainTextAuthProvider("ann", "correct horse"))
    refused(version, PlainTextAuthProvider("ann", "wrong"))
    refused(version, PlainTextAuthProvider("ann", ""))
    refused(version, PlainTextAuthProvider("bob", "correct horse"))
    refused(version, None)
