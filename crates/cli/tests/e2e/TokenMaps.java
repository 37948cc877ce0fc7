// The Java driver's token map: java -cp JARS TokenMaps.java PORT KEYSPACE...
//
// Every keyspace, those that it creates included, has one replica for each token.

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

class TokenMaps {
  public static void main(String[] arguments) {
    InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    List<String> keyspaces =
        new ArrayList<>(Arrays.asList(arguments).subList(1, arguments.length));
    try (CqlSession session =
        CqlSession.builder().addContactPoint(server).withLocalDatacenter("datacenter1").build()) {
      session.execute("CREATE KEYSPACE java_s WITH replication = {'class': 'SimpleStrategy'}");
      session.execute(
          "CREATE KEYSPACE java_n WITH replication ="
              + " {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}");
      keyspaces.addAll(List.of("java_s", "java_n"));
      TokenMap tokens =
          session
              .refreshSchema()
              .getTokenMap()
              .orElseThrow(() -> new AssertionError("the driver has no token map"));
      for (String keyspace : keyspaces) {
        for (int key = 0; key < 100; key++) {
          ByteBuffer bytes = ByteBuffer.allocate(4).putInt(0, key);
          Set<Node> replicas = tokens.getReplicas(CqlIdentifier.fromCql(keyspace), bytes);
          if (replicas.size() != 1) {
            throw new AssertionError(keyspace + ", key " + key + ": replicas " + replicas);
          }
        }
      }
    }
  }
}
