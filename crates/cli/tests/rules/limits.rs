//! Each row of `docs/limits.md` has a constant of the code: the test fails if only the page or only the code changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Begin of a row, source in `crates`, constant or default there, and its words on the page.
#[rustfmt::skip]
const LIMITS: &[(&str, &str, &str, &str)] = &[
    ("partition key, as", "base/src/limits.rs", "const PARTITION_KEY_BYTES_MAX: usize = u16::MAX as usize;", "65,535 bytes"),
    ("clustering key of a row that CQL", "data/src/partition.rs", "const LEN_MAX: usize = PARTITION_KEY_BYTES_MAX;", "65,535 bytes"),
    ("value that is compared", "data/src/partition.rs", "const LEN_MAX: usize = PARTITION_KEY_BYTES_MAX;", "65,535 bytes"),
    ("clustering key, or key", "base/src/limits.rs", "const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);", "262,140 bytes"),
    ("value: a row", "base/src/limits.rs", "const VALUE_BYTES_MAX: usize = 32 << 20;", "32 MiB"),
    ("value: a row", "txn/src/limits.rs", "const DELTA_BYTES_MAX: usize = 64 << 10;", "up to 64 KiB"),
    ("value: a row", "store-local/src/lib.rs", "const DELTAS_MAX: usize = 8;", "up to eight"),
    ("the same over a cluster", "store-cql/src/cells.rs", "const PAYLOAD_BYTES_MAX: usize = 8 << 20;", "8 MiB"),
    ("changes of a row over", "sequencer/src/leader/folds.rs", "const DELTAS_MAX: u32 = 8;", "eight and a few"),
    ("changes of a row over", "sequencer/src/leader/fold.rs", "const VERSIONS_MAX: usize = 256;", "requests of 256"),
    ("keys and values that", "txn/src/limits.rs", "write_bytes: 1 << 30", "1 GiB"),
    ("keys and values that", "txn/src/limits.rs", "spill_bytes: 8 << 20", "8 MiB in memory"),
    ("keys and values that", "txn/src/limits.rs", "memory_bytes: 64 << 20", "64 MiB"),
    ("cells that a transaction", "txn/src/limits.rs", "write_cells: 10_000_000", "10,000,000"),
    ("request of a commit to", "sequencer/src/wire/codec/mod.rs", "const FRAME_BYTES_MAX: usize = 64 << 20;", "64 MiB"),
    ("read set of a transaction", "txn/src/limits.rs", "read_set_bytes: 64 << 20", "64 MiB"),
    ("memory of the read and write", "storage/src/engine/spill.rs", "const SMALL_RUNS_MAX: usize = 8;", "fewer than 8"),
    ("memory of the read and write", "storage/src/engine/spill.rs", "const MERGED_BYTES_MAX: u64 = 32 << 20;", "less than 32 MiB"),
    ("idle time of a writing", "txn/src/idle.rs", "writer: seconds(600)", "10 minutes"),
    ("idle time of a snapshot", "txn/src/idle.rs", "reader: seconds(3600)", "1 hour"),
    ("transactions that stay open", "cql/src/exec/open/registry.rs", "const ENDED_MAX: usize = 10_000;", "last 10,000"),
    ("transactions that stay open", "cql/src/exec/open/registry.rs", "transactions_max: 1000,", "1000, "),
    ("transactions that stay open", "cql/src/exec/open/registry.rs", "idle_timeout: Duration::from_secs(300)", "5 minutes"),
    ("recent commits, kept", "txn/src/conflict.rs", "const DEFAULT_BYTES_MAX: usize = 64 << 20;", "up to 64 MiB"),
    ("recent commits, kept", "store-local/src/spill.rs", "const LISTED_BYTES_MAX: usize = 16 << 20;", "at most 16 MiB"),
    ("a CQL statement |", "cql/src/parser/mod.rs", "const STATEMENT_BYTES_MAX: usize = 16 << 20;", "16 MiB of text"),
    ("a CQL statement |", "cql/src/parser/mod.rs", "const TOKENS_MAX: usize = 1 << 20;", "1,048,576 words"),
    ("a CQL statement |", "cql/src/parser/mod.rs", "const TERMS_MAX: usize = 100_000;", "100,000 terms"),
    ("a CQL statement |", "cql/src/parser/mod.rs", "const MARKERS_MAX: usize = 65_535;", "65,535 markers"),
    ("a CQL statement |", "cql/src/parser/mod.rs", "const NESTING_MAX: usize = 64;", "64 levels"),
    ("columns or fields, options", "cql/src/parser/mod.rs", "const DEFINITIONS_MAX: usize = 2_000;", "2,000, 100 and 256"),
    ("columns or fields, options", "cql/src/parser/mod.rs", "const OPTIONS_MAX: usize = 100;", "2,000, 100 and 256"),
    ("columns or fields, options", "cql/src/parser/mod.rs", "const LETS_MAX: usize = 256;", "2,000, 100 and 256"),
    ("steps of a statement", "cql/src/steps.rs", "const SECTION_STEPS_MAX: u64 = 4 << 20;", "4,194,304"),
    ("numbers of type", "cql/src/compile/decimal.rs", "const NUMBER_BITS_MAX: u64 = 1 << 18;", "262,144 bits"),
    ("text that `+`", "cql/src/compile/number.rs", "if bytes > VALUE_BYTES_MAX {", "32 MiB"),
    ("integer part of a decimal", "cql/src/parser/mod.rs", "const NUMBER_DIGITS_MAX: usize = 10_000;", "10,000 digits"),
    ("a term or value in the message", "cql/src/shown.rs", "const SHOWN_BYTES_MAX: usize = 64;", "64 bytes"),
    ("JSON text of", "cql/src/json/read.rs", "const TEXT_BYTES_MAX: usize = 1 << 20;", "1 MiB"),
    ("a batch of statements", "cql/src/parser/mod.rs", "const TERMS_MAX: usize = 100_000;", "100,000 terms"),
    ("a number in a CQL", "cql/src/parser/mod.rs", "const NUMBER_DIGITS_MAX: usize = 10_000;", "10,000 digits"),
    ("time to live", "cql/src/system/option_values.rs", "const TTL_MAX: i32 = 20 * 365 * 24 * 3600;", "630,720,000 s, 20 years"),
    ("indexed value of a row", "carnet/src/index/layout.rs", "const INDEX_VALUE_BYTES_MAX: usize = 8 << 10;", "8 KiB"),
    ("value of the only column", "base/src/limits.rs", "const PARTITION_KEY_BYTES_MAX: usize = u16::MAX as usize;", "65,535 bytes"),
    ("clustering key of a view", "base/src/limits.rs", "const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);", "262,140 bytes"),
    ("partitions of an index", "carnet/src/schema/index_schema.rs", "const INDEX_BITS_MAX: u8 = 8;", "256"),
    ("dimensions of a vector", "cql/src/parser/types.rs", "dimensions; given {digits}\", u16::MAX)", "65,535"),
    ("rows of a query with `ANN OF`", "cql/src/compile/near.rs", "const ROWS_MAX: u32 = 1_000;", "1,000"),
    ("depth of a type", "data/src/value.rs", "const TYPE_DEPTH_MAX: usize = 32;", "32 types"),
    ("name of a keyspace;", "carnet/src/schema/limits.rs", "const KEYSPACE_NAME_BYTES_MAX: usize = 48;", "48 bytes"),
    ("name of a keyspace;", "carnet/src/schema/limits.rs", "const NAME_BYTES_MAX: usize = 222;", "222 bytes"),
    ("name of a column", "carnet/src/schema/limits.rs", "const PART_NAME_BYTES_MAX: usize = 255;", "255 bytes"),
    ("columns of a table;", "carnet/src/schema/limits.rs", "const COLUMNS_MAX: usize = 1_000;", "1,000 each"),
    ("columns of a table;", "carnet/src/schema/limits.rs", "const FIELDS_MAX: usize = 1_000;", "1,000 each"),
    ("columns of a table;", "carnet/src/schema/limits.rs", "const TYPES_MAX: usize = 1_000;", "1,000 each"),
    ("indexes of a table", "carnet/src/schema/limits.rs", "const INDEXES_MAX: usize = 100;", "100 each"),
    ("indexes of a table", "carnet/src/schema/limits.rs", "const VIEWS_MAX: usize = 100;", "100 each"),
    ("keyspaces; tables", "carnet/src/schema/limits.rs", "const KEYSPACES_MAX: usize = 1_000;", "1,000;"),
    ("keyspaces; tables", "carnet/src/schema/limits.rs", "const TABLES_MAX: usize = 4_000;", "4,000"),
    ("type with the types", "carnet/src/schema/limits.rs", "const TYPE_BYTES_MAX: usize = 256 << 10;", "256 KiB"),
    ("type with the types", "carnet/src/schema/limits.rs", "const COLUMNS_BYTES_MAX: usize = 4 << 20;", "4 MiB"),
    ("type with the types", "carnet/src/schema/limits.rs", "const CLASS_BYTES_MAX: usize = u16::MAX as usize;", "65,535 bytes"),
    ("record of a keyspace", "carnet/src/schema/limits.rs", "const RECORD_BYTES_MAX: usize = 8 << 20;", "8 MiB"),
    ("values of the list behind one", "cql/src/parser/mod.rs", "const IN_VALUES_MAX: usize = 10_000;", "10,000"),
    ("keys that the lists", "cql/src/compile/keys.rs", "const KEYS_MAX: usize = 10_000;", "10,000;"),
    ("keys that the lists", "cql/src/exec/targets.rs", "const BATCH_KEYS_MAX: usize = 100_000;", "100,000"),
    ("a number that `toJson`", "cql/src/parser/mod.rs", "const NUMBER_DIGITS_MAX: usize = 10_000;", "10,000 digits"),
    ("a value that `toJson`", "cql/src/json.rs", "const TEXT_BYTES_MAX: usize = 64 << 20;", "64 MiB"),
    ("a result without pages", "cql/src/exec/select_reader.rs", "const UNPAGED_BYTES_MAX: usize = 64 << 20;", "64 MiB"),
    ("rows that an `IN` reads", "cql/src/exec/scan.rs", "const PAGE_CELLS: usize = 256;", "256 rows"),
    ("rows that an `IN` reads", "storage/src/engine/get.rs", "const READS_MAX: usize = 32;", "up to 31 reads"),
    ("statements that run at", "admission/src/lib.rs", "const RUNNING_PER_PROCESSOR: usize = 8;", "8 for each processor"),
    ("statements that wait, for each", "server/src/connection/backlog.rs", "const SHARE_MAX: usize = 32;", "at most 32"),
    ("statements that wait,", "admission/src/lib.rs", "queue_max: 1_000,", "1,000 with 16 MiB"),
    ("statements that wait,", "admission/src/lib.rs", "queue_bytes_max: 16 << 20,", "1,000 with 16 MiB"),
    ("kept traces", "cql/src/trace.rs", "const SESSIONS_MAX: usize = 1_000;", "1,000 of"),
    ("kept traces", "cql/src/trace.rs", "const BYTES_MAX: usize = 8 << 20;", "8 MiB together"),
    ("kept traces", "cql/src/trace.rs", "const EVENTS_MAX: usize = 200;", "200 steps"),
    ("kept traces", "cql/src/trace.rs", "const TEXT_MAX: usize = 2_048;", "2 KiB"),
    ("roles |", "carnet/src/roles/limits.rs", "const ROLES_MAX: usize = 10_000;", "10,000, granted"),
    ("roles |", "carnet/src/roles/limits.rs", "const MEMBERSHIPS_MAX: usize = 20_000;", "20,000 times"),
    ("roles |", "carnet/src/roles/limits.rs", "const GRANTS_MAX: usize = 50_000;", "50,000 pairs"),
    ("roles |", "carnet/src/roles/limits.rs", "const IDENTITIES_MAX: usize = 10_000;", "10,000 identities"),
    ("roles |", "carnet/src/roles/limits.rs", "const IDENTITY_BYTES_MAX: usize = 1_024;", "1,024 bytes"),
    ("roles |", "carnet/src/roles/limits.rs", "const NAME_BYTES_MAX: usize = 255;", "names of 255 bytes"),
    ("roles |", "carnet/src/passwords/mod.rs", "const PASSWORD_BYTES_MAX: usize = 4_096;", "passwords of 4,096"),
    ("roles |", "carnet/src/roles/limits.rs", "const OPTIONS_MAX: usize = 64;", "64 entries"),
    ("roles |", "carnet/src/roles/limits.rs", "const OPTIONS_BYTES_MAX: usize = 16 << 10;", "16 KiB"),
    ("hash of a password", "carnet/src/passwords/mod.rs", "const MEMORY_KIB_MAX: u32 = 64 << 10;", "64 MiB of memory"),
    ("hash of a password", "carnet/src/passwords/mod.rs", "const PASSES_MAX: u32 = 16;", "16 passes"),
    ("hash of a password", "carnet/src/passwords/mod.rs", "const BCRYPT_COST_MAX: u32 = 14;", "cost of 14"),
    ("service levels |", "admission/src/levels/set.rs", "const LEVELS_MAX: usize = 32;", "32; "),
    ("service levels |", "admission/src/levels/set.rs", "const ATTACHED_MAX: usize = 10_000;", "10,000 users"),
    ("service levels |", "admission/src/levels/set.rs", "const NAME_BYTES_MAX: usize = 48;", "48 bytes"),
    ("timeout of a statement", "cli/src/settings/limits.rs", "self.statement_timeout.unwrap_or(Duration::from_secs(5))", "else 5 s, "),
    ("timeout of a statement", "cli/src/settings/limits.rs", "self.scan_timeout.unwrap_or(Duration::from_secs(60))", "60 s for statements that read"),
    ("timeout of a statement", "cli/src/settings/limits.rs", "self.schema_timeout.unwrap_or(Duration::from_secs(60))", "60 s for schema changes"),
    ("connections of the server", "server/src/limits.rs", "connections_max: 4096,", "4096, "),
    ("connections of the server", "server/src/limits.rs", "const CONNECTION_BYTES: usize = 48 << 10;", "48 KiB each"),
    ("requests that have arrived", "server/src/connection/receive.rs", "const READ_LEN_MAX: usize = 64 << 10;", "64 KiB ahead"),
    ("requests that have arrived", "server/src/protocol/segment.rs", "const PAYLOAD_LEN_MAX: usize = (1 << 17) - 1;", "128 KiB"),
    ("requests, answers and", "server/src/limits.rs", "const TLS_BYTES: usize = 48 << 10;", "48 KiB, or 96 KiB over TLS"),
    ("answers that are being", "cql/src/exec/answer_memory.rs", "const SMALL_BYTES: usize = 64 << 10;", "64 KiB"),
    ("answers that are being", "cql/src/exec/answer_memory.rs", "const LARGE_BYTES: usize = 1 << 20;", "1 MiB"),
    ("a request's body", "server/src/connection/driver.rs", "const GREETING_BODY_MAX: usize = 64 << 10;", "64 KiB before"),
    ("a request's body", "server/src/limits.rs", "body_bytes_max: 16 << 20,", "16 MiB; "),
    ("time for the arrival", "server/src/limits.rs", "frame_timeout: Duration::from_secs(30),", "30 s, and"),
    ("time for which a client reads", "server/src/connection/driver.rs", "const STALL_TIMEOUT: Duration = Duration::from_secs(2);", "2 s while answers"),
    ("time for which a client reads", "server/src/limits.rs", "stall_timeout: Duration::from_secs(30),", "30 s; "),
    ("time for which a client reads", "server/src/limits.rs", "unsent_bytes_max: 1 << 20,", "more than 1 MiB"),
    ("time until a client", "server/src/limits.rs", "greeting_timeout: Duration::from_secs(10),", "10 s"),
    ("TLS handshakes", "server/src/tls/handshake.rs", "const HANDSHAKES_MAX: usize = 512;", "512"),
    ("TLS handshakes", "server/src/tls/handshake.rs", "const HANDSHAKES_PER_ADDRESS_MAX: usize = 16;", "16 from one address"),
    ("time for which SIGTERM", "server/src/limits.rs", "drain_timeout: Duration::from_secs(10),", "10 s, "),
    ("idle time of a client", "server/src/limits.rs", "idle_timeout: Duration::from_secs(600),", "10 minutes"),
    ("entries of the audit log", "server/src/audit/log.rs", "const WAITING_MAX: usize = 4_096;", "4,096"),
    ("entries of the audit log", "cql/src/exec/audited.rs", "const TEXT_LEN_MAX: usize = 4 << 10;", "4 KiB"),
    ("connections of one user", "server/src/limits.rs", "connections_per_user_max: None,", "none; "),
    ("requests per second", "server/src/limits.rs", "requests_per_client_max: None,", "none; "),
    ("log-ins |", "server/src/auth.rs", "const RUNNING_MAX: usize = 2;", "2 hashes"),
    ("log-ins |", "server/src/auth.rs", "const WAITING_MAX: usize = 256;", "256 including"),
    ("log-ins |", "server/src/hashing.rs", "const RUNNING_MAX: usize = 1;", "One more hash"),
    ("log-ins |", "server/src/hashing.rs", "const WAITING_MAX: usize = 64;", "64 including"),
    ("connections for health", "server/src/http/service.rs", "const CONNECTIONS_MAX: usize = 64;", "64, half"),
    ("a request of the dashboard", "server/src/http/connection.rs", "const HEAD_LEN_MAX: usize = 8 << 10;", "8 KiB of head"),
    ("a request of the dashboard", "server/src/http/query.rs", "const BODY_LEN_MAX: usize = 1 << 20;", "1 MiB of body"),
    ("a request of the dashboard", "server/src/http/login.rs", "const LOGIN_LEN_MAX: usize = 4 << 10;", "4 KiB for a log-in"),
    ("a request of the dashboard", "server/src/http/query.rs", "const PAGE_ROWS_MAX: u32 = 5_000;", "5,000 rows"),
    ("a request of the dashboard", "server/src/http/query.rs", "const ANSWER_BYTES_MAX: usize = 4 << 20;", "4 MiB of text"),
    ("a request of the dashboard", "server/src/http/sessions.rs", "const STATEMENTS_MAX: usize = 8;", "8 statements"),
    ("a request of the dashboard", "server/src/http/connection.rs", "const HEAD_TIMEOUT: Duration = Duration::from_secs(5);", "in 5 s"),
    ("a request of the dashboard", "server/src/http/body.rs", "const BODY_TIMEOUT: Duration = Duration::from_secs(10);", "in 10 s"),
    ("sessions of the dashboard", "server/src/http/sessions.rs", "const SESSIONS_MAX: usize = 256;", "256, of"),
    ("sessions of the dashboard", "server/src/http/sessions.rs", "const SESSIONS_PER_OWNER_MAX: usize = 16;", "16 of one"),
    ("sessions of the dashboard", "server/src/http/sessions.rs", "const IDLE_MAX: Duration = Duration::from_secs(30 * 60);", "30 minutes"),
    ("sessions of the dashboard", "server/src/http/sessions.rs", "const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);", "12 hours"),
    ("log lines about", "server/src/limited_log.rs", "const BURST: u32 = 10;", "10 of each at once"),
    ("log lines about", "server/src/limited_log.rs", "const INTERVAL: Duration = Duration::from_secs(1);", "then one a second"),
    ("log lines about", "server/src/audit/change_log.rs", "const BURST: u32 = 100;", "100 of each"),
    ("prepared statements together", "cql/src/exec/prepared.rs", "const PREPARED_BYTES_MAX: usize = 64 << 20;", "64 MiB"),
    ("one prepared statement", "cql/src/exec/prepared.rs", "const SHARE: usize = 4;", "a quarter of that memory, 16 MiB"),
    ("one prepared statement", "cql/src/exec/prepared.rs", "const TOKEN_BYTES: usize = 300;", "300 bytes for each word"),
    ("one prepared statement", "cql/src/exec/prepared.rs", "const STATEMENT_BYTES: usize = 4 << 10;", "4 KiB, "),
    ("one prepared statement", "cql/src/exec/prepared.rs", "const TEXT_COPIES: usize = 3;", "3 for each byte"),
    ("one prepared statement", "cql/src/exec/prepared.rs", "const SPEC_BYTES: usize = 512;", "512 for each marker"),
    ("statements in progress", "server/src/limits.rs", "requests_per_connection_max: 1024,", "1,024; "),
    ("a response of the server", "server/src/protocol/writer.rs", "const BODY_LEN_MAX: usize = 256 << 20;", "256 MiB"),
];

