//! Merge operators with a broken rule.

use std::sync::Arc;

use carnet_base::{Bytes, Result, TableId, Timestamp};
use carnet_storage::{MergeOperator, ReplaceMerges};

use crate::mutant::Mutant;

type Deltas = Vec<(Timestamp, Bytes)>;

/// Changes the deltas, newest first, before they are merged.
struct Broken {
    inner: Arc<dyn MergeOperator>,
    change: fn(&mut Deltas),
}

/// Returns the replacement of the merge operator for a mutant, if it has one.
pub(super) fn of(mutant: Option<Mutant>) -> Option<ReplaceMerges> {
    match mutant? {
        Mutant::DeltasMergedByStart => {
            Some(|inner| Arc::new(Broken { inner, change: sort_by_start }))
        }
        Mutant::DeltaLeftOut => Some(|inner| Arc::new(Broken { inner, change: leave_out })),
        Mutant::DeltaMergedTwice => Some(|inner| Arc::new(Broken { inner, change: repeat })),
        _ => None,
    }
}

fn sort_by_start(deltas: &mut Deltas) {
    deltas.sort_by(|(a, _), (b, _)| b.cmp(a));
}

fn leave_out(deltas: &mut Deltas) {
    if deltas.len() > 1 {
        deltas.pop();
    }
}

fn repeat(deltas: &mut Deltas) {
    deltas.extend(deltas.last().cloned());
}

impl MergeOperator for Broken {
    fn mark(&self) -> u8 {
        self.inner.mark()
    }

    fn has_deltas(&self, table: TableId) -> bool {
        self.inner.has_deltas(table)
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        let mut deltas = deltas.to_vec();
        (self.change)(&mut deltas);
        self.inner.merge(value, &deltas)
    }

    fn expiry(&self, value: &[u8]) -> Option<u64> {
        self.inner.expiry(value)
    }
}
