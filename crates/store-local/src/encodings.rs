//! Encodings of the commit table, by start (I10).
//!
//! ```text
//!   manifest   bound 20 000 001 │ notes: v2 from 0, v3 from 10 000 001, valid below the bound
//!                               │
//!   a start S  always below the bound: the map determines the cell of its entry, for flush and
//!              lookup, and never changes for this start
//! ```
//!
//! The map is valid up to the bound of timestamps and is stored with it, in one edit of the
//! manifest, so every assigned start has an encoding. A migration starts another encoding at the
//! bound, raises the bound by another step, and makes the timestamp oracle skip to the first start
//! of the new encoding. Nothing is copied; running transactions are recorded in the encoding of
//! their start.
//!
//! A database without a map uses the second encoding, and so does a new one by default: the tags of
//! the third one distinguish aborts from commits, and an embedded database writes no aborts.

use std::sync::{Mutex, MutexGuard, RwLock};

use carnet_base::sync::{lock, read, write};
use carnet_base::{Encoding, EncodingMap, Error, Result, Timestamp};
use carnet_storage::Engine;

use crate::bound;

/// Default encoding of a new database.
pub const DEFAULT_ENCODING: Encoding = Encoding::V2;

/// Encoding map; all changes of the map and the bound are made here.
pub(crate) struct Encodings {
    map: RwLock<EncodingMap>,
    changing: Mutex<()>,
}

/// Decodes the encoding map from the notes in the manifest.
pub(crate) fn decode(notes: &[u8], bound: Timestamp) -> Result<EncodingMap> {
    if notes.is_empty() {
        return Ok(EncodingMap::starting_with(DEFAULT_ENCODING, below(bound)));
    }
    let map = EncodingMap::decode(notes)?;
    if map.valid_through() < below(bound) {
        return Err(Error::corrupted(format!(
            "the map of commit encodings ends at {}, but timestamps up to the bound {bound} may have \
             been handed out",
            map.valid_through()
        )));
    }
    Ok(map)
}

/// Returns the description of a map for a backup's label.
pub(crate) fn describe(map: &EncodingMap) -> String {
    let spans: Vec<_> = map.spans().map(|(first, of)| format!("{of} from {first}")).collect();
    format!("encodings of the commit table: {}", spans.join(", "))
}

/// Returns the last timestamp below a bound.
pub(crate) fn below(bound: Timestamp) -> Timestamp {
    Timestamp::new(bound.get().saturating_sub(1)).unwrap_or_default()
}

impl Encodings {
    /// Makes a placeholder, because the engine needs the encodings before it is open.
    pub(crate) fn unread() -> Self {
        let map = EncodingMap::starting_with(DEFAULT_ENCODING, Timestamp::ZERO);
        Self { map: RwLock::new(map), changing: Mutex::default() }
    }

    /// Reads the map of an opened database. A new one starts with `new`.
    pub(crate) fn read(&self, engine: &Engine, new: Encoding) -> Result<()> {
        let bound = engine.timestamp_bound();
        let map = match bound {
            Timestamp::ZERO => EncodingMap::starting_with(new, Timestamp::ZERO),
            _ => decode(&engine.notes(), bound)?,
        };
        self.set(map);
        Ok(())
    }

    /// Returns the encoding of a start.
    ///
    /// # Errors
    ///
    /// `Corrupted` for a start beyond the map, which must not have been assigned.
    pub(crate) fn get(&self, start: Timestamp) -> Result<Encoding> {
        let map = read(&self.map);
        map.encoding_of(start).ok_or_else(|| {
            Error::corrupted(format!(
                "start {start} was handed out beyond {}, where the map of commit encodings ends",
                map.valid_through()
            ))
        })
    }

    pub(crate) fn map(&self) -> EncodingMap {
        read(&self.map).clone()
    }

    /// Durably raises the bound to a step above `from` or the current bound, whichever is higher,
    /// and returns it.
    pub(crate) fn raise_bound(&self, engine: &Engine, from: Timestamp) -> Result<Timestamp> {
        let _one = self.change();
        self.extend(engine, from, &self.map())
    }

    /// Starts an encoding at the bound. Returns its first start and the new bound; `None` if it is
    /// the current encoding.
    pub(crate) fn migrate(
        &self,
        engine: &Engine,
        to: Encoding,
    ) -> Result<Option<(Timestamp, Timestamp)>> {
        let _one = self.change();
        let map = self.map();
        if map.spans().last().is_some_and(|(_, last)| last == to) {
            return Ok(None);
        }
        let before = engine.timestamp_bound();
        let map = map.extended(below(before)).followed_by(to)?;
        let bound = self.extend(engine, before, &map)?;
        Ok(map.spans().last().map(|(first, _)| (first, bound)))
    }

    fn extend(&self, engine: &Engine, from: Timestamp, map: &EncodingMap) -> Result<Timestamp> {
        let bound = bound::above(from.max(engine.timestamp_bound()), bound::STEP)?;
        let map = map.extended(below(bound));
        engine.note(bound, map.encode())?;
        self.set(map);
        Ok(bound)
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    fn set(&self, map: EncodingMap) {
        *write(&self.map) = map;
    }
}
