// Statements that the server evicted are prepared again, unseen: java -cp JARS PrepareAgain.java PORT

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

class PrepareAgain {
  public static void main(String[] arguments) {
    InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    try (CqlSession session =
        CqlSession.builder().addContactPoint(server).withLocalDatacenter("datacenter1").build()) {
      session.execute(
          "CREATE KEYSPACE again WITH replication ="
              + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("CREATE TABLE again.t (k int PRIMARY KEY, v int)");
      session.execute("INSERT INTO again.t (k, v) VALUES (1, 7)");
      List<PreparedStatement> selects = new ArrayList<>();
      for (int n = 0; n < 30; n++) {
        selects.add(session.prepare("SELECT v, k AS n" + n + " FROM again.t WHERE k = ?"));
      }
      for (int round = 0; round < 3; round++) {
        for (PreparedStatement select : selects) {
          int value = session.execute(select.bind(1)).one().getInt("v");
          if (value != 7) {
            throw new AssertionError(select.getQuery() + ": " + value);
          }
        }
      }
    }
  }
}
