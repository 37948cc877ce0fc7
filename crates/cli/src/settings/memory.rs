//! Divides the server's memory, one setting, among its parts.
//!
//! ```text
//!   server.memory ─┬─ database.memory          a half: the storage engine
//!                  └─ the rest ─┬─ prepared      an eighth, 64 MiB at most
//!                               ├─ transactions  a quarter, 256 MiB at most
//!                               └─ shared ─┬─ requests      a half at most, and a request of any length
//!                                          ├─ answers       a half at most
//!                                          └─ connections   a half at most, 48 KiB each, 96 KiB over TLS
//! ```
//!
//! A part that is set has that size; the others are divided as before. The shared part is one
//! budget, which holds whatever its parts' limits add up to.

use anyhow::{Result, ensure};
use carnet_server::Limits;

use super::given::Settings;

/// Fraction of the system's memory that a server takes by default.
const OF_SYSTEM: usize = 4;
/// Assumed memory of the system if it is unknown.
const SYSTEM_BYTES: usize = 4 << 30;
/// Minimum memory beside the storage engine, in bytes.
const REST_BYTES_MIN: usize = 32 << 20;
/// Maximum default memory of prepared statements, in bytes.
const PREPARED_BYTES_MAX: usize = 64 << 20;
/// Maximum default memory of transactions, in bytes.
const TRANSACTION_BYTES_MAX: usize = 256 << 20;
/// Minimum default memory of the server, in bytes.
const SERVER_BYTES_MIN: usize = 256 << 20;

/// Sizes of the parts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) server: usize,
    pub(crate) engine: usize,
    pub(crate) prepared: usize,
    pub(crate) transactions: usize,
    pub(crate) shared: usize,
    pub(crate) requests: usize,
    pub(crate) answers: usize,
}

impl Memory {
    /// Divides the memory that the settings give the server, or a quarter of the system's by
    /// default.
    ///
    /// # Errors
    ///
    /// The storage engine leaves too little memory for the other parts.
    pub(crate) fn divide(settings: &Settings, system: Option<usize>) -> Result<Self> {
        let engine = if settings.store.is_some() { Some(0) } else { settings.memory_bytes };
        let server = settings.server_bytes.unwrap_or_else(|| {
            let quarter = (system.unwrap_or(SYSTEM_BYTES) / OF_SYSTEM).max(SERVER_BYTES_MIN);
            // An engine that is set to most of the quarter, or more, leaves the others their
            // default sizes.
            engine.map_or(quarter, |engine| quarter.max(engine.saturating_add(quarter / 2)))
        });
        let engine = engine.unwrap_or(server / 2);
        ensure!(
            server >= engine.saturating_add(REST_BYTES_MIN),
            "server.memory of {} MiB is too little: the storage engine (database.memory) takes {} MiB of it, and \
             requests, answers and connections need {} MiB beside it",
            server >> 20,
            engine >> 20,
            REST_BYTES_MIN >> 20,
        );
        let rest = server - engine;
        check_parts(settings, rest)?;
        let prepared = settings.prepared_bytes.unwrap_or((rest / 8).min(PREPARED_BYTES_MAX));
        let transactions =
            settings.transaction_bytes.unwrap_or((rest / 4).min(TRANSACTION_BYTES_MAX));
        // If memory is short, prepared statements and transactions get less.
        let shared =
            rest.saturating_sub(prepared).saturating_sub(transactions).max(REST_BYTES_MIN / 2);
        let limits = Limits::of_memory(shared);
        Ok(Self {
            server,
            engine,
            prepared,
            transactions,
            shared,
            requests: settings.request_bytes.unwrap_or(limits.request_bytes_max),
            answers: settings.answer_bytes.unwrap_or(limits.answer_bytes_max),
        })
    }

    /// Logs the sizes, in MiB.
    pub(crate) fn log(&self) {
        let mib = |bytes: usize| bytes >> 20;
        tracing::info!(
            server = mib(self.server),
            engine = mib(self.engine),
            prepared = mib(self.prepared),
            transactions = mib(self.transactions),
            requests = mib(self.requests),
            answers = mib(self.answers),
            "memory is divided, in MiB"
        );
    }
}

