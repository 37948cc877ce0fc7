"""Transactions over several statements with the Python driver, run again after a conflict.

The statements of the body name the transaction by USING TRANSACTION. They may go through any server of
the database.
"""

import random
import time

from cassandra import InvalidRequest

RUN_AGAIN = "aborted, run the transaction again: "


def ended_without_effect(error):
    """Returns whether the transaction had no effect and may succeed if it is run again.

    The driver shows the payload of an error (carnet.error = aborted) on a ResponseFuture only. The
    begin of the message says the same, and does not change.
    """
    return isinstance(error, InvalidRequest) and RUN_AGAIN in str(error)


def run_transaction(session, body, attempts=20):
    """Runs body(transaction) and commits; runs it again if the transaction ended without effect.

    An error after which the outcome of the commit is unknown is raised: ask
    SELECT outcome(transaction) before trying again.
    """
    for attempt in range(attempts):
        transaction = session.execute("START DETACHED TRANSACTION").one().transaction
        try:
            result = body(transaction)
            session.execute(f"COMMIT TRANSACTION {transaction}")
            return result
        except BaseException as error:
            # Without effect after a commit; a rollback that cannot be sent is one that expires.
            roll_back(session, transaction)
            if not ended_without_effect(error) or attempt + 1 == attempts:
                raise
        # Two transactions that conflict wait for different times.
        time.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 6)))
    raise AssertionError("the last attempt raises")


def roll_back(session, transaction):
    try:
        session.execute(f"ROLLBACK TRANSACTION {transaction}")
    except Exception:
        pass
