//! Chain of deltas of one key and stripe, until it is merged or written.

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::mark::GcHook;
use super::source::{Cell, RangeVersion, Sink};
use crate::codec::PAYLOAD_BYTES_MAX;
use crate::manifest::VersionKind;

/// Deltas, newest first, that wait for the version below them.
///
/// A chain is within one stripe: a reader sees all of it or nothing. So the value that results from
/// it takes the place of its newest delta, and the older ones are dropped.
#[derive(Debug, Default)]
pub(super) struct Chain {
    commits: Vec<Timestamp>,
    deltas: Vec<(Timestamp, Bytes)>,
    stripe: Option<usize>,
}

/// End of a chain of deltas.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChainEnd<'a> {
    /// Value that the deltas change.
    Value(Cell<'a>),
    /// Tombstone, which hides older versions.
    Tombstone(RangeVersion),
    /// No older version exists, or a range tombstone hides them, which is written apart.
    Nothing,
}

impl Chain {
    pub(super) const fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Returns the stripe of the deltas.
    pub(super) const fn stripe(&self) -> Option<usize> {
        self.stripe
    }

    pub(super) fn push(&mut self, cell: Cell<'_>, stripe: Option<usize>) {
        let payload = cell.payload.unwrap_or_default();
        self.commits.push(cell.commit);
        self.deltas.push((cell.start, Bytes::copy_from_slice(payload)));
        self.stripe = stripe;
    }

    /// Writes the value that results from the deltas and the version that ends their chain. Returns
    /// the tombstone that is still to be written, if any: in the place of the value, if nothing is
    /// left of it, or below deltas that cannot be merged.
    pub(super) fn write_merged(
        &mut self,
        below: ChainEnd<'_>,
        key: &[u8],
        hook: &impl GcHook,
        sink: &mut impl Sink,
    ) -> Result<Option<RangeVersion>> {
        let value = match below {
            ChainEnd::Value(cell) => cell.payload.map(|payload| (cell.start, payload)),
            ChainEnd::Tombstone(_) | ChainEnd::Nothing => None,
        };
        let value = value.map(|(start, payload)| (start, Bytes::copy_from_slice(payload)));
        let value = value.as_ref().map(|(start, payload)| (*start, payload));
        let payload = match hook.merge(value, &self.deltas).and_then(within_limit) {
            Ok(payload) => payload,
            Err(error) => {
                tracing::warn!(%error, "deltas cannot be merged and are kept");
                return self.write_stuck(below, key, sink);
            }
        };
        let (commit, start) = (self.commits[0], self.deltas[0].0);
        self.clear();
        let Some(payload) = payload else { return Ok(Some(RangeVersion { commit, start })) };
        let expiry = hook.expiry(&payload);
        let cell = Cell { commit, start, expiry, payload: Some(&payload) };
        sink.push(key, cell, VersionKind::Value)?;
        Ok(None)
    }

    /// Writes deltas that cannot be merged, and the value below them. A reader of these versions gets
    /// the error, or a value longer than can be written, so a compaction must not lose them. It must
    /// not lose a tombstone below them either, because it hides older versions.
    fn write_stuck(
        &mut self,
        below: ChainEnd<'_>,
        key: &[u8],
        sink: &mut impl Sink,
    ) -> Result<Option<RangeVersion>> {
        self.write(key, VersionKind::StuckDelta, sink)?;
        match below {
            ChainEnd::Value(cell) => sink.push(key, cell, VersionKind::Value).map(|()| None),
            ChainEnd::Tombstone(tombstone) => Ok(Some(tombstone)),
            ChainEnd::Nothing => Ok(None),
        }
    }

    /// Writes the deltas as they are.
    pub(super) fn write(
        &mut self,
        key: &[u8],
        kind: VersionKind,
        sink: &mut impl Sink,
    ) -> Result<()> {
        for (commit, (start, payload)) in self.commits.iter().zip(&self.deltas) {
            let (commit, start) = (*commit, *start);
            sink.push(key, Cell { commit, start, expiry: None, payload: Some(payload) }, kind)?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.commits.clear();
        self.deltas.clear();
        self.stripe = None;
    }
}

fn within_limit(value: Option<Bytes>) -> Result<Option<Bytes>> {
    match value.as_ref().map_or(0, Bytes::len) {
        0..=PAYLOAD_BYTES_MAX => Ok(value),
        len => Err(Error::invalid(format!(
            "the value has {len} bytes, and at most {PAYLOAD_BYTES_MAX} are stored"
        ))),
    }
}
