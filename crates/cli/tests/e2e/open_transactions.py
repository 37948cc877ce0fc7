"""Transactions that stay open, with the stock Python driver: open_transactions.py PORT

Every check runs on both versions of the native protocol.
"""

import sys
import threading
import time
import traceback
import uuid

from cassandra import InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.query import BatchStatement, SimpleStatement

sys.path.insert(0, sys.argv[2])
from retry import ended_without_effect, run_transaction  # noqa: E402 - the example, in the folder that is named

PORT = int(sys.argv[1])
CHECKS = []
RUN_AGAIN = "aborted, run the transaction again: "


def check(function):
    CHECKS.append(function)
    return function


def raises(error, function, *arguments):
    try:
        function(*arguments)
    except error as caught:
        return str(caught)
    raise AssertionError(f"{error.__name__} expected")


def connect(version):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=30)
    cluster = Cluster(
        ["127.0.0.1"],
        port=PORT,
        protocol_version=version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )
    return cluster.connect("open")


def start(session, options=""):
    row = session.execute(f"START DETACHED TRANSACTION {options}").one()
    assert isinstance(row.transaction, uuid.UUID), row
    return row.transaction


def balance(session, account):
    return session.execute("SELECT balance FROM accounts WHERE id = %s", (account,)).one().balance


@check
def prepared_statements_join_from_two_clients(session, other):
    update = "UPDATE accounts USING TRANSACTION ? SET balance = balance - ? WHERE id = ?"
    transaction = start(session)
    session.execute(session.prepare(update), (transaction, 1, 1))
    other.execute(other.prepare(update), (transaction, -1, 2))
    read = other.prepare("SELECT balance FROM accounts WHERE id = ? USING TRANSACTION ?")
    assert other.execute(read, (1, transaction)).one().balance == 99
    assert balance(session, 1) == 100
    insert = session.prepare(
        "INSERT INTO accounts (id, balance) VALUES (?, ?) IF NOT EXISTS USING TTL ? AND TRANSACTION ?"
    )
    assert not session.execute(insert, (1, 0, 60, transaction)).was_applied
    assert session.execute(insert, (3, 0, 60, transaction)).was_applied
    batch = BatchStatement()
    blind = session.prepare("DELETE FROM accounts USING TRANSACTION ? WHERE id = ?")
    batch.add(blind, (transaction, 3))
    batch.add(blind, (transaction, 4))
    session.execute(batch)
    commit = other.prepare("COMMIT TRANSACTION ?")
    other.execute(commit, (transaction,))
    assert (balance(session, 1), balance(session, 2)) == (99, 101)
    assert session.execute("SELECT * FROM accounts WHERE id = 3").one() is None
    outcome = session.execute(session.prepare("SELECT outcome(?)"), (transaction,)).one()
    assert outcome.outcome == "committed" and outcome.committed_at > 0, outcome
    session.execute(commit, (transaction,))


@check
def conflict_is_not_retried_by_the_driver(session, other):
    transaction = start(session)
    session.execute(f"SELECT * FROM accounts WHERE id = 1 USING TRANSACTION {transaction}")
    other.execute("UPDATE accounts SET balance = 5 WHERE id = 1")
    session.execute(
        f"UPDATE accounts USING TRANSACTION {transaction} SET balance = 5 WHERE id = 2"
    )
    commit = session.execute_async(f"COMMIT TRANSACTION {transaction}")
    try:
        commit.result()
        raise AssertionError("a transaction that lost a race committed")
    except InvalidRequest as error:
        assert ended_without_effect(error), error
    assert commit.custom_payload["carnet.error"] == b"aborted", commit.custom_payload
    try:
        session.execute("SELECT nothing FROM accounts")
    except InvalidRequest as error:
        assert not ended_without_effect(error), error
    assert balance(session, 2) == 100


@check
def other_statements_of_a_shared_connection_stay_outside(session, other):
    transaction = start(session)
    session.execute("UPDATE accounts SET balance = 7 WHERE id = 2")
    session.execute(f"ROLLBACK TRANSACTION {transaction}")
    assert balance(session, 2) == 7
    # A transaction of the connection refuses what an application sends, and does not swallow it.
    prepared = session.prepare("UPDATE accounts SET balance = 8 WHERE id = 2")
    session.execute("START TRANSACTION")
    error = raises(InvalidRequest, session.execute, prepared)
    assert "START DETACHED TRANSACTION" in error, error
    session.execute("UPDATE accounts SET balance = 9 WHERE id = 2")
    session.execute("ROLLBACK")
    session.execute(prepared)
    assert balance(session, 2) == 8


