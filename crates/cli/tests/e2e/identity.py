"""Logs in by a certificate, without a password: identity.py PORT DIR FIRST_SUPERUSER"""

import os
import ssl
import sys

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable


def connect(port, directory, auth=None):
    def path(name):
        return os.path.join(directory, name)

    context = ssl.create_default_context(cafile=path("ca.crt"))
    context.load_cert_chain(path("client.crt"), path("client.key"))
    cluster = Cluster(["127.0.0.1"], port=port, ssl_context=context, auth_provider=auth)
    return cluster, cluster.connect()


def is_refused(port, directory):
    try:
        cluster, _ = connect(port, directory)
    except NoHostAvailable as error:
        assert "AuthenticationFailed" in str(error), error
        return True
    cluster.shutdown()
    return False


def main(port, directory, first):
    with open(first, encoding="utf-8") as file:
        name, password = file.read().strip().split(":", 1)
    admin, session = connect(port, directory, PlainTextAuthProvider(name, password))
    assert is_refused(port, directory), "no role has the identity yet"
    session.execute("CREATE ROLE orders WITH LOGIN = true")
    session.execute("ADD IDENTITY 'CN=Carnet driver' TO ROLE 'orders'")

    cluster, orders = connect(port, directory)
    mine = orders.execute("SELECT username FROM system_views.clients").all()
    assert mine and all(row.username == "orders" for row in mine), mine
    listed = session.execute("SELECT role FROM system_auth.identity_to_role").all()
    assert [row.role for row in listed] == ["orders"], listed
    cluster.shutdown()

    session.execute("DROP IDENTITY 'CN=Carnet driver'")
    assert is_refused(port, directory), "the identity was dropped"
    admin.shutdown()


main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
