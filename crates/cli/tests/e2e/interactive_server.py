"""A person at a terminal with a server: interactive_server.py CARNET

Types into `carnet shell --server` through a pseudo-terminal, and watches `carnet top` and the progress of commands.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

from terminal import Terminal

CARNET = sys.argv[1]
os.environ.pop("PAGER", None)
SCHEMA = (
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};"
    " CREATE TABLE k.t (a int PRIMARY KEY, b text); CREATE TABLE k.many (p int, c int, PRIMARY KEY (p, c));"
)


class Server:
    """A server on a free port, which may end and start again at the same one."""

    def __init__(self, directory, *arguments):
        self.arguments = [CARNET, "serve", directory, "--http", "off", *arguments]
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        command = [*self.arguments, "--listen", self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.address = re.search(r"CQL on ([0-9.:]+)", line).group(1)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def run(self, statements, *arguments):
        """Runs statements in another process; returns the rows as JSON."""
        command = [CARNET, "shell", "--server", self.address, *arguments, "--json", "-e", statements]
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]


def eventually(what, is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)


def shell(server, home, *arguments):
    return Terminal(CARNET, home, "shell", "--server", server.address, *arguments)


def a_session_has_prompts(server, home):
    terminal = shell(server, home)
    try:
        terminal.expect("carnet> ")
        terminal.type("USE k;\r")
        terminal.expect("carnet:k> ")
        terminal.type("START TRANSACTION;\r")
        terminal.expect("carnet:k*> ")
        terminal.type("INSERT INTO t\r")
        terminal.expect("...> ")
        terminal.type("(a) VALUES (7);\r")
        terminal.expect("carnet:k*> ")
        terminal.type("COMMIT;\r")
        terminal.expect("(committed)")
        terminal.expect("carnet:k> ")
        # A mistake is told, and the session goes on.
        terminal.type("SELECT x FROM t;\r")
        terminal.expect("error:")
        terminal.expect("carnet:k> ")
        terminal.type("SELECT a FROM t;\r")
        terminal.expect("│ 7 │")
        terminal.expect("carnet:k> ")
        # Names of the server's schema are completed.
        terminal.type("SELECT a FROM k.t\t LIMIT 1;\r")
        terminal.expect("(1 row, ")
        terminal.expect("carnet:k> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


def running(server):
    rows = server.run("SELECT id, statement, state FROM system_views.queries")
    return [row for row in rows if row["statement"].startswith("SELECT sum")]


def ctrl_c_ends_the_statement(server, home):
    rows = "".join(f"INSERT INTO k.many (p, c) VALUES (1, {c}); " for c in range(2_000))
    server.run(f"BEGIN UNLOGGED BATCH {rows} APPLY BATCH")
    script = os.path.join(home, "endless.cql")
    with open(script, "w") as file:
        file.write(f"SELECT {', '.join(['sum(c * 3)'] * 5_000)} FROM k.many WHERE p = 1;\n")
    terminal = shell(server, home)
    try:
        terminal.expect("carnet> ")
        terminal.type(f"SOURCE '{script}'\r")
        eventually("the statement runs", lambda: running(server))
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("carnet> ")
        eventually("the server has ended it", lambda: not running(server))
        # In a transaction it is rolled back: a half of it must not be committed.
        terminal.type("START TRANSACTION;\r")
        terminal.expect("carnet*> ")
        terminal.type("INSERT INTO k.t (a) VALUES (66);\r")
        terminal.expect("carnet*> ")
        terminal.type(f"SOURCE '{script}'\r")
        eventually("the statement runs", lambda: running(server))
        terminal.type("\x03")
        terminal.expect("the transaction was rolled back")
        terminal.expect("carnet> ")
        terminal.type("SELECT count(*) FROM k.t WHERE a = 66;\r")
        terminal.expect("│     0 │")
        terminal.expect("carnet> ")
        # It throws away what was typed.
        terminal.type("SELECT nonsense\r")
        terminal.expect("...> ")
        terminal.type("\x03")
        terminal.expect("carnet> ")
        terminal.type("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


def a_lost_connection_ends_the_transaction(server, home):
    terminal = shell(server, home)
    try:
        terminal.expect("carnet> ")
        terminal.type("START TRANSACTION;\r")
        terminal.expect("carnet*> ")
        terminal.type("INSERT INTO k.t (a) VALUES (99);\r")
        terminal.expect("carnet*> ")
        server.kill()
        terminal.type("SELECT a FROM k.t;\r")
        terminal.expect(f"the connection to {server.address} was lost")
        terminal.expect("nothing of it is written")
        terminal.expect("carnet*> ")
        # Nothing runs outside of the transaction by mistake, also once the server is there again.
        server.start()
        terminal.type("INSERT INTO k.t (a) VALUES (100);\r")
        terminal.expect("was lost with its connection")
        terminal.expect("carnet*> ")
        terminal.type("ROLLBACK;\r")
        terminal.expect("(rolled back)")
        terminal.expect("carnet> ")

        def is_connected():
            terminal.type("SELECT a FROM k.t WHERE a IN (7, 99, 100);\r")
            return "(1 row" in terminal.expect("carnet> ")

        eventually("the shell has connected again, and only row 7 is there", is_connected)
        terminal.type("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


def login_asks_for_the_password(home):
    directory = os.path.join(home, "roles")
    server = Server(directory, "--roles")
    try:
        with open(os.path.join(directory, "first-superuser")) as file:
            user, password = file.read().strip().split(":", 1)
        secret = os.path.join(home, "secret")
        with open(secret, "w") as file:
            file.write(password)
        server.run("CREATE ROLE ann WITH PASSWORD = 'geheim' AND LOGIN = true", "--user", user, "--password-file", secret)
        terminal = shell(server, home, "--user", user)
        try:
            terminal.expect("assword")
            terminal.type(f"{password}\r")
            terminal.expect("carnet> ")
            terminal.type("LOGIN ann\r")
            terminal.expect("Password of ann: ")
            terminal.type("wrong\r")
            terminal.expect("error:")
            terminal.expect("carnet> ")
            terminal.type("CREATE ROLE bob;\r")
            terminal.expect("(done)")
            terminal.expect("carnet> ")
            terminal.type("START TRANSACTION;\r")
            terminal.expect("carnet*> ")
            terminal.type("LOGIN ann\r")
            terminal.expect("COMMIT or ROLLBACK first")
            terminal.type("ROLLBACK;\r")
            terminal.expect("(rolled back)")
            terminal.expect("carnet> ")
            terminal.type("LOGIN ann\r")
            terminal.expect("Password of ann: ")
            terminal.type("geheim\r")
            assert "geheim" not in terminal.expect("(logged in as ann)"), "the password is shown"
            terminal.type("CREATE ROLE eve;\r")
            terminal.expect("error:")
            terminal.expect("carnet> ")
            # Ctrl-C leaves the question, and not the shell.
            terminal.type(f"LOGIN {user}\r")
            terminal.expect(f"Password of {user}: ")
            terminal.type("\x03")
            terminal.expect("carnet> ")
            terminal.type("exit\r")
            assert terminal.end() == 0
        finally:
            terminal.close()
    finally:
        server.kill()


def progress_is_shown(server, home):
    rows = os.path.join(home, "rows.csv")
    with open(rows, "w") as file:
        file.writelines(f"{n},{'x' * 50}\n" for n in range(1_000, 9_000))
    terminal = shell(server, home)
    try:
        terminal.resize(50, 200)
        terminal.expect("carnet> ")
        terminal.type(f"COPY k.t FROM '{rows}';\r")
        terminal.expect("KiB of ")
        terminal.expect(" rows, ")
        terminal.expect(" left")
        terminal.expect("(8000 rows imported")
        terminal.type(f"COPY k.t TO '{home}/out.csv' WITH PAGESIZE = 100;\r")
        terminal.expect(" %, ")
        terminal.expect(" rows, ")
        terminal.expect("iB, ")
        terminal.expect(" left")
        terminal.expect("rows written to")
        with open(os.path.join(home, "out.csv")) as file:
            lines = file.read().splitlines()
        assert all(len(line.split(",")) == 2 for line in lines), "a file has no tokens"
        terminal.expect("carnet> ")
        terminal.type("CREATE INDEX ON k.t (b);\r")
        terminal.expect("rows read, ")
        terminal.expect(" left")
        terminal.expect("carnet> ")
        terminal.type("CREATE MATERIALIZED VIEW k.v AS SELECT * FROM k.t WHERE b IS NOT NULL AND a IS NOT NULL PRIMARY KEY (b, a);\r")
        terminal.expect("rows read, ")
        terminal.expect("carnet> ")
        terminal.type("SELECT count(*) FROM k.v;\r")
        terminal.expect("│  8000 │")
        terminal.expect("carnet> ")
        terminal.type("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


def progress_of_commands_is_shown(directory, home):
    backups = os.path.join(home, "backups")
    restored = os.path.join(home, "restored")
    for arguments in (["compact", directory], ["backup", directory, backups], ["verify", directory], ["restore", backups, restored]):
        terminal = Terminal(CARNET, home, *arguments)
        try:
            terminal.resize(50, 200)
            assert terminal.end() == 0, terminal.shown
            assert re.search(r" B of [0-9.]+ [KM]iB.* left|iB of [0-9.]+ [KM]iB.* left", terminal.shown), (arguments, terminal.shown)
        finally:
            terminal.close()


class Screen:
    """The characters of a screen of ratatui, which writes changed cells only."""

    def __init__(self):
        self.cells = {}
        self.row, self.column = 1, 1

    def write(self, text):
        for part in re.finditer(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|([^\x1b])", text):
            numbers, command, letter = part.groups()
            if letter is not None:
                self.cells[self.row, self.column] = letter
                self.column += 1
            elif command == "H":
                self.row, self.column = ([int(n) for n in numbers.split(";")] if numbers else [1, 1])
            elif command == "J":
                self.cells.clear()

    def text(self):
        lines = {}
        for (row, column), letter in self.cells.items():
            lines.setdefault(row, {})[column] = letter
        line = lambda cells: "".join(cells.get(column, " ") for column in range(1, max(cells) + 1))
        return "\n".join(line(lines[row]) for row in sorted(lines))


def top_is_drawn_again(server, home):
    terminal = Terminal(CARNET, home, "top", "--server", server.address, "--interval", "0.3")
    screen = Screen()
    try:
        terminal.resize(50, 200)

        def await_text(text):
            deadline = time.monotonic() + 30
            while text not in screen.text():
                terminal.shown = ""
                terminal.read(deadline, repr(text))
                screen.write(terminal.shown)

        await_text("carnet top")
        # Each statement is new since the last frame.
        for name in ("first", "second", "third"):
            server.run(f"SELECT a AS {name} FROM k.t WHERE a = 1")
            await_text(f"SELECT a AS {name} FROM k.t")
        # Stopped, it shows no more.
        terminal.type(" ")
        await_text("(stopped)")
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        terminal.close()


with tempfile.TemporaryDirectory() as home:
    data = os.path.join(home, "data")
    server = Server(data)
    try:
        server.run(SCHEMA)
        a_session_has_prompts(server, home)
        ctrl_c_ends_the_statement(server, home)
        a_lost_connection_ends_the_transaction(server, home)
        top_is_drawn_again(server, home)
        progress_is_shown(server, home)
    finally:
        server.process.terminate()
        server.process.wait()
    progress_of_commands_is_shown(data, home)
    login_asks_for_the_password(home)
