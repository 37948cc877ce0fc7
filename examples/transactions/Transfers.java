// Transactions over several statements with the Java driver, run again after a conflict:
// java -cp JARS Transfers.java PORT
//
// The statements of a transaction may go through any server of the database.

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;

class Transfers {
  static final String RUN_AGAIN = "aborted, run the transaction again: ";

  /**
   * Runs the body and commits; runs it again if the transaction ended without effect. An error after
   * which the outcome of the commit is unknown is thrown: ask SELECT outcome(transaction) before
   * trying again.
   */
  static <T> T run(CqlSession session, int attempts, Function<UUID, T> body)
      throws InterruptedException {
    for (int attempt = 0; ; attempt++) {
      UUID transaction =
          session.execute("START DETACHED TRANSACTION").one().getUuid("transaction");
      try {
        T result = body.apply(transaction);
        session.execute("COMMIT TRANSACTION " + transaction);
        return result;
      } catch (RuntimeException error) {
        rollBack(session, transaction);
        if (!endedWithoutEffect(error) || attempt + 1 == attempts) {
          throw error;
        }
      }
      // Two transactions that conflict wait for different times.
      Thread.sleep(ThreadLocalRandom.current().nextLong(1 + (5L << Math.min(attempt, 6))));
    }
  }

  /**
   * Whether the transaction had no effect and may succeed if it is run again. The driver drops the
   * payload of errors (carnet.error = aborted); the begin of the message says the same, and does not
   * change.
   */
  static boolean endedWithoutEffect(RuntimeException error) {
    return error instanceof InvalidQueryException && error.getMessage().contains(RUN_AGAIN);
  }

  /** Without effect after a commit; if it cannot be sent, the transaction expires. */
  static void rollBack(CqlSession session, UUID transaction) {
    try {
      session.execute("ROLLBACK TRANSACTION " + transaction);
    } catch (RuntimeException ignored) {
      // The first error is the one to report.
    }
  }

  public static void main(String[] arguments) throws Exception {
    InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    try (CqlSession session =
        CqlSession.builder().addContactPoint(server).withLocalDatacenter("datacenter1").build()) {
      session.execute(
          "CREATE KEYSPACE java_tx WITH replication ="
              + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("CREATE TABLE java_tx.t (k int PRIMARY KEY, v int)");
      session.execute("INSERT INTO java_tx.t (k, v) VALUES (1, 0)");
      PreparedStatement read =
          session.prepare("SELECT v FROM java_tx.t WHERE k = 1 USING TRANSACTION ?");
      PreparedStatement write =
          session.prepare("UPDATE java_tx.t USING TRANSACTION ? SET v = ? WHERE k = 1");
      ExecutorService threads = Executors.newFixedThreadPool(4);
      List<Future<Integer>> all = new ArrayList<>();
      for (int n = 0; n < 40; n++) {
        all.add(
            threads.submit(
                () ->
                    run(
                        session,
                        50,
                        transaction -> {
                          int next = session.execute(read.bind(transaction)).one().getInt(0) + 1;
                          session.execute(write.bind(transaction, next));
                          return next;
                        })));
      }
      for (Future<Integer> one : all) {
        one.get();
      }
      threads.shutdown();
      int sum = session.execute("SELECT v FROM java_tx.t").one().getInt(0);
      if (sum != 40) {
        throw new AssertionError("the sum is " + sum);
      }
    }
  }
}
