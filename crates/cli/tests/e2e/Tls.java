// Connects over TLS with the Java driver: java -cp … Tls.java PORT DIR
//
// Without DIR, the certificates are those of the driver's application.conf.

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Tls {
  static Certificate certificate(Path path) throws Exception {
    try (InputStream in = Files.newInputStream(path)) {
      return CertificateFactory.getInstance("X.509").generateCertificate(in);
    }
  }

  static SSLContext context(Path files, boolean showsCertificate) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    store.setCertificateEntry("ca", certificate(files.resolve("ca.crt")));
    TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
    trust.init(store);
    KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
    KeyStore own = KeyStore.getInstance("PKCS12");
    own.load(null, null);
    if (showsCertificate) {
      String pem = Files.readString(files.resolve("client.key"));
      byte[] der = Base64.getMimeDecoder().decode(pem.replaceAll("-----[A-Z ]+-----", ""));
      var key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
      Certificate[] chain = {certificate(files.resolve("client.crt"))};
      own.setKeyEntry("client", key, new char[0], chain);
    }
    keys.init(own, new char[0]);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  static void connect(String port, SSLContext context) {
    var builder = CqlSession.builder()
        .addContactPoint(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)))
        .withLocalDatacenter("datacenter1")
        .withAuthCredentials("ann", "correct horse");
    if (context != null) {
      builder = builder.withSslContext(context);
    }
    try (CqlSession session = builder.build()) {
      session.execute("SELECT release_version FROM system.local").one().getString(0);
    }
  }

  static void refused(String port, SSLContext context) {
    try {
      connect(port, context);
    } catch (AllNodesFailedException expected) {
      return;
    }
    throw new AssertionError("a client was let in that should not be");
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 1) {
      connect(arguments[0], null);
      return;
    }
    Path files = Path.of(arguments[1]);
    connect(arguments[0], context(files, true));
    refused(arguments[0], context(files, false));
    refused(arguments[0], null);
  }
}
