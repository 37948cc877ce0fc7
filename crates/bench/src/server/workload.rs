//! Named workloads: their statements, and the requests of a client.

use std::io;
use std::net::SocketAddr;

use carnet_base::{Rng, SeededRng};
use clap::ValueEnum;
use serde::Serialize;

use super::data::{ACCOUNTS, PARTITIONS, ROWS, VALUE_LEN, WIDE_ROWS};
use super::frame::{Options, put_batch, put_execute};
use crate::wire;

/// Number of inserts of a batch.
const BATCH: usize = 8;
/// Number of rows of a long page.
const PAGE_ROWS: i32 = 5_000;

const INSERT: &str = "INSERT INTO ks.inserts (k, v) VALUES (?, ?)";
const READ: &str = "SELECT k, v FROM ks.rows WHERE k = ?";
const TRANSFER: &str = "BEGIN TRANSACTION \
    LET a = (SELECT balance FROM ks.accounts WHERE id = ?); \
    LET b = (SELECT balance FROM ks.accounts WHERE id = ?); \
    IF a.balance >= ? AND b IS NOT NULL THEN \
    UPDATE ks.accounts SET balance = a.balance - ? WHERE id = ?; \
    UPDATE ks.accounts SET balance = b.balance + ? WHERE id = ?; \
    END IF COMMIT TRANSACTION";

/// Workloads of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// Inserts of rows with random new keys and values of 100 bytes.
    Insert,
    /// Reads of one row of 100,000.
    Read,
    /// Slices of 100 rows of a partition, from a random row on.
    SliceUp,
    /// Slices of 100 rows of a partition, from a random row on, in descending order.
    SliceDown,
    /// Pages of 5,000 rows, each of a whole partition.
    Page,
    /// Three reads for each insert.
    Mixed,
    /// Updates of one row of 100,000 if it exists.
    Conditional,
    /// Updates of the same row by all clients.
    Hot,
    /// Unlogged batches of 8 inserts.
    Batch,
    /// Transactions that read two accounts of 10,000 and change both.
    Transfer,
    /// Pages of 5,000 rows of scans of the table of 100,000.
    Scan,
}

impl Workload {
    /// Returns the maximum number of requests in flight: many long pages exceed the memory of
    /// answers.
    pub(super) const fn in_flight_max(self) -> u16 {
        match self {
            Self::Page | Self::Scan => 16,
            _ => u16::MAX,
        }
    }

    const fn statements(self) -> &'static [&'static str] {
        match self {
            Self::Insert | Self::Batch => &[INSERT],
            Self::Read => &[READ],
            Self::SliceUp => &["SELECT c, v FROM ks.wide WHERE p = ? AND c >= ? LIMIT 100"],
            Self::SliceDown => {
                &["SELECT c, v FROM ks.wide WHERE p = ? AND c < ? ORDER BY c DESC LIMIT 100"]
            }
            Self::Page => &["SELECT c, v FROM ks.wide WHERE p = ?"],
            Self::Mixed => &[READ, INSERT],
            Self::Conditional => &["UPDATE ks.rows SET v = ? WHERE k = ? IF EXISTS"],
            Self::Hot => &["UPDATE ks.rows SET v = ? WHERE k = ?"],
            Self::Transfer => &[TRANSFER],
            Self::Scan => &["SELECT k, v FROM ks.rows"],
        }
    }
}

/// The prepared statements of a workload at one server.
pub(super) struct Prepared {
    workload: Workload,
    skip_metadata: bool,
    ids: Vec<Vec<u8>>,
}

impl Prepared {
    /// Prepares the statements.
    pub(super) fn new(
        address: SocketAddr,
        workload: Workload,
        skip_metadata: bool,
    ) -> io::Result<Self> {
        let mut tcp = wire::connect(address)?;
        let ids = workload.statements().iter().map(|text| wire::prepare(&mut tcp, text));
        Ok(Self { workload, skip_metadata, ids: ids.collect::<io::Result<_>>()? })
    }

    /// Appends the next request of a client. `paging_state` is that of the previous page.
    pub(super) fn put_request(
        &self,
        out: &mut Vec<u8>,
        stream: u16,
        rng: &mut SeededRng,
        paging_state: Option<&[u8]>,
    ) {
        let value = [b'x'; VALUE_LEN];
        let below = |rng: &mut SeededRng, bound| rng.below(bound).to_be_bytes();
        let short = Options { skip_metadata: self.skip_metadata, ..Options::default() };
        let long = Options { page_rows: Some(PAGE_ROWS), paging_state, ..short };
        let mut execute = |at: usize, values: &[&[u8]], options| {
            put_execute(out, stream, &self.ids[at], values, options);
        };
        match self.workload {
            Workload::Insert => execute(0, &[&rng.next_u64().to_be_bytes(), &value], short),
            Workload::Read => execute(0, &[&below(rng, ROWS)], short),
            Workload::Mixed if rng.below(4) == 0 => {
                execute(1, &[&rng.next_u64().to_be_bytes(), &value], short);
            }
            Workload::Mixed => execute(0, &[&below(rng, ROWS)], short),
            Workload::SliceUp => {
                let from = below(rng, WIDE_ROWS - 100);
                execute(0, &[&below(rng, PARTITIONS), &from], short);
            }
            Workload::SliceDown => {
                let to = (100 + rng.below(WIDE_ROWS - 100)).to_be_bytes();
                execute(0, &[&below(rng, PARTITIONS), &to], short);
            }
            Workload::Page => execute(0, &[&below(rng, PARTITIONS)], long),
            Workload::Conditional => execute(0, &[&value, &below(rng, ROWS)], short),
            Workload::Hot => execute(0, &[&value, &0_u64.to_be_bytes()], short),
            Workload::Transfer => {
                let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS - 1));
                let to = if to == from { ACCOUNTS - 1 } else { to };
                let (from, to, one) = (from.to_be_bytes(), to.to_be_bytes(), 1_u64.to_be_bytes());
                execute(0, &[&from, &to, &one, &one, &from, &one, &to], short);
            }
            Workload::Scan => execute(0, &[], long),
            Workload::Batch => {
                let keys: [[u8; 8]; BATCH] = std::array::from_fn(|_| rng.next_u64().to_be_bytes());
                let items = keys.each_ref().map(|key| [key.as_slice(), value.as_slice()]);
                put_batch(out, stream, &self.ids[0], &items);
            }
        }
    }
}
