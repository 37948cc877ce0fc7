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

use carnet_base::{EncodingMap, Epoch, Error, Result, TableId, Timestamp, WallTime};

use crate::lease::Lease;
use crate::sweep::Marks;

/// Maximum epoch of a database: each restore adds at most 2³³.
const EPOCH_MAX: u64 = 1 << 62;
/// Maximum number of starts whose rows a restore reads, at sixteen rows for 25 million starts. It
/// corresponds to five years at a hundred thousand starts a second without a sweep.
const STARTS_MAX: u64 = 1 << 44;
const FIRST_LINE: &str = "carnet cluster backup 1";

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
        let Self { id, store, commit, bound, leases, fence_from, marks, .. } = self;
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        let (from, to) = leases;
        let mut out = format!(
            "{FIRST_LINE}\nid {id:016x}\nstore {}\ncommit {commit}\nbound {bound}\n\
             lease {} {} {} {}\nfence-from {fence_from}\nswept {} {} {}\nmap ",
            one_line(store),
            from.epoch.0,
            from.renewal,
            to.epoch.0,
            to.renewal,
            marks.versions,
            marks.entries,
            marks.entries_from,
        );
        for byte in self.map.encode() {
            let _ = write!(out, "{byte:02x}");
        }
        for (name, tables) in [("tables", &self.tables), ("new-tables", &self.new_tables)] {
            let _ = write!(out, "\n{name}");
            for table in tables {
                let _ = write!(out, " {table}");
            }
        }
        let (begun, ended) = self.walls;
        let program = one_line(&self.program);
        let _ = write!(out, "\nwall-micros {} {}\nprogram {program}\n", begun.0, ended.0);
        let crc = crc32c::crc32c(out.as_bytes());
        let _ = writeln!(out, "end {crc:08x}");
        out
    }

    /// Decodes a label.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a newer program wrote it; `Corrupted` if it is damaged, or not a label.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupted("the label of a backup is damaged, or is not a label");
        if bytes.len() > Self::BYTES_MAX {
            return Err(damaged());
        }
        let text = str::from_utf8(bytes).map_err(|_| damaged())?;
        let first = text.lines().next().ok_or_else(damaged)?;
        if first != FIRST_LINE {
            return Err(match first.strip_prefix("carnet cluster backup ") {
                Some(version) => Error::unsupported(format!(
                    "a cluster backup of format {version} needs a \
                                                newer program"
                )),
                None => damaged(),
            });
        }
        let body = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
        let body = body.ok_or_else(damaged)?.0.len() + 1;
        if text[body..] != format!("end {:08x}\n", crc32c::crc32c(&bytes[..body])) {
            return Err(damaged());
        }
        Self::fields(&text[..body]).ok_or_else(damaged)
    }

    fn fields(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let mut field = |name: &str| {
            let rest = lines.next()?.strip_prefix(name)?;
            if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
        };
        let at = |text: &str| text.parse().ok().and_then(Timestamp::new);
        let id = u64::from_str_radix(field("id")?, 16).ok()?;
        let store = field("store")?.to_owned();
        let (commit, bound) = (at(field("commit")?)?, at(field("bound")?)?);
        let [first_epoch, first, last_epoch, last] = numbers(field("lease")?)?;
        let point = |epoch, renewal| LeasePoint { epoch: Epoch(epoch), renewal };
        let fence_from = at(field("fence-from")?)?;
        let swept = numbers(field("swept")?)?.map(Timestamp::new);
        let [Some(versions), Some(entries), Some(entries_from)] = swept else { return None };
        let map = EncodingMap::decode(&hexadecimal(field("map")?)?).ok()?;
        let tables = table_ids(field("tables")?)?;
        let new_tables = table_ids(field("new-tables")?)?;
        let walls = field("wall-micros")?.split_once(' ')?;
        let wall = |text: &str| text.parse().ok().map(WallTime);
        let label = Self {
            id,
            store,
            commit,
            bound,
            leases: (point(first_epoch, first), point(last_epoch, last)),
            fence_from,
            marks: Marks { versions, entries, entries_from, hold: None },
            map,
            tables,
            new_tables,
            walls: (wall(walls.0)?, wall(walls.1)?),
            program: field("program")?.to_owned(),
        };
        (lines.next().is_none() && label.is_possible()).then_some(label)
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

fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

fn table_ids(text: &str) -> Option<Vec<TableId>> {
    let ids = text.split(' ').filter(|id| !id.is_empty());
    ids.map(|id| id.parse().ok().map(TableId)).collect()
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
