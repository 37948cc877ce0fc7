//! The commit order of every scenario, correct or with a broken rule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use carnet_base::sync::lock;
use carnet_base::{Result, Timestamp};
use carnet_store::{BeginKind, Begun, Claim, CommitOrder};

use crate::mutant::Mutant;
use crate::workload::schema_cell;

/// State shared by the two interfaces of one store.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<Timestamp, Timestamp>>);

impl Known {
    fn starts(&self) -> MutexGuard<'_, BTreeMap<Timestamp, Timestamp>> {
        lock(&self.0)
    }

    /// Returns the commit of a decided start.
    pub(crate) fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        self.starts().get(&start).copied()
    }

    /// Returns the last decided commit.
    pub(crate) fn newest(&self) -> Timestamp {
        self.starts().values().max().copied().unwrap_or_default()
    }
}

/// The commit order.
pub(crate) struct Rules {
    pub(crate) inner: Box<dyn CommitOrder>,
    pub(crate) known: Arc<Known>,
    pub(crate) mutant: Option<Mutant>,
}

impl Rules {
    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl CommitOrder for Rules {
    fn begin(&self, kind: BeginKind) -> Result<Begun> {
        let begun = self.inner.begin(kind)?;
        if kind == BeginKind::ReadOnly && self.breaks(Mutant::SnapshotNotRegistered) {
            self.inner.end(begun);
        }
        if self.breaks(Mutant::StartDrawnBeforeSnapshot) && begun.start.is_some() {
            // A commit decided meanwhile lies above S and below R.
            let later = self.inner.begin(BeginKind::ReadWrite)?;
            self.inner.end(later);
            return Ok(Begun { read: later.start.unwrap_or(later.read), ..begun });
        }
        Ok(begun)
    }

    fn end(&self, begun: Begun) {
        if begun.start.is_some() || !self.breaks(Mutant::SnapshotNotRegistered) {
            self.inner.end(begun);
        }
    }

    fn decide(&self, claim: &mut Claim) -> Result<Timestamp> {
        match self.mutant {
            Some(Mutant::ReadPointsIgnored) => claim.reads.points.clear(),
            // Among the transactions of `derived`, only steps of builds depend on ranges.
            Some(Mutant::ReadRangesIgnored | Mutant::BuildNotGuarded) => {
                claim.reads.ranges.clear();
            }
            Some(Mutant::SchemaNotGuarded) => {
                let schema = schema_cell().hash();
                claim.reads.points.retain(|point| *point != schema);
            }
            Some(Mutant::BlindWritesUnchecked)
                if claim.reads.points.is_empty() && claim.reads.ranges.is_empty() =>
            {
                claim.read = self.inner.latest();
            }
            Some(Mutant::OverwritesUnchecked) => claim.checks_writes = false,
            _ => {}
        }
        let commit = self.inner.decide(claim)?;
        self.known.starts().insert(claim.start, commit);
        if self.breaks(Mutant::PublishedBeforeResolved) {
            self.inner.publish(commit);
        }
        Ok(commit)
    }

    fn publish(&self, commit: Timestamp) {
        if !self.breaks(Mutant::PublishedBeforeResolved) {
            self.inner.publish(commit);
        }
    }

    fn published(&self) -> Timestamp {
        self.inner.published()
    }

    fn schema(&self) -> Timestamp {
        self.inner.schema()
    }

    fn latest(&self) -> Timestamp {
        self.inner.latest()
    }

    fn is_running(&self, start: Timestamp) -> bool {
        self.inner.is_running(start)
    }

    fn raise_mark(&self, wanted: Timestamp) -> Timestamp {
        let mark = self.inner.raise_mark(wanted);
        let is_ahead =
            self.breaks(Mutant::MarkAheadOfSnapshots) || self.breaks(Mutant::DeltasMergedAboveMark);
        if is_ahead { self.inner.published() } else { mark }
    }

    fn mark(&self) -> Timestamp {
        self.inner.mark()
    }

    fn headroom(&self) -> u64 {
        self.inner.headroom()
    }

    fn extend(&self, bound: Timestamp) {
        self.inner.extend(bound);
    }

    fn skip_to(&self, first: Timestamp) {
        self.inner.skip_to(first);
    }
}
