// Entities over every type, queries and repositories of Spring Data Cassandra: java Spring.java PORT

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.springframework.data.cassandra.config.SchemaAction;
import org.springframework.data.cassandra.config.SessionFactoryFactoryBean;
import org.springframework.data.cassandra.core.CassandraTemplate;
import org.springframework.data.cassandra.core.DeleteOptions;
import org.springframework.data.cassandra.core.InsertOptions;
import org.springframework.data.cassandra.core.UpdateOptions;
import org.springframework.data.cassandra.core.convert.MappingCassandraConverter;
import org.springframework.data.cassandra.core.cql.Ordering;
import org.springframework.data.cassandra.core.cql.PrimaryKeyType;
import org.springframework.data.cassandra.core.mapping.CassandraMappingContext;
import org.springframework.data.cassandra.core.mapping.CassandraType;
import org.springframework.data.cassandra.core.mapping.Column;
import org.springframework.data.cassandra.core.mapping.Indexed;
import org.springframework.data.cassandra.core.mapping.PrimaryKey;
import org.springframework.data.cassandra.core.mapping.PrimaryKeyColumn;
import org.springframework.data.cassandra.core.mapping.SimpleUserTypeResolver;
import org.springframework.data.cassandra.core.mapping.Table;
import org.springframework.data.cassandra.core.mapping.UserDefinedType;
import org.springframework.data.cassandra.core.query.CassandraPageRequest;
import org.springframework.data.cassandra.core.query.Criteria;
import org.springframework.data.cassandra.core.query.Query;
import org.springframework.data.cassandra.core.query.Update;
import org.springframework.data.cassandra.repository.AllowFiltering;
import org.springframework.data.cassandra.repository.CassandraRepository;
import org.springframework.data.cassandra.repository.support.CassandraRepositoryFactory;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;

public class Spring {
  @UserDefinedType("place")
  public record Place(int x, String name) {}

  @Table("everything")
  public static class Everything {
    @PrimaryKeyColumn(type = PrimaryKeyType.PARTITIONED, ordinal = 0)
    public UUID k;

    @PrimaryKeyColumn(type = PrimaryKeyType.CLUSTERED, ordinal = 1, ordering = Ordering.DESCENDING)
    public int c;

    @Column(isStatic = true)
    public String shared;

    @CassandraType(type = CassandraType.Name.ASCII)
    public String ascii;

    public Long bigint;
    public ByteBuffer blob;
    @Column("flag") public Boolean bool;
    @Column("day") public LocalDate date;
    @Column("price") public BigDecimal decimal;
    public Double real;
    public CqlDuration span;
    public Float small;
    public InetAddress inet;
    @Indexed public Integer number;
    public Short smallnumber;
    public String words;
    @Column("moment") public LocalTime time;
    public Instant instant;

    @CassandraType(type = CassandraType.Name.TIMEUUID)
    public UUID timeuuid;

    public Byte tiny;
    public UUID id;
    public BigInteger huge;
    public List<Integer> numbers;
    public Set<String> tags;
    public Map<String, Integer> scores;
    public Place place;
    public List<Place> places;
  }

  @Table("hits")
  public static class Hits {
    @PrimaryKey public String page;

    @CassandraType(type = CassandraType.Name.COUNTER)
    public Long n;
  }

  @Table("sessions")
  public static class Session {
    @PrimaryKey public String name;
    public String owner;

    public Session() {}

    public Session(String name, String owner) {
      this.name = name;
      this.owner = owner;
    }
  }

  public interface Sessions extends CassandraRepository<Session, String> {
    @AllowFiltering
    List<Session> findByOwner(String owner);

    @org.springframework.data.cassandra.repository.Query(
        "SELECT * FROM sessions WHERE name IN ?0")
    List<Session> named(List<String> names);
  }

  static void check(boolean holds, Object shown) {
    if (!holds) throw new AssertionError(shown);
  }

  static void same(Object found, Object wanted) {
    check(Objects.equals(found, wanted), found + ", not " + wanted);
  }

  static Everything filled(UUID k, int c) throws Exception {
    Everything row = new Everything();
    row.k = k;
    row.c = c;
    row.shared = "s";
    row.ascii = "a";
    row.bigint = Long.MIN_VALUE;
    row.blob = ByteBuffer.wrap(new byte[] {0, -1});
    row.bool = false;
    row.date = LocalDate.of(1969, 12, 31);
    row.decimal = new BigDecimal("-1.50");
    row.real = 1e300;
    row.span = CqlDuration.newInstance(1, 2, 3);
    row.small = -1.5f;
    row.inet = InetAddress.getByName("2001:db8::ff");
    row.number = 7;
    row.smallnumber = Short.MIN_VALUE;
    row.words = "it's ünï";
    row.time = LocalTime.of(23, 59, 59, 999_000_000);
    row.instant = Instant.parse("2026-11-26T10:00:00.123Z");
    row.timeuuid = Uuids.timeBased();
    row.tiny = Byte.MIN_VALUE;
    row.id = UUID.randomUUID();
    row.huge = BigInteger.ONE.shiftLeft(127);
    row.numbers = List.of(3, 1, 3);
    row.tags = Set.of("a", "b");
    row.scores = Map.of("a", 1, "b", 2);
    row.place = new Place(1, "p");
    row.places = List.of(new Place(2, "q"), new Place(3, null));
    return row;
  }

