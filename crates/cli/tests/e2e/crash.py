"""Transfers money on a server that is killed, and looks for lost or half-done transfers.

crash.py PORT SEED [ACCOUNTS]

Reads commands, one a line, and answers each with a line:

    setup        makes the tables and the accounts
    items        makes tables with indexes and a view, which the clients change beside the accounts
    round N      connects the clients and begins transfers; answers once each client has had one
                 acknowledged, and goes on until the server is gone
    build N      begins to build an index or a view, and answers in the middle of the build
    check N      waits for the clients' end and for the build's, then compares the database with
                 what they know, and tables with their indexes and views
    check all    compares all accounts with all transfers of all rounds

The sum of all balances never changes. A transfer is one transaction: two UPDATEs and an INSERT of
a row with the transfer's own id. So after a crash

* every transfer that was acknowledged has its row (nothing acknowledged is lost);
* no transfer that was refused has one;
* each balance is the first one plus what the rows say (nothing is half there), and the sum holds.
"""

import random
import sys
import threading

import crash_items
from cassandra import InvalidRequest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy
from cassandra.query import SimpleStatement

ACCOUNTS = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000
CLIENTS = 8
FIRST_BALANCE = 100

TRANSFER = """
BEGIN TRANSACTION
  LET src = (SELECT balance FROM bank.accounts WHERE id = :src);
  LET dst = (SELECT balance FROM bank.accounts WHERE id = :dst);
  IF src.balance >= :amount AND dst IS NOT NULL THEN
    UPDATE bank.accounts SET balance = balance - :amount WHERE id = :src;
    UPDATE bank.accounts SET balance = balance + :amount WHERE id = :dst;
    INSERT INTO bank.transfers (round, id, src, dst, amount)
      VALUES (:round, :id, :src, :dst, :amount);
  END IF
COMMIT TRANSACTION
"""


def connect(port):
    # Nothing is sent twice behind our back: a transfer whose answer is lost stays unknown.
    profile = ExecutionProfile(retry_policy=FallthroughRetryPolicy(), request_timeout=30)
    cluster = Cluster(
        ["127.0.0.1"],
        port=port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
    )
    return cluster, cluster.connect()


class Client(threading.Thread):
    """One connection that transfers until it breaks."""

    def __init__(self, port, round_number, number, seed, has_items):
        super().__init__(daemon=True)
        self.has_items = has_items
        self.port = port
        self.round_number = round_number
        self.number = number
        self.random = random.Random(f"{seed} {round_number} {number}")
        self.acknowledged = {}
        self.refused = set()
        self.has_begun = threading.Event()
        self.failure = None

    def run(self):
        cluster = None
        try:
            cluster, session = connect(self.port)
            prepared = session.prepare(TRANSFER)
            for serial in range(1_000_000):
                self.transfer(session, prepared, serial * CLIENTS + self.number)
                if self.has_items:
                    session.execute(crash_items.change(self.random, self.number))
        except Exception as error:  # the server is gone, as it should be, or never came
            self.failure = error
        finally:
            self.has_begun.set()
            if cluster:
                cluster.shutdown()

    def transfer(self, session, prepared, transfer_id):
        src, dst = self.random.sample(range(ACCOUNTS), 2)
        amount = self.random.randint(1, 60)
        values = dict(src=src, dst=dst, amount=amount, round=self.round_number, id=transfer_id)
        if session.execute(prepared, values).one()[0]:
            self.acknowledged[transfer_id] = (src, dst, amount)
            self.has_begun.set()
        else:
            self.refused.add(transfer_id)


