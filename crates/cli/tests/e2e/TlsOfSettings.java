// Connects with the Java driver, whose application.conf is on the class path: java -cp … TlsOfSettings.java PORT PASSWORD

import com.datastax.oss.driver.api.core.CqlSession;
import java.net.InetSocketAddress;

public class TlsOfSettings {
  public static void main(String[] args) {
    var builder = CqlSession.builder()
        .addContactPoint(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])))
        .withLocalDatacenter("datacenter1")
        .withAuthCredentials("ann", args[1]);
    try (CqlSession session = builder.build()) {
      session.execute("SELECT release_version FROM system.local").one().getString(0);
    }
  }
}
