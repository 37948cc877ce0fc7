//! All settings, with their defaults and descriptions.

use std::fmt::Write;

use carnet::cluster::OPTIONS;

use super::examples::example;

/// Setting with its default, empty if it has none.
pub(super) struct Setting {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    what: &'static str,
}

const fn setting(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    what: &'static str,
) -> Setting {
    Setting { section, name, default, what }
}

/// Settings of this program. `[cluster]` also takes the options of a cluster's URL.
pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "server",
        "listen",
        "127.0.0.1:9042",
        "Address for CQL. An address beyond loopback requires users or roles, and [tls].",
    ),
    setting(
        "server",
        "advertise",
        "",
        "Address that drivers are given for this server, if it differs from the listen address.",
    ),
    setting(
        "server",
        "data_center",
        "datacenter1",
        "Name of the data centre, for drivers and for the replication of keyspaces. All servers of a database have the same.",
    ),
    setting(
        "server",
        "http",
        "127.0.0.1:9180",
        "Address for /livez, /readyz, /metrics and the dashboard, or \"off\". An address beyond loopback requires \
         http_token_file and [tls].",
    ),
    setting(
        "server",
        "http_token_file",
        "",
        "File with a token of 16 characters or more. Clients of the HTTP port show it: Authorization: Bearer TOKEN.",
    ),
    setting(
        "server",
        "http_hosts",
        "",
        "Names by which browsers reach the dashboard, separated by commas, such as db1.example.com. localhost and the \
         server's\n# address are known without; other names are refused, since a foreign page could use them.",
    ),
    setting(
        "server",
        "http_dashboard",
        "true",
        "false: the HTTP port has /livez, /readyz and /metrics only.",
    ),
    setting(
        "server",
        "http_console",
        "true",
        "false: the dashboard runs the statements of its pages, and no others.",
    ),
    setting(
        "server",
        "table_metrics",
        "100",
        "Maximum number of tables on /metrics: the ones with the most operations; 0 for none.",
    ),
    setting(
        "server",
        "users",
        "",
        "File with a line NAME:HASH for each user, as `carnet hash-password` prints it. Such a user may do \
         everything.",
    ),
    setting(
        "server",
        "roles",
        "false",
        "true: clients log in as roles of the database (CREATE ROLE), also without users. The first start \
         writes the password\n# of a first superuser to the file first-superuser in the database's \
         directory.",
    ),
    setting(
        "server",
        "connections",
        "4096",
        "Maximum CQL connections at a time; more are closed at once.",
    ),
    setting(
        "server",
        "connections_per_address",
        "2048",
        "The same from one address, or one /64 network of IPv6. If not set, half of connections. \
         Behind a proxy\n# all clients share its address.",
    ),
    setting(
        "server",
        "connections_per_user",
        "",
        "The same of one user or role; further log-ins are refused. If not set, no limit.",
    ),
    setting(
        "server",
        "memory",
        "",
        "Memory of the server as a whole, such as 4GiB. If not set, a quarter of the memory of the \
         container or machine.\n# The parts below are of it.",
    ),
    setting(
        "server",
        "request_memory",
        "",
        "Memory for requests that are not answered yet; requests that do not fit wait for 5 s, and are refused then. If not \
         set,\n# half of the memory that database.memory, transaction_memory and prepared_memory leave.",
    ),
    setting(
        "server",
        "request_memory_per_address",
        "",
        "Memory for unanswered requests of one client address. If not set, half of request_memory.",
    ),
    setting(
        "server",
        "idle_timeout",
        "10m",
        "Idle time after which a connection is closed; 0s for never. Drivers send heartbeats.",
    ),
    setting(
        "server",
        "shutdown_timeout",
        "10s",
        "Time for which SIGTERM waits for requests in progress; then they are cut off, and the exit code is 3.",
    ),
    setting(
        "server",
        "timestamps",
        "refuse",
        "USING TIMESTAMP: refuse fails the statement, ignore runs it without the timestamp, record makes it the write \
         time,\n# which decides between values as in Cassandra.",
    ),
    setting(
        "server",
        "answer_memory",
        "",
        "Memory for answers that are being made or wait for clients to read them; one may have half of it. If not \
         set,\n# half of the memory that database.memory, transaction_memory and prepared_memory leave.",
    ),
    setting(
        "server",
        "prepared_memory",
        "",
        "Memory for prepared statements. The least recently used are evicted; drivers prepare them \
         again.\n# If not set, an eighth of the memory that database.memory leaves, 64MiB at most.",
    ),
    setting(
        "tls",
        "cert",
        "",
        "The server's certificate with its chain, in PEM. With it and key, CQL is over TLS, and so is HTTP beyond \
         loopback.\n# `carnet config tls-init DIR` makes certificates to try it. Changed files are loaded within 10 s, \
         and at SIGHUP.",
    ),
    setting(
        "tls",
        "key",
        "",
        "The private key of cert, in PEM. Only the server's user should be able to read it.",
    ),
    setting(
        "tls",
        "client_ca",
        "",
        "Certificates, in PEM, of the authorities that sign the certificates of drivers.",
    ),
    setting(
        "tls",
        "client_crl",
        "",
        "Lists, in PEM, of the drivers' certificates that are revoked.",
    ),
    setting(
        "tls",
        "clients",
        "",
        "Whether drivers show certificates: none, optional or required. If not set, required with client_ca, else none.",
    ),
    setting(
        "tls",
        "insecure_plaintext",
        "false",
        "true permits addresses beyond loopback without TLS: passwords and data cross the network in clear.",
    ),
    setting(
        "audit",
        "log",
        "",
        "File of the audit log, or \"server\" for the server's own log. If not set, there is none. See docs/security.md.",
    ),
    setting(
        "audit",
        "categories",
        "login, ddl, dcl, admin",
        "Kinds of entries: login, ddl, dcl (roles and permissions), dml, query, admin.",
    ),
    setting(
        "audit",
        "include_users",
        "",
        "Users and roles of which there are entries, separated by commas. If not set, all.",
    ),
    setting("audit", "exclude_users", "", "Users and roles of which there are none."),
    setting(
        "audit",
        "include_keyspaces",
        "",
        "Keyspaces of which there are entries, separated by commas. If not set, all.",
    ),
    setting("audit", "exclude_keyspaces", "", "Keyspaces of which there are none."),
    setting("audit", "file_size", "64MiB", "Size of the file beyond which a new one begins."),
    setting(
        "audit",
        "files",
        "8",
        "Maximum number of files, the one in use included; the oldest is removed.",
    ),
    setting(
        "log",
        "levels",
        "info",
        "Level of the log (error, warn, info, debug, trace, off), or levels by module: info,carnet_storage=debug. SIGHUP \
         loads them\n# again. The environment variable RUST_LOG comes before them.",
    ),
    setting("log", "format", "text", "Format of the log's lines: text or json."),
    setting(
        "log",
        "slow",
        "500ms",
        "Duration from which on a statement is logged, without its values, or off.",
    ),
    setting(
        "database",
        "directory",
        "carnet-data",
        "The database's directory. With [cluster], only retention,\n# isolation and transaction_memory of this section apply.",
    ),
    setting(
        "database",
        "durability",
        "always",
        "Guarantee of an acknowledgement: always, interval:MILLISECONDS, none, or memory (no log: a crash loses\n# \
         everything since the last flush).",
    ),
    setting(
        "database",
        "memory",
        "",
        "Part of server.memory for the storage engine's memtables, cache and reads from disk. \
         If not\n# set, half of it.",
    ),
    setting(
        "database",
        "transaction_memory",
        "",
        "Memory for recent commits and for large read and write sets of transactions. If not set, a quarter of \
         the part\n# of server.memory that database.memory leaves, 256MiB at most.",
    ),
    setting("database", "retention", "10m", "Time for which old versions can be read (AS OF)."),
    setting(
        "database",
        "isolation",
        "strict-serializable",
        "Isolation of statements that do not set one: strict-serializable, serializable or snapshot.",
    ),
    setting(
        "limits",
        "running",
        "",
        "Maximum concurrent reading statements, and as many writing ones. Default: 8 per \
         processor.",
    ),
    setting(
        "limits",
        "queue",
        "1000",
        "Waiting statements of a kind beyond which clients are not read from, and interactive statements are refused.",
    ),
    setting(
        "limits",
        "queue_memory",
        "16MiB",
        "Memory of the waiting statements of a kind beyond which the same happens.",
    ),
    setting(
        "limits",
        "shed_after",
        "50ms",
        "Maximum wait of a statement of an interactive level while its queue is overloaded.",
    ),
    setting(
        "limits",
        "statement_timeout",
        "5s",
        "Timeout of statements that name the keys they read and write; keep it below the drivers' timeout.",
    ),
    setting(
        "limits",
        "scan_timeout",
        "60s",
        "Timeout of statements that scan a table, filter or aggregate.",
    ),
    setting(
        "limits",
        "schema_timeout",
        "60s",
        "Timeout of schema changes and of statements that read system tables.",
    ),
    setting(
        "limits",
        "transactions",
        "1000",
        "Maximum transactions that stay open between statements (START TRANSACTION).",
    ),
    setting(
        "limits",
        "transactions_per_client",
        "",
        "The same of one user, or of one address if clients do not log in. If not set, half of transactions.",
    ),
    setting(
        "limits",
        "requests_per_client",
        "",
        "Maximum requests per second of one user, or of one address if clients do not log in: further ones wait unread. \
         If not set,\n# no limit: users are served in turns.",
    ),
    setting(
        "limits",
        "transaction_idle_timeout",
        "5m",
        "Time without a statement after which such a transaction is rolled back: a number with ms, s, m or h.",
    ),
    setting(
        "limits",
        "batch_size_warn_threshold",
        "5KiB",
        "Bytes that a batch of several partitions writes, above which its answer has a warning.",
    ),
    setting(
        "limits",
        "unlogged_batch_across_partitions_warn_threshold",
        "10",
        "Partitions of an unlogged batch above which its answer has a warning.",
    ),
    setting(
        "limits",
        "tombstone_warn_threshold",
        "1000",
        "Deleted rows that a statement reads over, above which its answer has a warning.",
    ),
    setting(
        "io",
        "scheduler",
        "on",
        "Whether reads have priority on the disk over flush, compaction and backups: on or off.",
    ),
    setting(
        "io",
        "read_latency",
        "measured",
        "Goal for the 99th percentile of reads in the device: a time, or measured, which is \
         half as much again as without them.",
    ),
    setting("io", "nice", "10", "Nice value of the threads that flush and compact, 0 to 19."),
    setting(
        "cluster",
        "url",
        "",
        "Database on a Cassandra or ScyllaDB cluster: cassandra://user@host1,host2/keyspace. \
         Further\n# settings of this section are the URL's options, and may stand in either.",
    ),
];