/// Refuses parts that are set to more than what the storage engine leaves.
fn check_parts(settings: &Settings, rest: usize) -> Result<()> {
    let (prepared, transactions) = (settings.prepared_bytes, settings.transaction_bytes);
    let both = prepared.unwrap_or(0).saturating_add(transactions.unwrap_or(0));
    for (name, bytes) in [
        ("server.prepared_memory", prepared.unwrap_or(0)),
        ("database.transaction_memory", transactions.unwrap_or(0)),
        ("server.prepared_memory and database.transaction_memory together", both),
        ("server.request_memory", settings.request_bytes.unwrap_or(0)),
        ("server.answer_memory", settings.answer_bytes.unwrap_or(0)),
    ] {
        ensure!(
            bytes <= rest,
            "{name} of {} MiB is too much: the storage engine leaves {} MiB of server.memory; set a smaller size, or \
             a larger server.memory",
            bytes >> 20,
            rest >> 20,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn divide(settings: &Settings) -> Memory {
        Memory::divide(settings, Some(16 << 30)).unwrap()
    }

    #[test]
    fn server_takes_a_quarter_of_the_system() {
        let memory = divide(&Settings::default());
        assert_eq!((memory.server, memory.engine), (4096 * MIB, 2048 * MIB));
        assert_eq!((memory.prepared, memory.transactions), (64 * MIB, 256 * MIB));
        assert_eq!(memory.shared, 1728 * MIB);
        assert_eq!((memory.requests, memory.answers), (864 * MIB, 864 * MIB));
        let little = Memory::divide(&Settings::default(), Some(64 * MIB)).unwrap();
        assert_eq!(little.server, SERVER_BYTES_MIN);
    }

    #[test]
    fn parts_that_are_set_keep_their_size() {
        let settings = Settings {
            server_bytes: Some(256 * MIB),
            memory_bytes: Some(64 * MIB),
            answer_bytes: Some(50 * MIB),
            prepared_bytes: Some(MIB),
            transaction_bytes: Some(40 * MIB),
            ..Settings::default()
        };
        let memory = divide(&settings);
        assert_eq!((memory.engine, memory.prepared), (64 * MIB, MIB));
        assert_eq!((memory.shared, memory.answers), (151 * MIB, 50 * MIB));
        // A large engine does not take the memory of the other parts.
        let settings = Settings { memory_bytes: Some(8 << 30), ..Settings::default() };
        assert_eq!(divide(&settings).server, 10 << 30);
    }

    #[test]
    fn cluster_needs_no_storage_engine() {
        let settings = Settings { store: Some("cassandra://h/k".into()), ..Settings::default() };
        let memory = divide(&settings);
        assert_eq!((memory.engine, memory.shared), (0, 3776 * MIB));
    }

    #[test]
    fn engine_that_leaves_too_little_is_refused() {
        let settings = Settings {
            server_bytes: Some(128 * MIB),
            memory_bytes: Some(128 * MIB),
            ..Settings::default()
        };
        let error = Memory::divide(&settings, None).unwrap_err().to_string();
        assert!(error.contains("server.memory of 128 MiB is too little"), "{error}");
    }

    #[test]
    fn parts_beyond_the_whole_are_refused() {
        let whole = Settings { server_bytes: Some(256 * MIB), ..Settings::default() };
        let refused = |settings: Settings, name: &str| {
            let error = Memory::divide(&settings, None).unwrap_err().to_string();
            assert!(error.starts_with(name) && error.contains("128 MiB of server"), "{error}");
        };
        let large = Some(129 * MIB);
        refused(Settings { prepared_bytes: large, ..whole.clone() }, "server.prepared_memory of");
        refused(
            Settings { transaction_bytes: large, ..whole.clone() },
            "database.transaction_memory of 129",
        );
        refused(Settings { request_bytes: large, ..whole.clone() }, "server.request_memory of");
        refused(Settings { answer_bytes: large, ..whole.clone() }, "server.answer_memory of");
        let (prepared_bytes, transaction_bytes) = (Some(65 * MIB), Some(65 * MIB));
        let both = Settings { prepared_bytes, transaction_bytes, ..whole };
        refused(both, "server.prepared_memory and database.transaction_memory together");
    }

    /// A request of maximum length fits into the smallest server.
    #[test]
    fn longest_request_fits_into_the_smallest_server() {
        let settings = Settings {
            server_bytes: Some(REST_BYTES_MIN),
            memory_bytes: Some(0),
            ..Settings::default()
        };
        let memory = divide(&settings);
        assert!(memory.requests >= Limits::default().body_bytes_max, "{memory:?}");
        assert!(memory.requests <= memory.shared, "{memory:?}");
    }
}
