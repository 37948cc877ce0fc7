"""A person at a terminal: interactive.py CARNET

Types into `carnet shell` through a pseudo-terminal, and reads what is shown.
"""

import os
import pty
import select
import sys
import tempfile
import time

CARNET = sys.argv[1]


class Terminal:
    def __init__(self, home, *arguments):
        environment = {"HOME": home, "TERM": "xterm", "PATH": os.environ["PATH"], "TMPDIR": home}
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.execve(CARNET, [CARNET, "shell", *arguments], environment)
        self.shown = ""

    def expect(self, text):
        """Reads until a text is shown; returns all that was shown before it."""
        deadline = time.monotonic() + 20
        while text not in self.shown:
            ready, _, _ = select.select([self.fd], [], [], deadline - time.monotonic())
            assert ready, f"{text!r} was not shown, but {self.shown!r}"
            try:
                data = os.read(self.fd, 65_536)
            except OSError:
                data = b""
            assert data, f"the shell ended; {text!r} was not shown, but {self.shown!r}"
            self.shown += data.decode()
        before, self.shown = self.shown.split(text, 1)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.fd, 65_536).decode()
                except OSError:
                    pass
        raise AssertionError("the shell did not end")

    def close(self):
        try:
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def a_first_session(home):
    terminal = Terminal(home)
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
        terminal.expect("(done)")
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


def the_history_is_kept(home):
    terminal = Terminal(home, os.path.join(home, "data"))
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