@check
def pages_read_the_transactions_own_rows(session, other):
    transaction = start(session)
    insert = session.prepare("INSERT INTO lines (k, c) VALUES (0, ?) USING TRANSACTION ?")
    for c in range(25):
        session.execute(insert, (c, transaction))
    read = session.prepare("SELECT c FROM lines WHERE k = 0 USING TRANSACTION ?")
    read.fetch_size = 10
    assert [row.c for row in session.execute(read, (transaction,))] == list(range(25))
    session.execute(f"ROLLBACK TRANSACTION {transaction}")
    assert session.execute("SELECT count(*) FROM lines").one().count == 0


@check
def transaction_ends_with_its_connection(session, other):
    third = connect(session.cluster.protocol_version)
    bound = third.execute("START TRANSACTION").one().transaction
    third.execute("UPDATE accounts SET balance = 1 WHERE id = 1")
    detached = start(third)
    third.cluster.shutdown()
    deadline = time.monotonic() + 20
    while session.execute(f"SELECT outcome({bound})").one().outcome == "open":
        assert time.monotonic() < deadline, "it outlives its connection"
        time.sleep(0.01)
    error = raises(InvalidRequest, session.execute, f"COMMIT TRANSACTION {bound}")
    assert RUN_AGAIN in error and "with its connection" in error, error
    session.execute(f"COMMIT TRANSACTION {detached}")


@check
def killed_transactions_are_listed_before(session, other):
    transaction = start(session, "ISOLATION LEVEL SNAPSHOT")
    session.execute(f"SELECT * FROM lines USING TRANSACTION {transaction}")
    rows = other.execute("SELECT * FROM system_views.transactions").all()
    [row] = [row for row in rows if row.id == transaction]
    assert row.isolation == "snapshot" and "lines" in row.statement, row
    assert row.client.startswith("127.0.0.1:") and row.idle_seconds >= 0, row
    other.execute(f"KILL TRANSACTION {transaction}")
    error = raises(
        InvalidRequest, session.execute, f"SELECT * FROM lines USING TRANSACTION {transaction}"
    )
    assert "KILL TRANSACTION" in error, error


@check
def block_raises_and_shows_applied(session, other):
    block = """BEGIN TRANSACTION
        LET a = (SELECT balance FROM accounts WHERE id = ?);
        SELECT applied(), a.balance;
        IF a.balance >= ? THEN UPDATE accounts SET balance = balance - ? WHERE id = ?;
        ELSE RAISE ?; END IF
        COMMIT TRANSACTION"""
    block = session.prepare(block)
    result = session.execute(block, (1, 60, 60, 1, "no funds"))
    assert result.was_applied and result.one()[1] == 100, result
    error = raises(InvalidRequest, session.execute, block, (1, 60, 60, 1, "no funds"))
    assert "no funds" in error, error
    assert balance(session, 1) == 40


@check
def transfers_of_many_threads_keep_the_sum(session, other):
    """The example's helper runs each transfer again until it commits."""
    for account in range(4):
        session.execute("INSERT INTO accounts (id, balance) VALUES (%s, 100)", (account,))
    read = session.prepare("SELECT balance FROM accounts WHERE id = ? USING TRANSACTION ?")
    write = session.prepare("UPDATE accounts USING TRANSACTION ? SET balance = ? WHERE id = ?")
    failures = []

    def transfer(number):
        client = (session, other)[number % 2]

        def body(transaction):
            source, target = number % 4, (number + 1) % 4
            left = client.execute(read, (source, transaction)).one().balance - 1
            more = client.execute(read, (target, transaction)).one().balance + 1
            client.execute(write, (transaction, left, source))
            client.execute(write, (transaction, more, target))

        try:
            for _ in range(10):
                run_transaction(session, body)
        except Exception:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=transfer, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    rows = session.execute("SELECT id, balance FROM accounts").all()
    balances = {row.id: row.balance for row in rows}
    # Transfers 0 and 4, 1 and 5 start at the same accounts.
    assert balances == {0: 90, 1: 100, 2: 110, 3: 100}, balances


def main():
    failed = 0
    for version in (4, 5):
        setup = Cluster(["127.0.0.1"], port=PORT, protocol_version=version).connect()
        setup.execute(
            "CREATE KEYSPACE IF NOT EXISTS open WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        setup.execute("CREATE TABLE IF NOT EXISTS open.accounts (id int PRIMARY KEY, balance int)")
        setup.execute("CREATE TABLE IF NOT EXISTS open.lines (k int, c int, PRIMARY KEY (k, c))")
        session, other = connect(version), connect(version)
        for function in CHECKS:
            setup.execute("TRUNCATE open.accounts")
            for account in (1, 2):
                insert = "INSERT INTO open.accounts (id, balance) VALUES (%s, 100)"
                setup.execute(insert, (account,))
            try:
                function(session, other)
            except Exception:
                failed += 1
                print(f"{function.__name__}, version {version}:", file=sys.stderr)
                traceback.print_exc()
        for one in (setup, session, other):
            one.cluster.shutdown()
    sys.exit(1 if failed else 0)


main()
