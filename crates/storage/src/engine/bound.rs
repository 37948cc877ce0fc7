//! Bound of timestamps, and notes of the layer above.

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::core::Engine;
use crate::manifest::Edit;
use crate::sync::lock;

impl Engine {
    /// Returns the bound below which timestamps may have been assigned before; zero in a new
    /// database.
    #[must_use]
    pub fn timestamp_bound(&self) -> Timestamp {
        lock(&self.core.manifest).bound
    }

    /// Raises the bound durably. A lower bound has no effect.
    ///
    /// Timestamps at or above the bound must not be used.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails or the store has stopped; then the bound may or may not be
    /// raised, and the store has stopped writing.
    pub fn raise_bound(&self, bound: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        if bound <= manifest.bound {
            return Ok(());
        }
        self.core.edit(&mut manifest, &Edit { bound: Some(bound), ..Edit::default() })
    }

    /// Returns the opaque notes of the layer above.
    #[must_use]
    pub fn notes(&self) -> Bytes {
        lock(&self.core.manifest).notes.clone()
    }

    /// Raises the bound and replaces the notes, atomically and durably. A lower bound leaves the
    /// bound unchanged.
    ///
    /// # Errors
    ///
    /// Like [`Engine::raise_bound`]; `Invalid` for notes longer than
    /// [`NOTES_BYTES_MAX`](crate::manifest::NOTES_BYTES_MAX).
    pub fn note(&self, bound: Timestamp, notes: Bytes) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        let bound = Some(bound.max(manifest.bound));
        let edit = Edit { bound, notes: Some(notes), ..Edit::default() };
        manifest.edited(&edit)?;
        self.core.edit(&mut manifest, &edit)
    }
}
