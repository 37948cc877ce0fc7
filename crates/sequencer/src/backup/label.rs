//! The label of a backup: everything needed to turn a copy of a database's tables into a prefix of
//! its commits.
//!
//! Lines of text, readable by people:
//!
//! ```text
//! carnet cluster backup 1
//! id 5f0c83a1b2c3d4e5                  drawn, 16 hexadecimal digits
//! store cassandra://10.0.0.1/bank      for people
//! commit 12345                         B
//! bound 20000001                       above every timestamp of the copy
//! lease 7 112 7 140                    epoch and renewal before the copy, and after it
//! fence-from 12001                     rows of older starts take no entry any more
//! swept 9000 8000 7500                 the sweep's marks: versions, entries, entries-from
//! map 010000000001c9c380…              the coordination map, hexadecimal
//! tables 1 2 3 1000                    tables of cells before the copy
//! new-tables 1001                      tables created during it
//! wall-micros 1790000000000000 1790000060000000      when it began and ended, since 1970
//! program 0.1.0
//! end 7d0e2a11                         the CRC32C of every byte before this line
//! ```

use std::fmt::Write;
use std::str::FromStr;

use carnet_base::label::damaged;
use carnet_base::{
    EncodingMap, Epoch, LabelFields, LabelWriter, Result, TableId, Timestamp, WallTime,
};

use crate::lease::Lease;
use crate::sweep::Marks;

/// Maximum epoch of a database: each restore adds at most 2³³.
const EPOCH_MAX: u64 = 1 << 62;
/// Maximum number of starts whose rows a restore reads, at sixteen rows for 25 million starts. It
/// corresponds to five years at a hundred thousand starts a second without a sweep.
const STARTS_MAX: u64 = 1 << 44;
const KIND: &str = "carnet cluster backup";
const VERSION: &str = "1";

/// Position in the history of a lease: each value of a lease has its own, and positions rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeasePoint {
    /// Number of the term.
    pub epoch: Epoch,
    /// Number of writes of the lease by the leader.
    pub renewal: u64,
}

impl LeasePoint {
    pub(super) const fn from_lease(lease: &Lease) -> Self {
        Self { epoch: lease.epoch, renewal: lease.renewal }
    }
}

/// The label of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Random id of the backup.
    pub id: u64,
    /// URL of the database, for people: without secrets.
    pub store: String,
    /// B: the backup contains every commit up to it, and none after.
    pub commit: Timestamp,
    /// Every timestamp in the copy lies below it.
    pub bound: Timestamp,
    /// The lease before the copy began, and after it ended.
    pub leases: (LeasePoint, LeasePoint),
    /// No start below it gets an entry any more.
    pub fence_from: Timestamp,
    /// The sweep's marks, which did not move during the copy.
    pub marks: Marks,
    /// Places of the entries.
    pub map: EncodingMap,
    /// Tables of cells before the copy began.
    pub tables: Vec<TableId>,
    /// Tables created during the copy: they may or may not be in it.
    pub new_tables: Vec<TableId>,
    /// Wall times at which the backup began and ended.
    pub walls: (WallTime, WallTime),
    /// Version of the program that took it.
    pub program: String,
}

impl Label {
    /// Maximum length of a label.
    pub const BYTES_MAX: usize = 4 << 20;

    /// Encodes the label as text.
    #[must_use]
    pub fn encode(&self) -> String {
        let (from, to) = self.leases;
        let Marks { versions, entries, entries_from, .. } = self.marks;
        let mut map = String::new();
        for byte in self.map.encode() {
            let _ = write!(map, "{byte:02x}");
        }
        let mut label = LabelWriter::new(KIND, VERSION);
        label.field("id", format_args!("{:016x}", self.id));
        label.field("store", &self.store);
        label.field("commit", self.commit);
        label.field("bound", self.bound);
        label.list("lease", [from.epoch.0, from.renewal, to.epoch.0, to.renewal]);
        label.field("fence-from", self.fence_from);
        label.list("swept", [versions, entries, entries_from]);
        label.field("map", map);
        label.list("tables", &self.tables);
        label.list("new-tables", &self.new_tables);
        label.list("wall-micros", [self.walls.0.0, self.walls.1.0]);
        label.field("program", &self.program);
        label.finish()
    }

    /// Decodes a label.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a newer program wrote it; `Corrupted` if it is damaged, or not a label.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(damaged());
        }
        let mut fields = LabelFields::open(bytes, KIND, &[VERSION])?;
        let id = u64::from_str_radix(fields.field("id")?, 16).map_err(|_| damaged())?;
        let store = fields.field("store")?.to_owned();
        let (commit, bound) = (fields.timestamp("commit")?, fields.timestamp("bound")?);
        let [first_epoch, first, last_epoch, last] = array(&mut fields, "lease")?;
        let point = |epoch, renewal| LeasePoint { epoch: Epoch(epoch), renewal };
        let fence_from = fields.timestamp("fence-from")?;
        let [Some(versions), Some(entries), Some(entries_from)] =
            array(&mut fields, "swept")?.map(Timestamp::new)
        else {
            return Err(damaged());
        };
        let map = hexadecimal(fields.field("map")?).ok_or_else(damaged)?;
        let tables = fields.parsed_list("tables")?.into_iter().map(TableId).collect();
        let new_tables = fields.parsed_list("new-tables")?.into_iter().map(TableId).collect();
        let [begun, ended] = array(&mut fields, "wall-micros")?.map(WallTime);
        let label = Self {
            id,
            store,
            commit,
            bound,
            leases: (point(first_epoch, first), point(last_epoch, last)),
            fence_from,
            marks: Marks { versions, entries, entries_from, hold: None },
            map: EncodingMap::decode(&map).map_err(|_| damaged())?,
            tables,
            new_tables,
            walls: (begun, ended),
            program: fields.field("program")?.to_owned(),
        };
        let is_complete = fields.next().is_none();
        if is_complete && label.is_possible() { Ok(label) } else { Err(damaged()) }
    }

    /// Returns `true` if the numbers are consistent with each other.
    fn is_possible(&self) -> bool {
        self.commit < self.bound
            && self.marks.versions <= self.commit
            && self.marks.entries <= self.commit
            && self.leases.0 <= self.leases.1
            && self.leases.1.epoch.0 < EPOCH_MAX
            && self.marks.entries_from.max(self.fence_from) <= self.bound
            && [self.marks.entries_from, self.fence_from]
                .iter()
                .all(|from| self.bound.get() - from.get() < STARTS_MAX)
    }
}

fn array<T: FromStr, const N: usize>(fields: &mut LabelFields<'_>, name: &str) -> Result<[T; N]> {
    fields.parsed_list(name)?.try_into().map_err(|_| damaged())
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| {
        let digits = pair.map(|digit| char::from(digit).to_digit(16));
        let [Some(high), Some(low)] = digits else { return None };
        u8::try_from(high * 16 + low).ok()
    };
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
pub(super) mod tests;
