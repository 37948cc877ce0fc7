// A bulk load with the stock Java driver and its defaults: java -cp JARS Bulk.java PORT ROWS
//
// Nearly as many requests are in flight as the driver takes for one connection, which are 1,024.

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

class Bulk {
  static final int IN_FLIGHT = 1000;

  public static void main(String[] arguments) throws Exception {
    InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    int rows = Integer.parseInt(arguments[1]);
    try (CqlSession session =
        CqlSession.builder().addContactPoint(server).withLocalDatacenter("datacenter1").build()) {
      session.execute(
          "CREATE KEYSPACE bulk WITH replication ="
              + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("CREATE TABLE bulk.t (k int PRIMARY KEY, v text)");
      PreparedStatement insert = session.prepare("INSERT INTO bulk.t (k, v) VALUES (?, ?)");
      Semaphore places = new Semaphore(IN_FLIGHT);
      AtomicReference<Throwable> failure = new AtomicReference<>();
      for (int k = 0; k < rows; k++) {
        places.acquire();
        session
            .executeAsync(insert.bind(k, "x".repeat(100)))
            .whenComplete(
                (result, error) -> {
                  if (error != null) {
                    failure.compareAndSet(null, error);
                  }
                  places.release();
                });
      }
      places.acquire(IN_FLIGHT);
      if (failure.get() != null) {
        throw new AssertionError(failure.get());
      }
      // Beside busy processes the count of 100,000 rows takes longer than the driver's 2 s.
      SimpleStatement counting = SimpleStatement.newInstance("SELECT count(*) FROM bulk.t");
      long count = session.execute(counting.setTimeout(Duration.ofMinutes(1))).one().getLong(0);
      if (count != rows) {
        throw new AssertionError(count + " rows");
      }
    }
  }
}