class Bank:
    def __init__(self, port, seed):
        self.port, self.seed = port, seed
        self.clients = []
        self.expected = dict.fromkeys(range(ACCOUNTS), FIRST_BALANCE)
        self.rounds = 0
        self.total = 0
        self.has_items = False
        self.build = None

    def setup(self):
        cluster, session = connect(self.port)
        session.execute(
            "CREATE KEYSPACE bank WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE bank.accounts (id int PRIMARY KEY, balance bigint)")
        session.execute(
            "CREATE TABLE bank.transfers (round int, id bigint, src int, dst int, amount bigint,"
            " PRIMARY KEY (round, id))"
        )
        insert = session.prepare("INSERT INTO bank.accounts (id, balance) VALUES (?, ?)")
        futures = [session.execute_async(insert, (n, FIRST_BALANCE)) for n in range(ACCOUNTS)]
        for future in futures:
            future.result()
        cluster.shutdown()
        return "ready"

    def setup_items(self):
        cluster, session = connect(self.port)
        crash_items.setup(session)
        cluster.shutdown()
        self.has_items = True
        return "ready"

    def begin_build(self, number):
        cluster, session = connect(self.port)
        self.build = crash_items.begin_build(session, number)
        cluster.shutdown()
        return f"building {self.build.name}: {self.build.rows} rows read"

    def begin(self, round_number):
        self.rounds = round_number + 1
        self.clients = [
            Client(self.port, round_number, n, self.seed, self.has_items) for n in range(CLIENTS)
        ]
        for client in self.clients:
            client.start()
        for client in self.clients:
            assert client.has_begun.wait(30), "a client had no transfer acknowledged in 30 s"
            assert client.acknowledged, f"a client could not begin: {client.failure!r}"
        return "begun"

    def check(self, round_number):
        for client in self.clients:
            client.join(60)
            assert not client.is_alive(), "a client still waits for a server that is gone"
            refusal = isinstance(client.failure, InvalidRequest)
            assert not refusal, f"a statement was refused: {client.failure!r}"
        cluster, session = connect(self.port)
        try:
            stored = self.transfers(session, round_number)
            acknowledged = {}
            for client in self.clients:
                acknowledged |= client.acknowledged
                for transfer_id in client.refused:
                    assert transfer_id not in stored, f"{transfer_id} was refused and is there"
            for transfer_id, transfer in acknowledged.items():
                found = stored.get(transfer_id)
                assert found is not None, f"transfer {transfer_id} was acknowledged and is lost"
                assert found == transfer, f"{transfer_id}: {transfer} became {found}"
            self.apply(self.expected, stored.values())
            self.total += len(stored)
            self.compare(session, self.expected)
            items = self.check_items(session)
        finally:
            cluster.shutdown()
        unknown = len(stored) - len(acknowledged)
        assert unknown <= CLIENTS, f"{unknown} transfers are there that nobody knows of"
        return f"holds: {len(acknowledged)} acknowledged, {unknown} more were committed{items}"

    def check_items(self, session):
        if not self.has_items:
            return ""
        answer = f", {crash_items.compare(session, 'items')} items"
        if self.build:
            resumed = crash_items.finish_build(session, self.build)
            answer += f", {self.build.name} {'resumed' if resumed else 'was built'}"
            self.build = None
        return answer

    def check_all(self):
        cluster, session = connect(self.port)
        balances = dict.fromkeys(range(ACCOUNTS), FIRST_BALANCE)
        count = 0
        for round_number in range(self.rounds):
            stored = self.transfers(session, round_number)
            count += len(stored)
            self.apply(balances, stored.values())
        self.compare(session, balances)
        cluster.shutdown()
        assert count == self.total, f"{self.total} transfers were there, and {count} are"
        return f"holds: {count} transfers in {self.rounds} rounds"

    @staticmethod
    def transfers(session, round_number):
        query = "SELECT id, src, dst, amount FROM bank.transfers WHERE round = %s"
        rows = session.execute(SimpleStatement(query, fetch_size=2_000), (round_number,))
        return {row.id: (row.src, row.dst, row.amount) for row in rows}

    @staticmethod
    def apply(balances, transfers):
        for src, dst, amount in transfers:
            balances[src] -= amount
            balances[dst] += amount

    @staticmethod
    def compare(session, expected):
        balances = {row.id: row.balance for row in session.execute("SELECT * FROM bank.accounts")}
        total = sum(balances.values())
        assert total == ACCOUNTS * FIRST_BALANCE, f"the sum is {total}"
        wrong = {n: (balances.get(n), b) for n, b in expected.items() if balances.get(n) != b}
        assert not wrong, f"accounts (found, expected by the transfers): {wrong}"
        assert len(balances) == ACCOUNTS, f"there are {len(balances)} accounts"


def main():
    bank = Bank(int(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin:
        match line.split():
            case ["setup"]:
                answer = bank.setup()
            case ["items"]:
                answer = bank.setup_items()
            case ["build", number]:
                answer = bank.begin_build(int(number))
            case ["round", number]:
                answer = bank.begin(int(number))
            case ["check", "all"]:
                answer = bank.check_all()
            case ["check", number]:
                answer = bank.check(int(number))
        print(answer, flush=True)


if __name__ == "__main__":
    main()