  static void valuesComeBack(CassandraTemplate template) throws Exception {
    Everything row = template.insert(filled(UUID.randomUUID(), 1));
    Query key = Query.query(Criteria.where("k").is(row.k), Criteria.where("c").is(1));
    Everything found = template.selectOne(key, Everything.class);
    for (var field : Everything.class.getFields()) same(field.get(found), field.get(row));
    for (var field : Everything.class.getFields()) {
      boolean isKey = List.of("k", "c").contains(field.getName());
      if (!isKey) field.set(row, null);
    }
    template.insert(row, InsertOptions.builder().withInsertNulls().build());
    found = template.selectOne(key, Everything.class);
    check(found.words == null && found.place == null && found.huge == null, found);
    check(found.numbers == null || found.numbers.isEmpty(), found.numbers);
  }

  static void collectionsChange(CassandraTemplate template) throws Exception {
    Everything row = template.insert(filled(UUID.randomUUID(), 2));
    Query key = Query.query(Criteria.where("k").is(row.k), Criteria.where("c").is(2));
    Update update = Update.empty().addTo("numbers").append(9).addTo("tags").append("c");
    check(template.update(key, update.addTo("scores").entry("c", 3), Everything.class), "updated");
    template.update(key, Update.empty().addTo("numbers").prepend(0), Everything.class);
    template.update(key, Update.empty().remove("tags", "a"), Everything.class);
    template.update(key, Update.empty().set("scores").atKey("a").to(5), Everything.class);
    template.update(key, Update.empty().set("numbers").atIndex(1).to(8), Everything.class);
    template.update(key, Update.update("place", new Place(8, "z")), Everything.class);
    Everything found = template.selectOne(key, Everything.class);
    same(found.numbers, List.of(0, 8, 1, 3, 9));
    same(found.tags, Set.of("b", "c"));
    same(found.scores, Map.of("a", 5, "b", 2, "c", 3));
    same(found.place, new Place(8, "z"));
  }

  static void queriesFindRows(CassandraTemplate template) throws Exception {
    UUID k = UUID.randomUUID();
    template.batchOps().insert(IntStream.range(0, 20).mapToObj(c -> {
      try {
        Everything row = filled(k, c);
        row.number = 100 + c % 2;
        row.words = "w" + c;
        return row;
      } catch (Exception error) {
        throw new RuntimeException(error);
      }
    }).toList()).execute();
    Query rows = Query.query(Criteria.where("k").is(k));
    same(template.count(rows, Everything.class), 20L);
    check(template.exists(rows, Everything.class), "it exists");
    same(places(template.select(rows.limit(3), Everything.class)), List.of(19, 18, 17));
    Query ascending = rows.sort(Sort.by("c")).limit(2);
    same(places(template.select(ascending, Everything.class)), List.of(0, 1));
    Query range = rows.and(Criteria.where("c").gte(5)).and(Criteria.where("c").lt(8));
    same(places(template.select(range, Everything.class)), List.of(7, 6, 5));
    Query some = rows.and(Criteria.where("c").in(1, 3));
    same(places(template.select(some, Everything.class)), List.of(3, 1));
    Query indexed = Query.query(Criteria.where("number").is(101));
    same(template.select(indexed, Everything.class).size(), 10);
    Query tagged = rows.and(Criteria.where("tags").contains("a")).withAllowFiltering();
    same(template.select(tagged, Everything.class).size(), 20);
    List<Integer> found = new ArrayList<>();
    Slice<Everything> page = template.slice(rows.pageRequest(CassandraPageRequest.first(3)), Everything.class);
    while (true) {
      check(page.getContent().size() <= 3, page);
      found.addAll(places(page.getContent()));
      if (!page.hasNext()) break;
      page = template.slice(rows.pageRequest(page.nextPageable()), Everything.class);
    }
    same(found, IntStream.range(0, 20).map(c -> 19 - c).boxed().toList());
    check(template.delete(rows.and(Criteria.where("c").is(4)), Everything.class), "deleted");
    same(template.count(rows, Everything.class), 19L);
  }

  static List<Integer> places(List<Everything> rows) {
    return rows.stream().map(row -> row.c).toList();
  }

