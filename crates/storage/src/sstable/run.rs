//! Run: the stored form of a block's entries, in columns.
//!
//! Adjacent entries are similar. So each field of all entries is stored together, as a difference
//! to the previous entry where that is smaller, and a column of zeros is omitted. Compression then
//! finds long sequences of equal bytes. `carnet-bench commit-table` measures it.
//!
//! ```text
//! run :=
//!   count       VAR_LONG   entries, at least 1
//!   key bytes   VAR_LONG   of all different keys, in full
//!   base        VAR_LONG   the first entry's start timestamp
//!   lengths     8 VAR_LONGs: of the columns that follow but the last, which takes the rest
//!   flags       a byte for each entry: bit 0 TOMBSTONE, bit 1 EXPIRES
//!   shared      VAR_LONG   length of the longest common prefix with the previous key
//!   rest        VAR_LONG   number of further bytes of the key
//!   start       VAR_LONG   start less the start before it (the first: less base), zigzag
//!   lag         VAR_LONG   commit less start
//!   expiry      VAR_LONG   for each entry with EXPIRES: expiry less the one before it, zigzag
//!   length      VAR_LONG   for each entry without TOMBSTONE: of its payload
//!   keys        the keys' remaining bytes
//!   payloads    the payloads
//! ```
//!
//! The lag of a commit-table entry is also its value, in the same encoding: two columns of equal
//! bytes, of which compression keeps one.
//!
//! The decoder accepts only the encoder's output, strictly ascending, and refuses runs that would
//! exceed the caller's memory limit.

use carnet_base::Timestamp;

use super::block::{Block, Filling, New, SharedBlock};
use super::damage::Wrong;
use super::entry_ref::EntryRef;
use super::var;

const TOMBSTONE: u8 = 1;
const EXPIRES: u8 = 2;
const COLUMNS: usize = 9;

/// A column of VAR_LONGs that knows whether all are zero.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    any: bool,
}

impl Column {
    fn put(&mut self, number: u64) {
        self.any |= number != 0;
        var::put(&mut self.bytes, number);
    }

    fn stored(&self) -> &[u8] {
        if self.any { &self.bytes } else { &[] }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.any = false;
    }
}

/// Builds a run.
#[derive(Default)]
pub(super) struct RunBuilder {
    count: u64,
    key_bytes: usize,
    base: u64,
    last_start: u64,
    last_expiry: u64,
    flags: Column,
    shared: Column,
    rest: Column,
    start: Column,
    lag: Column,
    expiry: Column,
    length: Column,
    keys: Vec<u8>,
    payloads: Vec<u8>,
}

impl RunBuilder {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the approximate length of the run so far.
    pub(super) const fn len(&self) -> usize {
        self.flags.bytes.len()
            + self.shared.bytes.len()
            + self.rest.bytes.len()
            + self.start.bytes.len()
            + self.lag.bytes.len()
            + self.expiry.bytes.len()
            + self.length.bytes.len()
            + self.keys.len()
            + self.payloads.len()
    }

    /// Returns the memory of the decoded block.
    pub(super) fn decoded_bytes(&self) -> usize {
        let entries = usize::try_from(self.count).unwrap_or(usize::MAX);
        Block::room_of(entries, entries.saturating_mul(8)) + self.key_bytes + self.payloads.len()
    }

    /// Adds the next entry, whose key shares `shared` bytes with the previous key. The first entry
    /// of a run shares none.
    pub(super) fn push(&mut self, entry: &EntryRef<'_>, shared: usize) {
        let EntryRef { key, commit, start, expiry, payload } = *entry;
        let rest = &key[shared..];
        if self.count == 0 {
            self.base = start.get();
            self.last_start = start.get();
        }
        if self.count == 0 || !rest.is_empty() {
            self.key_bytes += key.len();
        }
        self.count += 1;
        let tombstone = if payload.is_none() { TOMBSTONE } else { 0 };
        let expires = if expiry.is_some() { EXPIRES } else { 0 };
        self.flags.any |= tombstone | expires != 0;
        self.flags.bytes.push(tombstone | expires);
        self.shared.put(shared as u64);
        self.rest.put(rest.len() as u64);
        self.start.put(var::zigzag(difference(start.get(), self.last_start)));
        self.lag.put(commit.get().wrapping_sub(start.get()));
        self.last_start = start.get();
        if let Some(expiry) = expiry {
            self.expiry.put(var::zigzag(difference(expiry, self.last_expiry)));
            self.last_expiry = expiry;
        }
        self.keys.extend_from_slice(rest);
        if let Some(payload) = payload {
            self.length.put(payload.len() as u64);
            self.payloads.extend_from_slice(payload);
        }
    }

    /// Appends the run to `out` and starts the next one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let columns: [&[u8]; COLUMNS] = [
            self.flags.stored(),
            self.shared.stored(),
            self.rest.stored(),
            self.start.stored(),
            self.lag.stored(),
            self.expiry.stored(),
            self.length.stored(),
            &self.keys,
            &self.payloads,
        ];
        var::put(out, self.count);
        var::put(out, self.key_bytes as u64);
        var::put(out, self.base);
        for column in &columns[..COLUMNS - 1] {
            var::put(out, column.len() as u64);
        }
        for column in columns {
            out.extend_from_slice(column);
        }
        for column in [
            &mut self.flags,
            &mut self.shared,
            &mut self.rest,
            &mut self.start,
            &mut self.lag,
            &mut self.expiry,
            &mut self.length,
        ] {
            column.clear();
        }
        self.keys.clear();
        self.payloads.clear();
        (self.count, self.key_bytes, self.last_expiry) = (0, 0, 0);
    }
}

