package carnet;

import com.scalar.db.api.DistributedTransaction;
import com.scalar.db.api.DistributedTransactionAdmin;
import com.scalar.db.api.DistributedTransactionManager;
import com.scalar.db.api.Get;
import com.scalar.db.api.Insert;
import com.scalar.db.api.Result;
import com.scalar.db.api.TableMetadata;
import com.scalar.db.api.Update;
import com.scalar.db.exception.transaction.CommitConflictException;
import com.scalar.db.exception.transaction.CrudConflictException;
import com.scalar.db.exception.transaction.TransactionException;
import com.scalar.db.exception.transaction.UnknownTransactionStatusException;
import com.scalar.db.io.DataType;
import com.scalar.db.io.Key;
import com.scalar.db.service.TransactionFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;

/**
 * Transfers between accounts on ScalarDB: a peer of `carnet-bench transfers`, which says what a
 * peer is asked and answers.
 *
 * <p>Arguments: HOST PORT NAMESPACE ISOLATION ACCOUNTS, then further properties as NAME=VALUE.
 */
public final class Transfers {
  private static final String TABLE = "accounts";
  private static final int BALANCE = 1_000;
  private static final int LOADERS = 16;

  private final DistributedTransactionManager manager;
  private final String namespace;
  private final int accounts;

  private Transfers(DistributedTransactionManager manager, String namespace, int accounts) {
    this.manager = manager;
    this.namespace = namespace;
    this.accounts = accounts;
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.setProperty("scalar.db.storage", "cassandra");
    properties.setProperty("scalar.db.contact_points", arguments[0]);
    properties.setProperty("scalar.db.contact_port", arguments[1]);
    properties.setProperty("scalar.db.consensus_commit.isolation_level", arguments[3]);
    for (String setting : Arrays.asList(arguments).subList(5, arguments.length)) {
      String[] parts = setting.split("=", 2);
      properties.setProperty(parts[0], parts[1]);
    }
    TransactionFactory factory = TransactionFactory.create(properties);
    createTables(factory.getTransactionAdmin(), arguments[2]);
    DistributedTransactionManager manager = factory.getTransactionManager();
    Transfers transfers =
        new Transfers(manager, arguments[2], Integer.parseInt(arguments[4]));
    transfers.load();
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] asked = line.trim().split(" ");
      System.out.println(
          transfers.turn(
              Integer.parseInt(asked[0]), Long.parseLong(asked[1]), Long.parseLong(asked[2])));
    }
    // What is left unfinished is nobody's: the node goes with the run.
    System.exit(0);
  }

  private static void createTables(DistributedTransactionAdmin admin, String namespace)
      throws Exception {
    Map<String, String> options = Map.of("replication-factor", "1");
    TableMetadata accounts =
        TableMetadata.newBuilder()
            .addColumn("number", DataType.BIGINT)
            .addColumn("balance", DataType.BIGINT)
            .addPartitionKey("number")
            .build();
    admin.createCoordinatorTables(true, options);
    admin.createNamespace(namespace, true, options);
    admin.createTable(namespace, TABLE, accounts, true, options);
    admin.close();
  }

  private void load() throws Exception {
    together(
        LOADERS,
        loader -> {
          for (int number = loader; number < accounts; number += LOADERS) {
            DistributedTransaction transaction = manager.begin();
            transaction.insert(
                Insert.newBuilder()
                    .namespace(namespace)
                    .table(TABLE)
                    .partitionKey(Key.ofBigInt("number", number))
                    .bigIntValue("balance", BALANCE)
                    .build());
            transaction.commit();
          }
        });
  }

  private String turn(int clients, long millis, long seed) throws Exception {
    AtomicLong again = new AtomicLong();
    long[][] took = new long[clients][];
    long begin = System.nanoTime();
    long end = begin + millis * 1_000_000;
    together(
        clients,
        client -> {
          SplittableRandom random = new SplittableRandom(seed << 32 | client);
          LongStream.Builder all = LongStream.builder();
          for (long last = System.nanoTime(); last < end; ) {
            int from = random.nextInt(accounts);
            int to = (from + 1 + random.nextInt(accounts - 1)) % accounts;
            while (!transfer(from, to)) {
              again.incrementAndGet();
            }
            long now = System.nanoTime();
            all.add((now - last) / 1_000);
            last = now;
          }
          took[client] = all.build().toArray();
        });
    double seconds = (System.nanoTime() - begin) / 1e9;
    long[] all = Arrays.stream(took).flatMapToLong(Arrays::stream).sorted().toArray();
    return String.format(
        "{\"committed\": %d, \"again\": %d, \"seconds\": %.3f, \"p50_us\": %d, \"p99_us\": %d}",
        all.length, again.get(), seconds, quantile(all, 0.5), quantile(all, 0.99));
  }

  /** Tells whether it committed: a conflict is no failure. */
  private boolean transfer(int from, int to) throws TransactionException {
    DistributedTransaction transaction = manager.begin();
    try {
      long a = balance(transaction, from);
      long b = balance(transaction, to);
      update(transaction, from, a - 1);
      update(transaction, to, b + 1);
      transaction.commit();
      return true;
    } catch (CrudConflictException | CommitConflictException conflict) {
      transaction.rollback();
      return false;
    } catch (UnknownTransactionStatusException unknown) {
      return false;
    }
  }

  private long balance(DistributedTransaction transaction, int number)
      throws TransactionException {
    Get get =
        Get.newBuilder()
            .namespace(namespace)
            .table(TABLE)
            .partitionKey(Key.ofBigInt("number", number))
            .build();
    return transaction.get(get).map((Result found) -> found.getBigInt("balance")).orElse(0L);
  }

  private void update(DistributedTransaction transaction, int number, long balance)
      throws TransactionException {
    transaction.update(
        Update.newBuilder()
            .namespace(namespace)
            .table(TABLE)
            .partitionKey(Key.ofBigInt("number", number))
            .bigIntValue("balance", balance)
            .build());
  }

  private static long quantile(long[] sorted, double of) {
    return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, sorted.length * of)];
  }

  private interface Work {
    void run(int client) throws Exception;
  }

  /** Runs as many threads as there are clients, and fails as the first one that does. */
  private static void together(int clients, Work work) throws Exception {
    Thread[] threads = new Thread[clients];
    Exception[] failed = new Exception[clients];
    CountDownLatch all = new CountDownLatch(clients);
    for (int client = 0; client < clients; client++) {
      int number = client;
      threads[client] =
          new Thread(
              () -> {
                try {
                  all.countDown();
                  all.await();
                  work.run(number);
                } catch (Exception error) {
                  failed[number] = error;
                }
              });
      threads[client].start();
    }
    for (int client = 0; client < clients; client++) {
      threads[client].join();
      if (failed[client] != null) {
        throw failed[client];
      }
    }
  }
}
