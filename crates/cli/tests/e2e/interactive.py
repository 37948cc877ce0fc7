"""A person at a terminal: interactive.py CARNET

Types into `carnet shell` through a pseudo-terminal, and reads what is shown.
"""

import os
import sys
import tempfile
import time

from terminal import Terminal

CARNET = sys.argv[1]
os.environ.pop("PAGER", None)


def a_first_session(home):
    terminal = Terminal(CARNET, home, "shell")
    try:
        terminal.expect("it is removed at the end")
        terminal.expect("carnet> ")
        terminal.type(
            "CREATE KEYSPACE k WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1};\r"
        )
        terminal.expect("(created keyspace k)")
        terminal.type("USE k;\r")
        terminal.expect("carnet:k> ")
        # A statement of two lines, the first word completed with a tab.
        terminal.type("CREA\tTABLE t\r")
        terminal.expect("...> ")
        terminal.type("(a int PRIMARY KEY, b text);\r")
        terminal.expect("(created table k.t)")
        # The prompt has a star while a transaction is open.
        terminal.type("START TRANSACTION;\r")
        terminal.expect("carnet:k*> ")
        terminal.type("INSERT INTO t (a) VALUES (77);\r")
        terminal.expect("carnet:k*> ")
        terminal.type("ROLLBACK;\r")
        terminal.expect("(rolled back)")
        terminal.expect("carnet:k> ")
        # A mistake is told, and the session goes on.
        terminal.type("SELECT a WHERE b;\r")
        terminal.expect("expected FROM")
        terminal.type("INSERT INTO t (a) VALUES (7);\r")
        terminal.expect("(1 row written)")
        # A block of other databases is no statement that waits for its end.
        terminal.type("BEGIN;\r")
        terminal.expect("hint: START TRANSACTION begins a transaction")
        terminal.expect("carnet:k> ")
        # Ctrl-C throws away what was typed.
        terminal.type("SELECT nonsense\r")
        terminal.expect("...> ")
        terminal.type("\x03")
        terminal.expect("carnet:k> ")
        terminal.type("SELECT * FROM t;\r")
        terminal.expect("│ 7 ┆ ∅ │")
        terminal.expect("(1 row, ")
        terminal.type("COPY t TO STDOUT WITH NULL = '-';\r")
        terminal.expect("7,-")
        # Data typed after COPY … FROM STDIN ends with Ctrl-D.
        terminal.expect("carnet:k> ")
        terminal.type("COPY t FROM STDIN;\r")
        terminal.expect("Ctrl-D")
        terminal.type("8,eight\n\x04")
        terminal.expect("(1 row imported from standard input)")
        terminal.expect("carnet:k> ")
        terminal.type("help\r")
        terminal.expect("SOURCE 'script.cql'")
        terminal.expect("carnet:k> ")
        terminal.type("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


def is_one_scan_interrupted(terminal, delay):
    """Presses Ctrl-C during a scan; it may come too early or too late."""
    terminal.type("SELECT count(*) FROM t;\r")
    time.sleep(delay)
    terminal.type("\x03")
    time.sleep(0.5)
    terminal.type("HELP\r")
    return "interrupted" in terminal.expect("leave; so does Ctrl-D")


def ctrl_c_ends_the_statement(home):
    data = os.path.join(home, "long")
    terminal = Terminal(CARNET, home, "shell", data)
    try:
        terminal.expect("carnet> ")
        terminal.type(
            "CREATE KEYSPACE k WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}; USE k;"
            " CREATE TABLE t (a int PRIMARY KEY, b text);\r"
        )
        terminal.expect("carnet:k> ")
        rows = os.path.join(home, "rows.csv")
        with open(rows, "w") as file:
            file.writelines(f"{n},{'x' * 20}\n" for n in range(30_000))
        terminal.type(f"COPY t FROM '{rows}';\r")
        terminal.expect("(30000 rows imported")
        terminal.expect("carnet:k> ")
        # Ctrl-C ends a statement in its middle.
        delays = [0.02, 0.04, 0.08, 0.12, 0.16, 0.2, 0.3]
        assert any(is_one_scan_interrupted(terminal, delay) for delay in delays)
        terminal.expect("carnet:k> ")
        # It ends a script inside a transaction.
        terminal.type("START TRANSACTION;\r")
        terminal.expect("carnet:k*> ")
        script = os.path.join(home, "counts.cql")
        with open(script, "w") as file:
            file.write("SELECT count(*) FROM t;\n" * 500)
        terminal.type(f"SOURCE '{script}'\r")
        terminal.expect("(1 row")
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("carnet:k")
        terminal.type("ROLLBACK;\r")
        terminal.expect("carnet:k> ")
        # It ends typed data of COPY, and the rows before it stay or not: the shell goes on.
        terminal.type("COPY t FROM STDIN;\r")
        terminal.expect("Ctrl-D")
        terminal.type("-1,one\n\x03")
        terminal.expect("interrupted")
        terminal.expect("carnet:k> ")
        # It answers the question after a page.
        terminal.type("SELECT a FROM t;\r")
        terminal.expect("1000 rows so far")
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("carnet:k> ")
        terminal.type("SELECT b FROM t WHERE a = 1;\r")
        terminal.expect("(1 row, ")
        # The history is on disk before the end.
        with open(os.path.join(home, ".local/state/carnet/history")) as file:
            assert "SELECT b FROM t WHERE a = 1;" in file.read()
        # Names of the schema are completed.
        terminal.expect("carnet:k> ")
        terminal.type("SELECT * FROM k.\t LIMIT 1;\r")
        terminal.expect("(1 row, ")
        terminal.expect("carnet:k> ")
        # Rows that are wider than the terminal are expanded.
        terminal.resize(50, 20)
        terminal.type("SELECT * FROM t LIMIT 1;\r")
        terminal.expect("row 1")
        terminal.expect("carnet:k> ")
        terminal.resize(50, 200)
        # A password is not stored.
        terminal.type("CREATE ROLE r WITH PASSWORD = 'geheim';\r")
        terminal.expect("(done)")
        terminal.expect("carnet:k> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        with open(os.path.join(home, ".local/state/carnet/history")) as file:
            assert "geheim" not in file.read()
    finally:
        terminal.close()


def a_pager_shows_long_results(home):
    os.environ["PAGER"] = f"cat > {home}/paged"
    terminal = Terminal(CARNET, home, "shell", os.path.join(home, "long"))
    try:
        terminal.expect("carnet> ")
        terminal.resize(24, 200)
        terminal.type("SELECT * FROM k.t LIMIT 2500;\r")
        terminal.expect("(2500 rows, ")
        with open(os.path.join(home, "paged")) as file:
            assert len(file.readlines()) > 2500
        terminal.expect("carnet> ")
        terminal.type("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


def a_new_database_is_asked_for(home):
    terminal = Terminal(CARNET, home, "shell", home)
    try:
        terminal.expect("[y/N]")
        terminal.type("\x03")
        terminal.expect("nothing was made")
        assert terminal.end() == 1
    finally:
        terminal.close()


def the_history_is_kept(home):
    terminal = Terminal(CARNET, home, "shell", os.path.join(home, "data"))
    try:
        terminal.expect("A new database in ")
        terminal.expect("carnet> ")
        terminal.type("\x1b[A\x1b[A")
        terminal.expect("help")
        terminal.type("\x03")
        terminal.expect("carnet> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


with tempfile.TemporaryDirectory() as home:
    a_first_session(home)
    assert not [name for name in os.listdir(home) if name.startswith("carnet-")]
    assert os.path.isfile(os.path.join(home, ".local/state/carnet/history"))
    the_history_is_kept(home)
    ctrl_c_ends_the_statement(home)
    a_pager_shows_long_results(home)
    a_new_database_is_asked_for(home)