const fn difference(number: u64, other: u64) -> i64 {
    number.wrapping_sub(other).cast_signed()
}

/// Columns of a run that is being decoded.
struct Columns<'a> {
    flags: Numbers<'a>,
    shared: Numbers<'a>,
    rest: Numbers<'a>,
    start: Numbers<'a>,
    lag: Numbers<'a>,
    expiry: Numbers<'a>,
    length: Numbers<'a>,
    keys: &'a [u8],
    payloads: &'a [u8],
}

/// Iterator over the numbers of a column; an omitted column yields zeros.
struct Numbers<'a> {
    bytes: &'a [u8],
    left_out: bool,
}

impl<'a> Numbers<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left_out: bytes.is_empty() }
    }

    fn next(&mut self) -> Result<u64, Wrong> {
        if self.left_out { Ok(0) } else { var::take(&mut self.bytes) }
    }

    fn next_len(&mut self) -> Result<usize, Wrong> {
        usize::try_from(self.next()?).map_err(|_| "a length is too large")
    }

    fn next_byte(&mut self) -> Result<u8, Wrong> {
        if self.left_out {
            return Ok(0);
        }
        let Some((byte, rest)) = self.bytes.split_first() else {
            return Err("the entries' flags end too early");
        };
        self.bytes = rest;
        Ok(*byte)
    }
}

impl<'a> Columns<'a> {
    fn split(mut run: &'a [u8]) -> Result<Self, Wrong> {
        let mut lengths = [0; COLUMNS - 1];
        for length in &mut lengths {
            *length = var::take_len(&mut run)?;
        }
        let mut columns = [&run[..0]; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            (*column, run) = run.split_at_checked(length).ok_or("a column ends too early")?;
        }
        let [flags, shared, rest, start, lag, expiry, length, keys, _] = columns;
        Ok(Self {
            flags: Numbers::new(flags),
            shared: Numbers::new(shared),
            rest: Numbers::new(rest),
            start: Numbers::new(start),
            lag: Numbers::new(lag),
            expiry: Numbers::new(expiry),
            length: Numbers::new(length),
            keys,
            payloads: run,
        })
    }

    fn payload(&mut self) -> Result<&'a [u8], Wrong> {
        let length = self.length.next_len()?;
        let split = self.payloads.split_at_checked(length);
        let payload;
        (payload, self.payloads) = split.ok_or("the payloads end too early")?;
        Ok(payload)
    }

    /// Returns the maximum number of entries that these columns permit. From the second one on,
    /// every entry differs from the previous one in its key, which takes a byte of `rest`, or in
    /// its commit timestamp, which takes a byte of `start` or `lag`.
    fn count_max(&self) -> usize {
        let most = self.rest.bytes.len().max(self.start.bytes.len()).max(self.lag.bytes.len());
        most.max(1)
    }

    const fn is_empty(&self) -> bool {
        self.flags.bytes.is_empty()
            && self.shared.bytes.is_empty()
            && self.rest.bytes.is_empty()
            && self.start.bytes.is_empty()
            && self.lag.bytes.is_empty()
            && self.expiry.bytes.is_empty()
            && self.length.bytes.is_empty()
            && self.keys.is_empty()
            && self.payloads.is_empty()
    }
}

/// Decodes a run into a block of at most `memory_max` bytes.
pub(super) fn decode(mut run: &[u8], memory_max: usize) -> Result<SharedBlock, Wrong> {
    let count = var::take_len(&mut run)?;
    let key_bytes = var::take_len(&mut run)?;
    let start = var::take(&mut run)?;
    let mut columns = Columns::split(run)?;
    if count == 0 || count > columns.count_max() {
        return Err("a block's number of entries is impossible");
    }
    // No key is longer than the stored key bytes of all entries.
    if key_bytes > count.saturating_mul(columns.keys.len()) {
        return Err("a block's keys are impossible");
    }
    let expiries = columns.flags.bytes.iter().filter(|&flags| flags & EXPIRES != 0).count() * 8;
    let rest = key_bytes.saturating_add(columns.payloads.len()).saturating_add(expiries);
    if Block::room_of(count, rest) > memory_max {
        return Err("a block takes too much memory");
    }
    Block::filled(count, rest, |block| fill(block, count, start, &mut columns))
}

fn fill(
    block: &mut Filling<'_>,
    count: usize,
    mut start: u64,
    columns: &mut Columns<'_>,
) -> Result<(), Wrong> {
    let mut last_expiry = 0;
    for _ in 0..count {
        let flags = columns.flags.next_byte()?;
        if flags & !(TOMBSTONE | EXPIRES) != 0 {
            return Err("an entry has unknown flags");
        }
        let shared = columns.shared.next_len()?;
        let rest = columns.rest.next_len()?;
        start = start.wrapping_add(var::unzigzag(columns.start.next()?).cast_unsigned());
        let commit = start.wrapping_add(columns.lag.next()?);
        if start > Timestamp::MAX.get() || commit > Timestamp::MAX.get() {
            return Err("an entry's timestamp is out of range");
        }
        let (rest, keys) = columns.keys.split_at_checked(rest).ok_or("the keys end too early")?;
        columns.keys = keys;
        let mut expiry = None;
        if flags & EXPIRES != 0 {
            let step = var::unzigzag(columns.expiry.next()?);
            last_expiry = u64::wrapping_add(last_expiry, step.cast_unsigned());
            expiry = Some(last_expiry);
        }
        let payload = if flags & TOMBSTONE == 0 { Some(columns.payload()?) } else { None };
        block.push(&New { commit, start, shared, rest, expiry, payload })?;
    }
    if columns.is_empty() { Ok(()) } else { Err("a block has bytes left over") }
}
