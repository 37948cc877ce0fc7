"""A pseudo-terminal with a program of `carnet`, for tests that type and read like a person."""

import codecs
import fcntl
import os
import pty
import select
import struct
import termios
import time


class Terminal:
    """A program that reads typed keys, and the text that it shows."""

    def __init__(self, carnet, home, *arguments):
        environment = {"HOME": home, "TERM": "xterm", "PATH": os.environ["PATH"], "TMPDIR": home}
        # Without a pager the shell asks after each page.
        environment["PAGER"] = os.environ.get("PAGER", "")
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.execve(carnet, [carnet, *arguments], environment)
        self.shown = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, deadline, what):
        ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"{what} was not shown, but {self.shown!r}"
        try:
            data = os.read(self.fd, 65_536)
        except OSError:
            data = b""
        assert data, f"the program ended; {what} was not shown, but {self.shown!r}"
        self.shown += self.decoder.decode(data)

    def expect(self, text):
        """Reads until a text is shown; returns all that was shown before it."""
        deadline = time.monotonic() + 20
        while text not in self.shown:
            self.read(deadline, repr(text))
        before, self.shown = self.shown.split(text, 1)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def resize(self, lines, columns):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)

    def end(self):
        """Waits for the end of the program; returns its exit code."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.shown += self.decoder.decode(os.read(self.fd, 65_536))
                except OSError:
                    pass
        raise AssertionError("the program did not end")

    def close(self):
        try:
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
