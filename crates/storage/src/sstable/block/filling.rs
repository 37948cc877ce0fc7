//! Fills a block entry by entry.

use super::entry::{EXPIRY_BYTES, Entry, RECORD_BYTES};
use super::search::{CONTINUES, HEAD_BYTES, PLACE_BYTES, head, short};
use super::shared::{Block, Front, SharedBlock};
use crate::sstable::damage::Wrong;
use crate::sstable::flat_key::shared_len;

/// A block being filled. Its number of entries and its size are known in advance.
pub(in crate::sstable) struct Filling<'a> {
    block: &'a mut Block,
    /// Number of entries so far; `last` is the last of them.
    count: usize,
    last: Entry,
    /// End of the used memory.
    taken: usize,
}

/// The next entry of a block.
pub(in crate::sstable) struct New<'a> {
    pub(in crate::sstable) commit: u64,
    pub(in crate::sstable) start: u64,
    /// Number of leading bytes that the key shares with the previous key.
    pub(in crate::sstable) shared: usize,
    /// Rest of the key.
    pub(in crate::sstable) rest: &'a [u8],
    pub(in crate::sstable) expiry: Option<u64>,
    /// `None` for a tombstone.
    pub(in crate::sstable) payload: Option<&'a [u8]>,
}

impl Block {
    /// Makes a block of `count` entries, at least one, with `rest` bytes of keys, expiries and
    /// payloads; `fill` adds the entries.
    pub(in crate::sstable) fn filled(
        count: usize,
        rest: usize,
        fill: impl FnOnce(&mut Filling<'_>) -> Result<(), Wrong>,
    ) -> Result<SharedBlock, Wrong> {
        let front = Front { count: short(count), ..Front::default() };
        let mut block = SharedBlock::new(front, Self::room_of(count, rest));
        let alone = block.alone();
        let taken = alone.records();
        let mut filling = Filling { block: alone, count: 0, last: Entry::default(), taken };
        fill(&mut filling)?;
        if filling.count < count || filling.taken < filling.block.memory.len() {
            return Err("a block is shorter than it says");
        }
        filling.block.outline();
        Ok(block)
    }

    /// Computes the fields used by searches.
    fn outline(&mut self) {
        let last = self.len() - 1;
        let skip = shared_len(self.key(0), self.key(last));
        for at in 0..self.len() {
            let head = head(&self.key(at)[skip..]);
            self.memory[at * HEAD_BYTES..][..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
        }
        let (first_head, last_head) = (self.head(0), self.head(last));
        if last_head > first_head {
            self.front.slope = last as f64 / (last_head - first_head) as f64;
        }
        (self.front.skip, self.front.first_head, self.front.last_head) =
            (short(skip), first_head, last_head);
    }
}

impl Filling<'_> {
    /// Adds an entry, which must sort after the last one.
    pub(in crate::sstable) fn push(&mut self, new: &New<'_>) -> Result<(), Wrong> {
        let &New { commit, start, shared, rest, expiry, payload } = new;
        let key_here = if self.has_new_key(new)? { shared + rest.len() } else { 0 };
        let expiry_len = if expiry.is_some() { EXPIRY_BYTES } else { 0 };
        let place = self.taken;
        let behind = place + RECORD_BYTES;
        let payload_at = behind + key_here + expiry_len;
        self.taken = payload_at + payload.map_or(0, <[u8]>::len);
        if self.count == self.block.len() || self.taken > self.block.memory.len() {
            return Err("a block is longer than it says");
        }
        let mut entry = Entry {
            commit,
            start,
            expires: expiry.is_some(),
            payload_at: short(payload_at),
            payload_len: payload.map(|payload| short(payload.len())),
            ..self.last
        };
        let place_at = self.block.place_at(self.count);
        let memory = &mut self.block.memory;
        let marked = short(place) | if key_here > 0 { 0 } else { CONTINUES };
        memory[place_at..][..PLACE_BYTES].copy_from_slice(&marked.to_le_bytes());
        if key_here > 0 {
            let last_at = self.last.key_at as usize;
            memory.copy_within(last_at..last_at + shared, behind);
            memory[behind + shared..][..rest.len()].copy_from_slice(rest);
            (entry.key_at, entry.key_len) = (short(behind), short(key_here));
        }
        if let Some(expiry) = expiry {
            memory[payload_at - EXPIRY_BYTES..payload_at].copy_from_slice(&expiry.to_le_bytes());
        }
        memory[payload_at..self.taken].copy_from_slice(payload.unwrap_or_default());
        entry.write(memory[place..].first_chunk_mut().expect("the size was checked above"));
        self.last = entry;
        self.count += 1;
        Ok(())
    }

    /// Checks that an entry sorts after the last one and shares the longest possible prefix with
    /// its key; returns `true` if it has a new key.
    fn has_new_key(&self, new: &New<'_>) -> Result<bool, Wrong> {
        let &New { shared, rest, commit, .. } = new;
        if self.count == 0 {
            // An empty key would have the same offset as the next key.
            let is_whole = shared == 0 && !rest.is_empty();
            return if is_whole { Ok(true) } else { Err("a block's first key is not whole") };
        }
        let key = self.block.key_of(&self.last);
        match (key.get(shared), rest.first()) {
            (Some(old), Some(new)) if old < new => Ok(true),
            (None, Some(_)) if shared == key.len() => Ok(true),
            (None, None) if shared == key.len() && commit < self.last.commit => Ok(false),
            _ => Err("a block's entries are not in order"),
        }
    }
}
