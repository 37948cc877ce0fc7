// Values of every type through the stock Java driver: java -cp … Types.java PORT

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

class Types {
  static UserDefinedType pointType;

  static UdtValue point(Integer x, String name) {
    return pointType.newValue().setToNull("x").setString("name", name)
        .set("x", x, Integer.class);
  }

  static Map<String, List<Object>> values() throws Exception {
    TupleType pair = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT);
    TupleValue full = pair.newValue(7, "x");
    Map<String, List<Object>> values = new LinkedHashMap<>();
    values.put("ascii", List.of("", "a"));
    values.put("bigint", List.of(Long.MAX_VALUE, -1L));
    values.put("blob", List.of(ByteBuffer.allocate(0), ByteBuffer.wrap(new byte[] {0, -1})));
    values.put("boolean", List.of(true, false));
    values.put("date", List.of(LocalDate.of(2026, 11, 26), LocalDate.of(1969, 12, 31)));
    values.put("decimal", List.of(BigDecimal.ZERO, new BigDecimal("-1.50"), new BigDecimal("1E+30")));
    values.put("double", List.of(-1.5, 1e300, Double.POSITIVE_INFINITY));
    values.put("duration", List.of(CqlDuration.from("1mo2d3h"), CqlDuration.from("-5ms")));
    values.put("float", List.of(-1.5f, 3.25f));
    values.put("inet", List.of(InetAddress.getByName("127.0.0.1"), InetAddress.getByName("2001:db8::ff")));
    values.put("int", List.of(Integer.MAX_VALUE, Integer.MIN_VALUE));
    values.put("smallint", List.of(Short.MAX_VALUE, Short.MIN_VALUE));
    values.put("text", List.of("", "it's", "ünï"));
    values.put("time", List.of(LocalTime.MAX, LocalTime.MIDNIGHT));
    values.put("timestamp", List.of(Instant.EPOCH, Instant.parse("2026-11-26T10:00:00.123Z")));
    values.put("timeuuid", List.of(UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f")));
    values.put("tinyint", List.of(Byte.MAX_VALUE, Byte.MIN_VALUE));
    values.put("uuid", List.of(UUID.fromString("f47ac10b-58cc-4372-a567-0e02b2c3d479")));
    values.put("varint", List.of(BigInteger.ONE.negate(), BigInteger.ONE.shiftLeft(127)));
    values.put("list<int>", List.of(List.of(3, 1, 3)));
    values.put("set<text>", List.of(Set.of("a", "b")));
    values.put("map<text, frozen<list<int>>>", List.of(Map.of("a", List.of(1), "b", List.of())));
    values.put("frozen<map<text, int>>", List.of(Map.of(), Map.of("x", 1)));
    values.put("tuple<int, text>", List.of(full));
    values.put("frozen<point>", List.of(point(1, "p"), point(null, null)));
    values.put("point", List.of(point(2, null)));
    return values;
  }

  public static void main(String[] arguments) throws Exception {
    InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    try (CqlSession session = CqlSession.builder()
        .addContactPoint(server).withLocalDatacenter("datacenter1").build()) {
      session.execute("CREATE KEYSPACE types WITH replication = {'class': 'SimpleStrategy'}");
      session.execute("CREATE TYPE types.point (x int, name text)");
      pointType = session.getMetadata().getKeyspace("types").get()
          .getUserDefinedType("point").get();
      int number = 0;
      for (Map.Entry<String, List<Object>> entry : values().entrySet()) {
        String type = entry.getKey().replace("point", "types.point");
        String table = "types.t" + ++number;
        session.execute("CREATE TABLE " + table + " (k int PRIMARY KEY, v " + type + ")");
        var insert = session.prepare("INSERT INTO " + table + " (k, v) VALUES (1, ?)");
        var select = session.prepare("SELECT v FROM " + table + " WHERE k = 1");
        List<Object> cases = new ArrayList<>(entry.getValue());
        cases.add(null);
        for (Object value : cases) {
          session.execute(insert.bind(value));
          Row row = session.execute(select.bind()).one();
          Object found = row.isNull("v") ? null : row.getObject("v");
          if (value == null ? found != null : !value.equals(found)) {
            throw new AssertionError(type + ": " + found + " instead of " + value);
          }
        }
      }
      session.execute("CREATE TABLE types.c (k int PRIMARY KEY, n counter)");
      session.execute(session.prepare("UPDATE types.c SET n = n + ? WHERE k = 1").bind(5L));
      session.execute(session.prepare("UPDATE types.c SET n = n - ? WHERE k = 1").bind(2L));
      long counter = session.execute("SELECT n FROM types.c WHERE k = 1").one().getLong("n");
      if (counter != 3) {
        throw new AssertionError("a counter of " + counter);
      }
    }
  }
}
