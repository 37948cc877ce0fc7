//! The server under measurement, as a separate process.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use carnet::{Db, Durability, Uuid};
use carnet_admission::AdmissionLimits;
use carnet_base::SystemClock;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Timeouts};
use carnet_server::{Config, CqlBackend, Limits, Server};
use clap::ValueEnum;

/// Memory of the storage engine, and of requests, answers and connections together.
const ENGINE_BYTES: usize = 512 << 20;
const SHARED_BYTES: usize = 384 << 20;
/// Interval of [`Acknowledgement::Interval`].
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acknowledgement {
    /// Sync the log before every acknowledgement.
    Always,
    /// Sync the log every 100 ms.
    Interval,
    /// No sync of the log.
    None,
}

impl Acknowledgement {
    /// Returns the name of the option's value.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Interval => "interval",
            Self::None => "none",
        }
    }
}

/// Serves a new database until standard input ends, and prints its address. Admission and timeouts
/// are those of `carnet serve`.
pub(crate) fn serve(acknowledgement: Acknowledgement, directory: &Path) -> carnet::Result<()> {
    let durability = match acknowledgement {
        Acknowledgement::Always => Durability::Always,
        Acknowledgement::Interval => Durability::Interval(SYNC_INTERVAL),
        Acknowledgement::None => Durability::None,
    };
    let processors = available_parallelism().map_or(1, usize::from);
    let db = Db::builder()
        .memory_bytes(ENGINE_BYTES)
        .durability(durability)
        .admission(AdmissionLimits::of_server(processors))
        .open(directory.join("database"))?;
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_bytes([7; 16])));
    executor.set_timeouts(Timeouts {
        statement: Duration::from_secs(5),
        scan: Duration::from_secs(60),
        schema: Duration::from_secs(60),
    });
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| carnet::Error::unavailable("no runtime").with_source(error))?;
    runtime.block_on(async {
        let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.limits = Limits::of_memory(SHARED_BYTES);
        let clock = Arc::new(SystemClock);
        let server = Server::bind(config, CqlBackend::new(executor), None, clock).await?;
        let _ = writeln!(io::stdout(), "{}", server.local_addr()?);
        let ended = || io::stdin().lines().for_each(drop);
        server.run(async { drop(tokio::task::spawn_blocking(ended).await) }).await;
        Ok(())
    })
}
