//! Which encoding of the commit table is in force for which starts (I10).
//!
//! ```text
//!   manifest   bound 20 000 001 │ notes: v2 from 0, v3 from 10 000 001, valid below the bound
//!                               │
//!   a start S  always below the bound: the map says where its entry goes, at flush, and where
//!              it is looked for, and will never say anything else of it
//! ```
//!
//! The map is valid up to the bound of timestamps, and moves with it, in one change of the
//! manifest: no start is handed out of which it says nothing. A migration lets another encoding
//! begin at the bound, moves both a step further, and has the clock skip to where it begins.
//! Nothing is copied; transactions under way are written down in the encoding of their start.
//!
//! A database from before there were maps has its entries in the second encoding, and so has a new
//! one unless it is told otherwise: the tags of the third tell an abort from a commit, and an
//! embedded database writes no aborts.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use carnet_base::{Encoding, EncodingMap, Error, Result, Timestamp};
use carnet_storage::Engine;

use crate::bound;

/// The encoding of a new database, unless told otherwise.
pub const DEFAULT_ENCODING: Encoding = Encoding::V2;

/// The map, and the only way to change it and the bound.
pub(crate) struct Encodings {
    map: RwLock<EncodingMap>,
    changing: Mutex<()>,
}

/// What the manifest says of a database's encodings.
pub(crate) fn decode(notes: &[u8], bound: Timestamp) -> Result<EncodingMap> {
    if notes.is_empty() {
        return Ok(EncodingMap::starting_with(DEFAULT_ENCODING, below(bound)));
    }
    let map = EncodingMap::decode(notes)?;
    if map.valid_through() < below(bound) {
        return Err(Error::corrupted(format!(
            "the map of commit encodings ends at {}, timestamps up to the bound {bound} may have \
             been handed out",
            map.valid_through()
        )));
    }
    Ok(map)
}

/// Says it for people.
pub(crate) fn describe(map: &EncodingMap) -> String {
    let spans: Vec<_> = map.spans().map(|(first, of)| format!("{of} from {first}")).collect();
    format!("encodings of the commit table: {}", spans.join(", "))
}

/// The last timestamp that may be handed out below a bound.
pub(crate) fn below(bound: Timestamp) -> Timestamp {
    Timestamp::new(bound.get().saturating_sub(1)).unwrap_or_default()
}

impl Encodings {
    /// Knows nothing yet: the engine wants to be told of entries before it is open.
    pub(crate) fn unread() -> Self {
        let map = EncodingMap::starting_with(DEFAULT_ENCODING, Timestamp::ZERO);
        Self { map: RwLock::new(map), changing: Mutex::default() }
    }

    /// Reads the map of a database that was opened. A new one begins with `new`.
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
    /// `Corrupted` for one beyond what the map says: it must not have been handed out.
    pub(crate) fn of(&self, start: Timestamp) -> Result<Encoding> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.encoding_of(start).ok_or_else(|| {
            Error::corrupted(format!(
                "start {start} was handed out beyond {}, where the map of commit encodings ends",
                map.valid_through()
            ))
        })
    }

    pub(crate) fn map(&self) -> EncodingMap {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a bound durable that lies a step above `from`, or above the bound where that is
    /// higher, and returns it.
    pub(crate) fn raise_bound(&self, engine: &Engine, from: Timestamp) -> Result<Timestamp> {
        let _one = self.change();
        self.extend(engine, from, &self.map())
    }

    /// Lets an encoding begin at the bound. Returns where it begins and the new bound; `None`
    /// where it is the last one already.
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
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, map: EncodingMap) {
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
    }
}
