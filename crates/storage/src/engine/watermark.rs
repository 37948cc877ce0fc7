//! GC watermark: snapshots below it may have lost versions.
//!
//! Compaction drops hidden versions below a watermark that the layer above provides. The watermark
//! is stored in the manifest before compaction uses it, so that after a restart it is known which
//! earlier snapshots are still complete. This costs a write of the manifest for each rise of the
//! watermark; watermarks rise with the retention, not with each commit.
//!
//! A snapshot of a time before a restart is complete only if the commits that it saw were
//! recovered. This holds if every commit is synced before it is visible. Otherwise the manifest
//! marks the database as *lossy* from its opening until it is closed. An opening that finds the
//! mark raises `swept` above all assigned timestamps. This does not raise `forgotten`, the
//! watermark of compaction alone.

use std::sync::{Arc, Weak};

use carnet_base::{Error, Result, TableId, Timestamp};

use super::core::{Core, Engine};
use crate::compaction::merge::{GcHook, Mark};
use crate::manifest::Edit;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

impl Engine {
    /// Returns the GC watermark: snapshots at or above it are complete, including snapshots of the
    /// time before a restart. It rises with the watermark of the hook of [`Engine::set_gc`].
    #[must_use]
    pub fn swept(&self) -> Timestamp {
        lock(&self.core.manifest).swept
    }
}

impl Engine {
    /// Returns the watermark up to which compaction may have dropped versions. It is at most
    /// [`Engine::swept`], which is higher if an opening raised it after a crash.
    #[must_use]
    pub fn forgotten(&self) -> Timestamp {
        Timestamp::new(self.core.forgotten.load(Ordering::Acquire)).unwrap_or(Timestamp::MAX)
    }

    /// Makes compaction check for garbage that it could not drop before.
    pub fn look_for_garbage(&self) {
        self.core.ring_compactors();
    }
}

impl Core {
    fn raise_watermark(&self, mark: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        if mark > manifest.forgotten {
            let (swept, forgotten) = (Some(mark.max(manifest.swept)), Some(mark));
            self.edit(&mut manifest, &Edit { swept, forgotten, ..Edit::default() })?;
        }
        self.forgotten.fetch_max(mark.get(), Ordering::AcqRel);
        Ok(())
    }

    /// Clears `lossy`, because all commits are synced.
    pub(super) fn end_lossy(&self) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        if !manifest.lossy {
            return Ok(());
        }
        self.edit(&mut manifest, &Edit { lossy: Some(false), ..Edit::default() })
    }
}

/// GC hook that stores the watermark in the manifest before compaction uses it.
pub(super) struct DurableHook {
    hook: Arc<dyn GcHook + Send + Sync>,
    /// Weak, because the core owns the hook.
    core: Weak<Core>,
}

impl DurableHook {
    pub(super) fn new(hook: Arc<dyn GcHook + Send + Sync>, core: &Arc<Core>) -> Self {
        Self { hook, core: Arc::downgrade(core) }
    }
}

impl GcHook for DurableHook {
    fn mark(&self) -> Mark {
        let mark = self.hook.mark();
        let core = self.core.upgrade();
        let gone = || Error::unavailable("the engine is closed");
        match core.ok_or_else(gone).and_then(|core| core.raise_watermark(mark.read)) {
            Ok(()) => mark,
            // Nothing is dropped; the store has stopped and reports the cause.
            Err(_) => Mark::default(),
        }
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.hook.is_dropped(table)
    }

    fn passes(&self, table: TableId) -> bool {
        self.hook.passes(table)
    }

    fn keeps_newest(&self, table: TableId) -> bool {
        self.hook.keeps_newest(table)
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        self.hook.has_passed(mark, key, commit)
    }
}
