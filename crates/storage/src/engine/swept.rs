//! The sweep mark: below it snapshots may not find any more what they saw.
//!
//! Compaction forgets what is hidden below a mark that the layer above names. The mark is in the
//! manifest, durably, before compaction learns of it, so that a later life knows which snapshots
//! of earlier ones it can still serve. It costs a write of the manifest for each mark that is
//! higher than the one before; marks move when the retention does, not at each commit.
//!
//! A snapshot of an earlier life is served only if the commits that it saw are there as well. So
//! they are where every commit is synced before it is visible. Where that is not so the manifest
//! says that the database is *lossy* from its opening until it is closed, and the next opening that
//! finds it so raises the mark above all that was handed out. Nothing was *forgotten* by that: the
//! manifest says apart how far compaction has come.

use std::sync::{Arc, Weak};

use carnet_base::{Error, Result, TableId, Timestamp};

use super::{Core, Engine};
use crate::compaction::merge::{GcHook, Mark};
use crate::manifest::Edit;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

impl Engine {
    /// Returns the sweep mark: what a snapshot at it or above sees, of this life or an earlier one,
    /// is all there. It rises with what is given to [`Engine::set_gc`].
    #[must_use]
    pub fn swept(&self) -> Timestamp {
        lock(&self.core.manifest).swept
    }
}

impl Engine {
    /// Returns how far what compaction forgot may reach. It is the sweep mark, or below it where
    /// an opening has raised the mark for what a crash lost.
    #[must_use]
    pub fn forgotten(&self) -> Timestamp {
        Timestamp::new(self.core.forgotten.load(Ordering::Acquire)).unwrap_or(Timestamp::MAX)
    }

    /// Has compaction look whether something can be forgotten that could not when it looked last.
    pub fn look_for_garbage(&self) {
        self.core.ring_compactors();
    }
}

impl Core {
    fn raise_swept(&self, mark: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        if mark > manifest.forgotten {
            let (swept, forgotten) = (Some(mark.max(manifest.swept)), Some(mark));
            self.edit(&mut manifest, &Edit { swept, forgotten, ..Edit::default() })?;
        }
        self.forgotten.fetch_max(mark.get(), Ordering::AcqRel);
        Ok(())
    }

    /// Notes that all commits are synced, where they need not have been before.
    pub(super) fn end_lossy(&self) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        if !manifest.lossy || !self.options.log {
            return Ok(());
        }
        self.edit(&mut manifest, &Edit { lossy: Some(false), ..Edit::default() })
    }
}

/// Says what compaction may forget, once the manifest says that it is forgotten.
pub(super) struct Noted {
    hook: Arc<dyn GcHook + Send + Sync>,
    /// The core has the hook.
    core: Weak<Core>,
}

impl Noted {
    pub(super) fn new(hook: Arc<dyn GcHook + Send + Sync>, core: &Arc<Core>) -> Self {
        Self { hook, core: Arc::downgrade(core) }
    }
}

impl GcHook for Noted {
    fn mark(&self) -> Mark {
        let mark = self.hook.mark();
        let core = self.core.upgrade();
        let gone = || Error::unavailable("the engine is closed");
        match core.ok_or_else(gone).and_then(|core| core.raise_swept(mark.read)) {
            Ok(()) => mark,
            // Nothing is forgotten; the store has stopped, and says why to whoever asks.
            Err(_) => Mark::default(),
        }
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.hook.is_dropped(table)
    }

    fn passes(&self, table: TableId) -> bool {
        self.hook.passes(table)
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        self.hook.has_passed(mark, key, commit)
    }
}