  static void conditionsHold(CassandraTemplate template) {
    InsertOptions ifAbsent = InsertOptions.builder().withIfNotExists().build();
    check(template.insert(new Session("t", "a"), ifAbsent).wasApplied(), "inserted");
    check(!template.insert(new Session("t", "b"), ifAbsent).wasApplied(), "it exists");
    for (boolean isApplied : new boolean[] {true, false}) {
      UpdateOptions ifOwned =
          UpdateOptions.builder().ifCondition(Criteria.where("owner").is("a")).build();
      same(template.update(new Session("t", "c"), ifOwned).wasApplied(), isApplied);
    }
    DeleteOptions ifExists = DeleteOptions.builder().withIfExists().build();
    check(template.delete(new Session("t", null), ifExists).wasApplied(), "deleted");
    check(!template.delete(new Session("t", null), ifExists).wasApplied(), "it is gone");
  }

  static void valuesExpire(CassandraTemplate template) throws Exception {
    InsertOptions ttl = InsertOptions.builder().ttl(Duration.ofSeconds(1)).build();
    template.insert(new Session("short", "a"), ttl);
    check(template.selectOneById("short", Session.class) != null, "it is there");
    Thread.sleep(2_100);
    check(template.selectOneById("short", Session.class) == null, "it has expired");
  }

  static void batchesAreApplied(CassandraTemplate template) {
    template.insert(new Session("b", "z"));
    template
        .batchOps()
        .insert(new Session("a", "x"), new Session("c", "y"))
        .update(new Session("d", "y"))
        .delete(new Session("b", null))
        .execute();
    same(template.count(Session.class), 3L);
  }

  static void repositoriesFindRows(CassandraTemplate template) {
    var factory = new CassandraRepositoryFactory(template);
    factory.setBeanClassLoader(Spring.class.getClassLoader());
    Sessions sessions = factory.getRepository(Sessions.class);
    same(sessions.findByOwner("y").size(), 2);
    same(sessions.named(List.of("a", "c", "missing")).size(), 2);
    same(sessions.findById("a").orElseThrow().owner, "x");
    sessions.saveAll(List.of(new Session("e", "v"), new Session("f", "v")));
    same(sessions.count(), 5L);
    same(sessions.findAllById(List.of("e", "f")).size(), 2);
    same(sessions.findAll(CassandraPageRequest.first(2)).getContent().size(), 2);
    sessions.deleteById("e");
    check(!sessions.existsById("e"), "deleted");
    sessions.deleteAll();
    same(sessions.count(), 0L);
  }

  static void countersAndTuples(CassandraTemplate template, CqlSession session) {
    for (long amount : new long[] {5, -2}) {
      Update update = Update.empty().increment("n", amount);
      template.update(Query.query(Criteria.where("page").is("p")), update, Hits.class);
    }
    same(template.selectOneById("p", Hits.class).n, 3L);
    template.getCqlOperations().execute("CREATE TABLE pairs (k int PRIMARY KEY, v tuple<int, text>)");
    TupleValue pair = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT).newValue(7, "x");
    template.getCqlOperations().execute("INSERT INTO pairs (k, v) VALUES (1, ?)", pair);
    TupleValue found =
        session.execute(SimpleStatement.newInstance("SELECT v FROM pairs")).one().getTupleValue(0);
    same(found.getFormattedContents(), "(7,'x')");
  }

  public static void main(String[] arguments) throws Exception {
    var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    var builder = CqlSession.builder().addContactPoint(address).withLocalDatacenter("datacenter1");
    try (CqlSession first = builder.build()) {
      first.execute(
          "CREATE KEYSPACE spring WITH replication ="
              + " {'class': 'SimpleStrategy', 'replication_factor': 1}");
    }
    try (CqlSession session = builder.withKeyspace("spring").build()) {
      CassandraMappingContext context = new CassandraMappingContext();
      context.setInitialEntitySet(
          Set.of(Everything.class, Hits.class, Session.class, Place.class));
      context.afterPropertiesSet();
      MappingCassandraConverter converter = new MappingCassandraConverter(context);
      converter.setCodecRegistry(session.getContext().getCodecRegistry());
      converter.setUserTypeResolver(new SimpleUserTypeResolver(session));
      converter.afterPropertiesSet();
      // Creates the tables, the type and the index of the entities.
      SessionFactoryFactoryBean factory = new SessionFactoryFactoryBean();
      factory.setSession(session);
      factory.setConverter(converter);
      factory.setSchemaAction(SchemaAction.CREATE_IF_NOT_EXISTS);
      factory.afterPropertiesSet();
      CassandraTemplate template = new CassandraTemplate(factory.getObject(), converter);
      valuesComeBack(template);
      collectionsChange(template);
      queriesFindRows(template);
      conditionsHold(template);
      valuesExpire(template);
      batchesAreApplied(template);
      repositoriesFindRows(template);
      countersAndTuples(template, session);
    }
  }
}
