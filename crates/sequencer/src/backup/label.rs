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
pub(super) mod tests {
    use carnet_base::{Encoding, ErrorKind, Rng, SeededRng};

    use super::*;

    pub(in super::super) fn label() -> Label {
        let at = |number| Timestamp::new(number).unwrap();
        let point = |renewal| LeasePoint { epoch: Epoch(7), renewal };
        Label {
            id: 0x5f0c_83a1_b2c3_d4e5,
            store: "cassandra://10.0.0.1/bank".to_owned(),
            commit: at(12_345),
            bound: at(20_000_001),
            leases: (point(112), point(140)),
            fence_from: at(12_001),
            marks: Marks {
                versions: at(9000),
                entries: at(8000),
                entries_from: at(7500),
                hold: None,
            },
            map: EncodingMap::starting_with(Encoding::V3, at(30_000_000)),
            tables: [1, 2, 1000].map(TableId).to_vec(),
            new_tables: Vec::new(),
            walls: (WallTime(1_790_000_000_000_000), WallTime(1_790_000_060_000_000)),
            program: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn label_round_trips_through_text() {
        let text = label().encode();
        assert!(text.starts_with("carnet cluster backup 1\nid 5f0c83a1b2c3d4e5\n"), "{text}");
        assert!(
            text.contains("\nlease 7 112 7 140\n") && text.contains("\nnew-tables\n"),
            "{text}"
        );
        assert_eq!(Label::decode(text.as_bytes()).unwrap(), label());
        let more = Label { new_tables: vec![TableId(9)], store: "a\nb".to_owned(), ..label() };
        let back = Label::decode(more.encode().as_bytes()).unwrap();
        assert_eq!((back.new_tables, &*back.store), (vec![TableId(9)], "a b"));
        let newer = text.replacen("backup 1", "backup 2", 1);
        assert_eq!(Label::decode(newer.as_bytes()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    /// A leader may store a raised bound before it extends the map; it extends the map before it
    /// uses the new bound.
    #[test]
    fn a_bound_may_lie_beyond_the_map() {
        let beyond = Label { bound: Timestamp::new(40_000_000).unwrap(), ..label() };
        assert_eq!(Label::decode(beyond.encode().as_bytes()).unwrap(), beyond);
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let at = |number| Timestamp::new(number).unwrap();
        for wrong in [
            Label { commit: at(20_000_001), ..label() },
            Label { fence_from: at(20_000_002), ..label() },
            Label { bound: at(1 << 45), ..label() },
            Label {
                leases: (label().leases.0, LeasePoint { epoch: Epoch(u64::MAX), renewal: 0 }),
                ..label()
            },
            Label { leases: (label().leases.1, label().leases.0), ..label() },
            Label { marks: Marks { versions: at(12_346), ..label().marks }, ..label() },
        ] {
            assert!(Label::decode(wrong.encode().as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn damaged_label_is_rejected() {
        let good = label().encode().into_bytes();
        for seed in 0..10_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.clone();
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                match rng.below(3) {
                    0 => bytes[at] ^= 1 << rng.below(8),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, rng.next_u64().to_le_bytes()[0]),
                }
            }
            if let Ok(read) = Label::decode(&bytes) {
                assert_eq!(read, label(), "seed {seed}");
            }
            // Any content, even with a correct checksum.
            bytes.truncate(bytes.len().saturating_sub(13));
            let sum = crc32c::crc32c(&bytes);
            bytes.extend(format!("end {sum:08x}\n").bytes());
            let _ = Label::decode(&bytes);
        }
    }
}
