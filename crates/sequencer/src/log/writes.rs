//! Writes cells, and hides those of dropped tables.

use carnet_base::{Error, KeyRange, Result, TableId, Timestamp};
use carnet_store::cluster::{Cluster, Statement, VersionWrite};
use carnet_store::{Context, PageLimit, RangeRequest};

use super::inner::Inner;
use super::requests::LOOK_AGAIN;
use crate::transport::Transport;

/// Number of tries of a write of cells that no majority took.
const WRITE_TRIES: u32 = 4;
/// Page in which the cells of a dropped table are hidden.
const DROP_PAGE: PageLimit = PageLimit { cells: 500, bytes: 1 << 20 };
/// Statement numbers of a transaction's writes, and of the tombstones of its drops. A write takes
/// precedence over a tombstone.
pub(super) const WRITTEN: Statement = Statement(1);
const DROPPED: Statement = Statement(0);

impl<C: Cluster, T: Transport> Inner<C, T> {
    /// Writes versions until a majority has them. This commits nothing.
    pub(super) async fn write(&self, context: &Context, writes: &[VersionWrite]) -> Result<()> {
        let mut wait = LOOK_AGAIN;
        let mut tries = 0;
        loop {
            let Err(fault) = self.cluster.write_versions(context, writes).await else {
                return Ok(());
            };
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
            let hide = |(key, _)| VersionWrite { key, start, statement: DROPPED, payload: None };
            let writes: Vec<VersionWrite> = page.cells.into_iter().map(hide).collect();
            if !writes.is_empty() {
                self.write(context, &writes).await?;
            }
            rest = page.resume;
        }
        Ok(())
    }
}
