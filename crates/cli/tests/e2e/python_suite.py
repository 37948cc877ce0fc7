"""The Python driver's own integration tests against a server: python_suite.py PORT TESTS...

Runs in the folder of the driver's source, with the driver from a package. Prints the results in the
format of `go test -v`.
"""

import inspect
import sys

import pytest
from cassandra import cluster, connection

# The tests know no other port of a server.
STANDARD_PORT = 9042

port = int(sys.argv[1])


def use_port(function):
    """Returns the function with the server's port in place of the standard one."""
    signature = inspect.signature(function)

    def call(*arguments, **options):
        bound = signature.bind(*arguments, **options)
        if bound.arguments.get("port", STANDARD_PORT) == STANDARD_PORT:
            bound.arguments["port"] = port
        return function(*bound.args, **bound.kwargs)

    return call


cluster.Cluster.__init__ = use_port(cluster.Cluster.__init__)
connection.DefaultEndPoint.__init__ = use_port(connection.DefaultEndPoint.__init__)


class Results:
    """Results of tests. A test fails with its preparation."""

    def __init__(self):
        self.results = {}
        self.messages = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.results[report.nodeid] = "FAIL"
            self.messages[report.nodeid] = report.longreprtext
        elif report.skipped:
            self.results.setdefault(report.nodeid, "SKIP")
        elif report.when == "call":
            self.results.setdefault(report.nodeid, "PASS")


found = Results()
options = ["--quiet", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider", "-W", "ignore"]
pytest.main(options + ["--no-summary"] + sys.argv[2:], plugins=[found])
print()
for test, result in found.results.items():
    name = test.removeprefix("tests/integration/").replace(".py::", "::")
    print("=== RUN  ", name)
    print(found.messages.get(test, ""))
    print(f"--- {result}: {name} (0.00s)", flush=True)
