//! Sharing of an overloaded server between two service levels.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::beside::joined;
use super::load::{self, Statement};
use super::server::Process;
use super::{KEYS, ROWS, wire};

/// Names and shares of the levels.
const LEVELS: [(&str, u32); 2] = [("large", 1_000), ("small", 100)];
/// Clients per level: several times the statements that run at a time, so that some always wait.
const CLIENTS: u64 = 64;

/// Result of the measurement.
#[derive(Serialize)]
pub(super) struct Shared {
    /// Good replies per second of each level.
    pub(super) large_per_s: f64,
    pub(super) small_per_s: f64,
    /// Ratio of the two; the ratio of their shares is 10.
    pub(super) quotient: f64,
}

/// Runs clients of both levels at the same time.
pub(super) fn measure(server: &Process, time: Duration) -> io::Result<Shared> {
    let statements = prepare(server.address)?;
    let [large_per_s, small_per_s] = thread::scope(|scope| {
        let ask = |statement: Statement| {
            let address = server.address;
            scope.spawn(move || load::closed(address, &statement, CLIENTS, time, Duration::MAX))
        };
        let [large, small] = statements.map(ask).map(joined);
        io::Result::Ok([large?, small?])
    })?;
    Ok(Shared { large_per_s, small_per_s, quotient: large_per_s / small_per_s.max(1.0) })
}

fn prepare(address: SocketAddr) -> io::Result<[Statement; 2]> {
    let mut tcp = wire::connect(address)?;
    let markers = vec!["?"; KEYS].join(", ");
    let mut statement = |(level, shares): (&str, u32)| {
        let options = format!("workload_type = 'interactive' AND shares = {shares}");
        wire::query(&mut tcp, &format!("CREATE SERVICE LEVEL {level} WITH {options}"))?;
        let select = format!("SELECT k, v FROM ks.t WHERE k IN ({markers})");
        let id = wire::prepare(&mut tcp, &format!("{select} USING SERVICE LEVEL {level}"))?;
        io::Result::Ok(Statement { id, keys: KEYS, rows: ROWS, page_rows: None })
    };
    let [large, small] = LEVELS;
    Ok([statement(large)?, statement(small)?])
}
