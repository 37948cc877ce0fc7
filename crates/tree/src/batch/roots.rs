//! The newest known root, and the confidence that it is the newest one.

use std::sync::Arc;

use carnet_base::{Bytes, Moment, Result};

use super::core::{Core, Known};
use crate::root::Root;
use crate::store::{NodeStore, RootPointer};

/// Maximum confidence that a cached root is the newest, and the minimum to use it.
pub(super) const SURE_MAX: u32 = 4;
const SURE_ENOUGH: u32 = 2;
/// Decrease of the confidence after a stale guess; a confirmation increases it by 1. A right guess
/// saves a read of the root, a stale one costs a lost move and a read, so most guesses must be
/// right.
const DISAPPOINTMENT: u32 = 3;

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    /// Returns the cached root if it is probably the newest.
    pub(super) fn guess(&self) -> Option<Known> {
        let state = self.state();
        // Without verification, any root is good enough.
        let is_worth_it = state.sure >= SURE_ENOUGH || !self.options.verify_reads;
        state.root.clone().filter(|_| self.options.cache_root && is_worth_it)
    }

    pub(super) async fn read_root(&self, deadline: Moment) -> Result<Known> {
        let read = || {
            self.count(|stats| stats.root_reads += 1);
            self.root.read()
        };
        let bytes = self.ask(|state| &mut state.root_time, deadline, read).await?;
        self.know(bytes)
    }

    /// Caches a root that another transactor has set, if it is newer.
    pub(crate) fn suggest(&self, bytes: Bytes) -> Result<()> {
        let root = Root::decode(&bytes)?;
        let state = &mut *self.state();
        let is_news = state.keep(Known { root: Arc::new(root), bytes: Some(bytes) });
        state.stats.roots_suggested += u64::from(is_news);
        Ok(())
    }

    /// Decodes and caches a root that was just read.
    fn know(&self, bytes: Option<Bytes>) -> Result<Known> {
        let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
        let state = &mut *self.state();
        if let Some(cached) = &state.root {
            // This newer root was suggested while the read was in flight, so it was set after the
            // read began.
            if cached.root.generation() > root.generation() {
                return Ok(cached.clone());
            }
            let is_same = cached.bytes == bytes;
            state.sure = if is_same {
                (state.sure + 1).min(SURE_MAX)
            } else {
                state.sure.saturating_sub(DISAPPOINTMENT)
            };
            if is_same {
                return Ok(cached.clone());
            }
        }
        let known = Known { root: Arc::new(root), bytes };
        state.root = Some(known.clone());
        Ok(known)
    }
}