/// Returns `true` if the setting exists.
pub(super) fn is_known(section: &str, name: &str) -> bool {
    names(section).any(|known| known == name)
}

/// Returns the names of a section's settings.
pub(super) fn names(section: &str) -> impl Iterator<Item = &'static str> {
    let own = SETTINGS.iter().filter(move |known| known.section == section);
    let options = OPTIONS.iter().filter(move |_| section == "cluster");
    own.map(|known| known.name).chain(options.map(|(name, _)| *name))
}

/// Returns the names of all sections.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = SETTINGS.iter().map(|known| known.section).collect();
    sections.dedup();
    sections
}

/// Returns a settings file with every setting commented out and explained.
pub(crate) fn template() -> String {
    let mut text = String::from(
        "# Settings of `carnet serve --config FILE`. Options on the command line override it.\n\
         # Paths are relative to this file. `carnet config check FILE` reads it without serving.\n\
         # Values are the defaults. Where there is none, the value is an example.\n",
    );
    for section in sections() {
        let _ = write!(text, "\n[{section}]\n");
        for Setting { name, default, what, .. } in
            SETTINGS.iter().filter(|known| known.section == section)
        {
            let note = if default.is_empty() { "   # an example" } else { "" };
            let value = if default.is_empty() { example(section, name) } else { default };
            let _ = writeln!(text, "# {what}\n#{name} = \"{value}\"{note}\n");
        }
        if section == "cluster" {
            for (name, what) in OPTIONS {
                let value = example(section, name);
                let _ = writeln!(text, "#{name:16} = \"{value}\"   # {what}");
            }
        }
    }
    text.trim_end().to_owned() + "\n"
}
