//! Tuners of reads of many cells, by kind of read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use carnet_base::TableId;
use carnet_base::sync::lock;
use carnet_store::loader::{Done, Setting, Tuner};

/// Kind of a read: the table, and the numbers of cells of the read and of a row, as powers of four.
pub(crate) type Kind = (TableId, u32, u32);

/// Tuners of reads of many cells, by kind.
#[derive(Default)]
pub(crate) struct Loads(Mutex<HashMap<Kind, Tuner>>);

/// A read in flight. Dropping it counts as giving it up.
pub(crate) struct Reading<'a> {
    loads: &'a Loads,
    kind: Kind,
    pub(crate) setting: Setting,
    is_over: bool,
}

impl Loads {
    pub(crate) fn begin(&self, kind: Kind, cells: usize) -> Reading<'_> {
        let setting = self.tuners().entry(kind).or_default().begin(cells);
        Reading { loads: self, kind, setting, is_over: false }
    }

    fn tuners(&self) -> MutexGuard<'_, HashMap<Kind, Tuner>> {
        lock(&self.0)
    }
}

impl Reading<'_> {
    /// Ends the read; the tuner learns from its result.
    pub(crate) fn end(mut self, done: Option<&Done>) {
        self.is_over = true;
        self.with(|tuner, setting| match done {
            Some(done) => tuner.end(setting, done),
            None => tuner.fail(setting),
        });
    }

    fn with(&self, act: impl FnOnce(&mut Tuner, Setting)) {
        act(self.loads.tuners().entry(self.kind).or_default(), self.setting);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.with(|tuner, _| tuner.give_up());
        }
    }
}
