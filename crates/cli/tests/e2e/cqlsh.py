"""What a person does with stock cqlsh: cqlsh.py PORT

The data is public: hourly temperatures of two cities for a year, out of vega_datasets.
"""

import csv
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

PORT = sys.argv[1]
CQLSH = pathlib.Path(sys.executable).with_name("cqlsh")


def cqlsh(statements, *, fails=False, arguments=()):
    result = subprocess.run(
        [CQLSH, "--no-color", *arguments, "127.0.0.1", PORT],
        input=statements,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = result.stdout + result.stderr
    assert fails == (result.returncode != 0), f"{statements}\n{said}"
    return said


def lines(said):
    return [line.strip() for line in said.splitlines() if line.strip()]


def transactions_stay_open():
    said = cqlsh(
        """
        CREATE KEYSPACE tx WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE tx.t (k int PRIMARY KEY, v int);
        START TRANSACTION;
        INSERT INTO tx.t (k, v) VALUES (1, 10);
        SELECT v AS inside FROM tx.t;
        ROLLBACK;
        SELECT v AS undone FROM tx.t;
        START TRANSACTION ISOLATION LEVEL SNAPSHOT;
        INSERT INTO tx.t (k, v) VALUES (2, 20);
        COMMIT TRANSACTION;
        """
    )
    inside, undone = said.split("inside")[1].split("undone")
    assert "10" in inside and "(1 rows)" in inside, said
    assert "(0 rows)" in undone, said
    # The connection of the next cqlsh sees the commit, and a transaction that is left open is gone.
    said = cqlsh("START TRANSACTION; UPDATE tx.t SET v = 0 WHERE k = 2;")
    said = cqlsh("SELECT v FROM tx.t;")
    assert lines(said)[2:] == ["20", "(1 rows)"], said
    said = cqlsh("COMMIT;", fails=True)
    assert "no transaction is open on this connection" in said, said


def temperatures(folder):
    """Writes the CSV of both cities, and returns its path and its rows."""
    data = pathlib.Path(importlib.util.find_spec("vega_datasets").origin).parent / "_data"
    rows = []
    for city, name in (("San Francisco", "sf-temps.csv"), ("Seattle", "seattle-temps.csv")):
        with open(data / name, newline="") as file:
            for row in csv.DictReader(file):
                day, hour = row["date"].split(" ")
                hour = hour if len(hour) == 8 else f"{hour}:00"
                rows.append([city, f"{day.replace('/', '-')} {hour}", float(row["temp"])])
    path = folder / "temperatures.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["city", "hour", "fahrenheit"], *rows])
    assert len(rows) >= 10_000, len(rows)
    return path, sorted(rows)


def statements_and_describe():
    said = cqlsh(
        """
        CREATE KEYSPACE sh WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        USE sh;
        CREATE TABLE notes (who text, at int, body text, PRIMARY KEY (who, at));
        INSERT INTO notes (who, at, body) VALUES ('ada', 1, 'it''s; fine');
        INSERT INTO notes (who, at) VALUES ('ada', 2);
        SELECT at, body FROM notes WHERE who = 'ada' ORDER BY at DESC;
        """
    )
    assert lines(said) == ["at | body", "----+------------", "2 |       null", "1 | it's; fine", "(2 rows)"], said
    traced = cqlsh("TRACING ON; SELECT at FROM sh.notes WHERE who = 'ada' AND at = 1;")
    assert "Tracing session:" in traced and "Found 1 rows" in traced, traced
    assert "Request complete" in traced, traced
    keyspaces = cqlsh("DESCRIBE KEYSPACES;")
    assert "sh" in keyspaces.split() and "system_schema" in keyspaces.split(), keyspaces
    tables = cqlsh("USE sh; DESCRIBE TABLES;")
    assert "notes" in tables.split(), tables
    table = cqlsh("DESCRIBE TABLE sh.notes;")
    assert "CREATE TABLE sh.notes (" in table and "PRIMARY KEY (who, at)" in table, table
    assert "CREATE KEYSPACE sh" in cqlsh("DESCRIBE KEYSPACE sh;")
    # The version is one that cqlsh knows: it warns of others.
    assert "warning" not in cqlsh("SHOW VERSION;").lower()


def a_transaction():
    cqlsh(
        """
        CREATE TABLE sh.accounts (id int PRIMARY KEY, balance bigint);
        INSERT INTO sh.accounts (id, balance) VALUES (1, 100);
        INSERT INTO sh.accounts (id, balance) VALUES (2, 0);
        """
    )
    transfer = """
        BEGIN TRANSACTION
          LET a = (SELECT balance FROM sh.accounts WHERE id = 1);
          SELECT a.balance;
          IF a.balance >= 60 THEN
            UPDATE sh.accounts SET balance = balance - 60 WHERE id = 1;
            UPDATE sh.accounts SET balance = balance + 60 WHERE id = 2;
          END IF
        APPLY TRANSACTION;
        """
    # The second finds too little.
    assert "100" in lines(cqlsh(transfer)) and "40" in lines(cqlsh(transfer))
    balances = cqlsh("SELECT id, balance FROM sh.accounts WHERE id IN (1, 2);")
    assert lines(balances)[2:4] == ["1 |      40", "2 |      60"], balances


def pages_and_copy(folder):
    path, rows = temperatures(folder)
    cqlsh(
        """
        CREATE TABLE sh.temperatures (city text, hour timestamp, fahrenheit double,
          PRIMARY KEY (city, hour)) WITH CLUSTERING ORDER BY (hour DESC);
        """
    )
    said = cqlsh(f"COPY sh.temperatures (city, hour, fahrenheit) FROM '{path}' WITH HEADER = true;")
    assert f"{len(rows)} rows imported from 1 files" in said, said
    counted = cqlsh("SELECT count(*) FROM sh.temperatures;")
    assert str(len(rows)) in lines(counted), counted
    # Many pages of 100 rows, without a person to press a key.
    everything = cqlsh(
        "SELECT hour, fahrenheit FROM sh.temperatures WHERE city = 'Seattle' ORDER BY hour DESC;"
    )
    hours = [line.split(" | ")[0] for line in lines(everything) if line.startswith("2010-")]
    seattle = [row for row in rows if row[0] == "Seattle"]
    assert len(hours) == len(seattle), len(hours)
    assert hours == sorted(hours, reverse=True)

    back = folder / "back.csv"
    said = cqlsh(f"COPY sh.temperatures (city, hour, fahrenheit) TO '{back}';")
    assert f"{len(rows)} rows exported to 1 files" in said, said
    with open(back, newline="") as file:
        # cqlsh writes a time as 2010-01-01 00:00:00.000+0000.
        returned = [[city, hour[:19], float(value)] for city, hour, value in csv.reader(file)]
    assert sorted(returned) == rows


def mistakes():
    assert "SyntaxException" in cqlsh("SELEC 1;", fails=True)
    assert "InvalidRequest" in cqlsh("SELECT * FROM sh.nothing;", fails=True)


with tempfile.TemporaryDirectory() as folder:
    statements_and_describe()
    a_transaction()
    transactions_stay_open()
    pages_and_copy(pathlib.Path(folder))
    mistakes()
