//! Every setting there is.

use std::fmt::Write;

use carnet::cluster::OPTIONS;

/// A setting, with what it is where it is not given.
pub(super) struct Setting {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    default: &'static str,
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

/// Those of this program. In `[cluster]` there are those of a cluster's URL as well.
pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "server",
        "listen",
        "127.0.0.1:9042",
        "The address for CQL. Beyond loopback it takes users.",
    ),
    setting(
        "server",
        "advertise",
        "",
        "The address of this server that drivers are told, where that is not the one it listens on.",
    ),
    setting(
        "server",
        "http",
        "127.0.0.1:9180",
        "The address for /livez, /readyz and /metrics, or \"off\".",
    ),
    setting(
        "server",
        "users",
        "",
        "A file with a line NAME:HASH for each user, as `carnet hash-password` prints it.",
    ),
    setting("server", "connections", "4096", "CQL connections at a time; more are closed at once."),
    setting(
        "server",
        "connections_per_address",
        "2048",
        "The same from one address, or one /64 network of IPv6. If not set, half of connections. \
         Behind a proxy\n# all clients share its address.",
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
        "Memory for requests that are not answered yet; what does not fit is refused as overloaded. If not \
         set,\n# half of what database.memory and prepared_memory leave.",
    ),
    setting(
        "server",
        "request_memory_per_address",
        "",
        "The same for the connections of one address. If not set, half of request_memory.",
    ),
    setting(
        "server",
        "idle_timeout",
        "10m",
        "How long a client may be silent between requests; 0s is for ever. Drivers send heartbeats.",
    ),
    setting(
        "server",
        "timestamps",
        "refuse",
        "What becomes of USING TIMESTAMP: refuse fails the statement, ignore runs it without.",
    ),
    setting(
        "server",
        "answer_memory",
        "",
        "Memory for answers that are being made or wait for clients to read them; one may have half of it. If not \
         set,\n# half of what database.memory and prepared_memory leave.",
    ),
    setting(
        "server",
        "prepared_memory",
        "",
        "Memory for prepared statements. The least recently used are evicted; drivers prepare them \
         again.\n# If not set, an eighth of what database.memory leaves, 64MiB at most.",
    ),
    setting(
        "database",
        "directory",
        "carnet-data",
        "The database's directory. Beside [cluster] retention and isolation alone count here.",
    ),
    setting(
        "database",
        "durability",
        "always",
        "What an acknowledgement promises: always, interval:MILLISECONDS, or none.",
    ),
    setting(
        "database",
        "memory",
        "",
        "What the storage engine takes of server.memory for gathered writes, its cache and reads from disk. \
         If not\n# set, half of it.",
    ),
    setting("database", "retention", "10m", "For how long what was visible can be read again."),
    setting(
        "database",
        "isolation",
        "strict-serializable",
        "Of statements that do not ask for another: strict-serializable, serializable or snapshot.",
    ),
    setting(
        "limits",
        "running",
        "",
        "Statements that read which run at a time, and as many that write. Default: 8 for each \
         processor.",
    ),
    setting(
        "limits",
        "queue",
        "1000",
        "Statements of a kind that wait. One more, and those that would be late are refused on arrival.",
    ),
    setting("limits", "queue_memory", "16MiB", "Memory of the statements of a kind that wait."),
    setting(
        "limits",
        "shed_after",
        "50ms",
        "How long a statement waits at most once the queue was full, until it is empty again.",
    ),
    setting(
        "limits",
        "statement_timeout",
        "5s",
        "How long a statement may take that names what it reads and writes; below what drivers wait.",
    ),
    setting(
        "limits",
        "scan_timeout",
        "60s",
        "How long a statement may take that reads a whole table, filters or aggregates.",
    ),
    setting(
        "io",
        "scheduler",
        "on",
        "Whether flush, compaction and backups give way at the disk to reads: on or off.",
    ),
    setting(
        "io",
        "read_latency",
        "measured",
        "The 99th percentile of reads in the device that they keep to: a time, or measured, which is \
         half as much again as without them.",
    ),
    setting("io", "nice", "10", "The nice value of the threads that flush and compact, 0 to 19."),
    setting(
        "cluster",
        "url",
        "",
        "A database on a Cassandra or ScyllaDB cluster: cassandra://user@host1,host2/keyspace. \
         Further\n# settings of this section are the URL's options, and may stand in either.",
    ),
];

/// Tells whether there is a setting.
pub(super) fn is_known(section: &str, name: &str) -> bool {
    names(section).any(|known| known == name)
}

/// Returns the names of a section's settings.
pub(super) fn names(section: &str) -> impl Iterator<Item = &'static str> {
    let own = SETTINGS.iter().filter(move |known| known.section == section);
    let options = OPTIONS.iter().filter(move |_| section == "cluster");
    own.map(|known| known.name).chain(options.map(|(name, _)| *name))
}

/// Returns the sections.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = SETTINGS.iter().map(|known| known.section).collect();
    sections.dedup();
    sections
}

/// Writes a file that says nothing, and explains everything.
pub(crate) fn template() -> String {
    let mut text = String::from(
        "# Settings of `carnet serve --config FILE`. What stands on the command line wins.\n\
         # Paths are relative to this file. `carnet config check FILE` reads it without serving.\n",
    );
    for section in sections() {
        let _ = write!(text, "\n[{section}]\n");
        for Setting { name, default, what, .. } in
            SETTINGS.iter().filter(|known| known.section == section)
        {
            let _ = writeln!(text, "# {what}\n#{name} = \"{default}\"\n");
        }
        if section == "cluster" {
            for (name, what) in OPTIONS {
                let _ = writeln!(text, "#{name:16} = \"\"   # {what}");
            }
        }
    }
    text.trim_end().to_owned() + "\n"
}
