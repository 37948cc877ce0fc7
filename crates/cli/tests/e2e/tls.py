"""Logs in over TLS: tls.py PORT DIR, with DIR as `carnet config tls-init` makes it"""

import pathlib
import ssl
import subprocess
import sys
import tempfile

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

PORT = int(sys.argv[1])
FILES = pathlib.Path(sys.argv[2])
CQLSH = pathlib.Path(sys.executable).with_name("cqlsh")


def context(version, shows_certificate=True, trusts="ca.crt"):
    made = ssl.create_default_context(cafile=FILES / trusts)
    made.minimum_version = made.maximum_version = version
    if shows_certificate:
        made.load_cert_chain(FILES / "client.crt", FILES / "client.key")
    return made


def connect(ssl_context, protocol_version=5):
    # The driver compares the certificate with the address of each node.
    cluster = Cluster(
        ["127.0.0.1"],
        port=PORT,
        protocol_version=protocol_version,
        auth_provider=PlainTextAuthProvider("ann", "correct horse"),
        ssl_context=ssl_context,
    )
    try:
        return cluster, cluster.connect()
    except NoHostAvailable:
        cluster.shutdown()
        raise


def refused(ssl_context):
    try:
        cluster, _ = connect(ssl_context)
    except NoHostAvailable:
        return
    cluster.shutdown()
    raise AssertionError("a client was let in that should not be")


def statements_run():
    versions = [(ssl.TLSVersion.TLSv1_2, 4), (ssl.TLSVersion.TLSv1_3, 5)]
    for version, protocol_version in versions:
        cluster, session = connect(context(version), protocol_version)
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v blob)")
        insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
        insert.consistency_level = ConsistencyLevel.QUORUM
        # Longer than a record of TLS, and more at once than a socket takes.
        value = bytes(range(256)) * 1000
        for future in [session.execute_async(insert, (k, value)) for k in range(20)]:
            future.result()
        rows = list(session.execute("SELECT k, v FROM ks.t"))
        assert sorted(row.k for row in rows) == list(range(20))
        assert all(row.v == value for row in rows)
        cluster.shutdown()


def strangers_are_refused():
    refused(None)
    refused(context(ssl.TLSVersion.TLSv1_3, shows_certificate=False))
    refused(context(ssl.TLSVersion.TLSv1_2, shows_certificate=False))
    refused(context(ssl.TLSVersion.TLSv1_3, trusts="client.crt"))


def cqlsh_connects():
    with tempfile.NamedTemporaryFile("w", suffix="cqlshrc") as settings:
        settings.write(
            f"[ssl]\ncertfile = {FILES}/ca.crt\nvalidate = true\n"
            f"userkey = {FILES}/client.key\nusercert = {FILES}/client.crt\n"
        )
        settings.flush()
        command = [CQLSH, "--no-color", "--ssl", f"--cqlshrc={settings.name}"]
        command += ["-u", "ann", "-p", "correct horse", "127.0.0.1", str(PORT)]
        result = subprocess.run(
            [*command, "-e", "SELECT count(*) FROM ks.t"], capture_output=True, text=True, timeout=120
        )
        said = result.stdout + result.stderr
        assert result.returncode == 0 and "20" in said, said
        command.remove("--ssl")
        result = subprocess.run(
            [*command, "-e", "SELECT count(*) FROM ks.t"], capture_output=True, text=True, timeout=120
        )
        assert result.returncode != 0, result.stdout


statements_run()
strangers_are_refused()
cqlsh_connects()
