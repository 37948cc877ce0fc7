//! Writes cells, and hides those of dropped tables.

use std::sync::Arc;

use carnet_base::{CellKey, Error, ErrorKind, KeyRange, Result, TableId, Timestamp, Version};
use carnet_store::cluster::{CellVersions, Cluster, Fault, VersionWrite};
use carnet_store::{Context, PageLimit, RangeRequest};

use super::inner::Inner;
use super::requests::LOOK_AGAIN;
use crate::statements::{DROPPED, MERGED};
use crate::transport::Transport;

/// Number of tries of a write of cells that no majority took.
const WRITE_TRIES: u32 = 4;
/// Page in which the cells of a dropped table are hidden.
const DROP_PAGE: PageLimit = PageLimit { cells: 500, bytes: 1 << 20 };
impl<C: Cluster, T: Transport> Inner<C, T> {
    /// Writes versions until a majority has them. This commits nothing.
    pub(super) async fn write(&self, context: &Context, writes: &[VersionWrite]) -> Result<()> {
        let mut wait = LOOK_AGAIN;
        let mut tries = 0;
        loop {
            let Err(fault) = self.cluster.write_versions(context, writes).await else {
                return Ok(());
            };
            // Nothing is committed yet, so that a part which was written has no effect.
            if let Fault::Failed(error) = &fault
                && error.kind() == ErrorKind::Invalid
            {
                return Err(fault.into_error());
            }
            tries += 1;
            self.check(context)?;
            if tries == WRITE_TRIES {
                return Err(Error::unavailable(
                    "no majority took the cells; the transaction was not committed",
                )
                .with_source(fault));
            }
            self.node.environment().timer.wait(wait).await;
            wait *= 2;
        }
    }

    /// Writes the row of a committed delta in its place, in the background. Readers see the same row
    /// whether the write takes effect or not.
    pub(super) fn replace_delta(self: &Arc<Self>, key: CellKey, row: Version) {
        let this = Arc::clone(self);
        self.node.environment().tasks.spawn(Box::pin(async move {
            let Version { start, payload, .. } = row;
            let write = VersionWrite { key, start, statement: MERGED, payload };
            if let Err(fault) = this.cluster.write_versions(&Context::unbounded(), &[write]).await {
                tracing::debug!(%fault, "a row could not be written in place of its deltas");
            }
        }));
    }

    /// Hides every cell of a dropped table, page by page.
    pub(super) async fn drop_table(
        &self,
        context: &Context,
        table: TableId,
        start: Timestamp,
    ) -> Result<()> {
        let mut rest = Some(KeyRange::table(table));
        while let Some(range) = rest {
            let request =
                RangeRequest { range, read: Timestamp::MAX, reverse: false, limit: DROP_PAGE };
            let page = self.cluster.read_range(context, &request).await?;
            let hide = |CellVersions { key, .. }| VersionWrite {
                key,
                start,
                statement: DROPPED,
                payload: None,
            };
            let writes: Vec<VersionWrite> = page.cells.into_iter().map(hide).collect();
            if !writes.is_empty() {
                self.write(context, &writes).await?;
            }
            rest = page.resume;
        }
        Ok(())
    }
}