/// Reads a file of the repository.
fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn rows(page: &str) -> Vec<&str> {
    let (_, table) = page.split_once("| limit of | maximum | where it is checked |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_start_matches("| ")).collect()
}

/// Returns `true` if a row has these words, and not as the end of a longer number.
fn has(row: &str, words: &str) -> bool {
    row.match_indices(words).any(|(at, _)| {
        !row[..at].ends_with(|before: char| before.is_ascii_digit() || ",.".contains(before))
    })
}

#[test]
fn limits_of_the_page_are_those_of_the_code() {
    let page = text("docs/limits.md");
    let rows = rows(&page);
    let mut known = BTreeSet::new();
    for (begin, source, constant, words) in LIMITS {
        let found: Vec<_> = rows.iter().filter(|row| row.starts_with(begin)).collect();
        let [row] = found[..] else { panic!("{} rows begin: {begin}", found.len()) };
        assert!(has(row, words), "{words:?} is not in the row: {row}");
        let source_text = text(&format!("crates/{source}"));
        assert!(source_text.contains(constant), "{source} has no {constant}, of the row: {row}");
        known.insert(row);
    }
    let unknown: Vec<_> = rows.iter().filter(|row| !known.contains(row)).collect();
    assert!(unknown.is_empty(), "rows whose constants no entry of LIMITS names: {unknown:#?}");
}
