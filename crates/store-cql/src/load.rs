//! Reads of many cells: planned, sent by several lanes, and measured for the tuner.
//!
//! `carnet_store::loader` tunes the number of cells in a batch and the number of batches in flight.
//! Reads of one table share a tuner if they, and their rows, have similar numbers of cells: a
//! partition costs a node more than a cell of it.

use carnet_base::{Bytes, CellKey, TableId, Timestamp, Version};
use carnet_store::Context;
use carnet_store::cluster::Faulty;
use carnet_store::loader::{Batch, Done, Grouping, Limits, Planner, Request, Setting};
use futures::future::try_join_all;
use futures::stream::{StreamExt, TryStreamExt, iter};

use crate::cluster::CqlCluster;
use crate::partition::sought;
use crate::scan::{Scan, Wanted, bind_time};
use crate::session::Bind;
use crate::statement::{Cells, Partitions};

/// Maximum number of partitions or clustering keys in a statement.
const NAMES_MAX: usize = 4096;

/// The same for ScyllaDB, which rejects more by default.
const NAMES_MAX_SCYLLA: usize = 100;

/// Maximum number of statements of a batch.
const REQUESTS_MAX: usize = 32;

/// Cells that have a version, with it.
type Found = Vec<(CellKey, Version)>;

impl CqlCluster {
    /// Reads the cells of a table that the given batches request, with at most `lanes` batches in
    /// flight. Returns the cells that have a version, in any order. It serves comparisons with
    /// [`read_versions`](carnet_store::cluster::ClusterCells::read_versions).
    ///
    /// # Errors
    ///
    /// A [`Fault`](carnet_store::cluster::Fault).
    pub async fn read_batches(
        &self,
        context: &Context,
        (table, through): (TableId, Timestamp),
        batches: Vec<Batch>,
        lanes: usize,
    ) -> Faulty<Vec<(CellKey, Version)>> {
        self.need_table(table).await?;
        let reads = batches.into_iter().map(|batch| async move {
            let how = self.within(context, self.session.read())?;
            let scan = Scan { cluster: self, how, table, wanted: Wanted::Newest(through) };
            scan.batch(&batch, through).await
        });
        let all = iter(reads).buffer_unordered(lanes.max(1));
        let add = |mut all: Found, found: Found| async move {
            all.extend(found);
            Ok(all)
        };
        all.try_fold(Found::new(), add).await
    }

    /// Like [`read_versions`](carnet_store::cluster::ClusterCells::read_versions), but with the
    /// caller's setting, for comparisons. The tuner does not learn from it.
    ///
    /// # Errors
    ///
    /// A [`Fault`](carnet_store::cluster::Fault).
    pub async fn read_versions_with(
        &self,
        context: &Context,
        keys: &[CellKey],
        through: Timestamp,
        setting: Setting,
    ) -> Faulty<Vec<Option<Version>>> {
        self.load(context, keys, through, Some(setting)).await
    }

    /// Reads many cells, with the given setting or a tuned one.
    pub(crate) async fn load(
        &self,
        context: &Context,
        keys: &[CellKey],
        through: Timestamp,
        setting: Option<Setting>,
    ) -> Faulty<Vec<Option<Version>>> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        // A stable sort, because keys are often sorted already.
        order.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        let mut cells: Vec<CellKey> = order.iter().map(|place| keys[*place].clone()).collect();
        cells.dedup();
        let mut found = Found::with_capacity(cells.len());
        for cells in cells.chunk_by(|a, b| a.table() == b.table()) {
            found.extend(match setting {
                Some(setting) => self.load_with(context, cells, through, setting).await?.0,
                None => self.load_learned(context, cells, through).await?,
            });
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut found = found.into_iter().peekable();
        let mut versions = vec![None; keys.len()];
        for place in order {
            while found.next_if(|(key, _)| *key < keys[place]).is_some() {}
            let here = found.peek().filter(|(key, _)| *key == keys[place]);
            versions[place] = here.map(|(_, version)| version.clone());
        }
        Ok(versions)
    }

    /// Reads sorted cells of one table with a tuned setting, and lets the tuner learn from it.
    async fn load_learned(
        &self,
        context: &Context,
        cells: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Found> {
        let Some(table) = cells.first().map(CellKey::table) else { return Ok(Found::new()) };
        self.need_table(table).await?;
        let rows = cells.chunk_by(CellKey::same_partition).count();
        let kind = (table, cells.len().ilog2() / 2, (cells.len() / rows).ilog2() / 2);
        let reading = self.loads.begin(kind, cells.len());
        let began = self.clock.now();
        let loaded = self.load_with(context, cells, through, reading.setting).await;
        let done = loaded.as_ref().ok().map(|(found, batches)| Done {
            cells: cells.len(),
            batches: *batches,
            bytes: bytes_of(found),
            took: self.clock.now().since(began),
        });
        // If the caller's deadline has passed, the failure says nothing about the cluster.
        if done.is_some() || context.check(&*self.clock).is_ok() {
            reading.end(done.as_ref());
        }
        loaded.map(|(found, _)| found)
    }

    /// Reads sorted cells of one table; also returns the number of batches.
    async fn load_with(
        &self,
        context: &Context,
        cells: &[CellKey],
        through: Timestamp,
        setting: Setting,
    ) -> Faulty<(Found, usize)> {
        let Some(table) = cells.first().map(CellKey::table) else { return Ok((Found::new(), 0)) };
        let batches = self.planner(Limits::both(setting.batch_cells)).plan(cells);
        let count = batches.len();
        let found = self.read_batches(context, (table, through), batches, setting.lanes).await?;
        Ok((found, count))
    }

    /// Returns a planner that groups by rows, with statements no larger than the cluster accepts.
    fn planner(&self, limits: Limits) -> Planner {
        let names_max = if self.session.is_scylla() { NAMES_MAX_SCYLLA } else { NAMES_MAX };
        Planner { grouping: Grouping::Rows, limits, names_max, requests_max: REQUESTS_MAX }
    }
}

impl Scan<'_> {
    async fn batch(&self, batch: &Batch, through: Timestamp) -> Faulty<Found> {
        let requests = batch.requests.iter().map(|request| self.request(request, through));
        Ok(try_join_all(requests).await?.concat())
    }

    async fn request(
        &self,
        Request { rows, columns }: &Request,
        through: Timestamp,
    ) -> Faulty<Found> {
        let partitions: Vec<&[u8]> = rows.iter().map(sought).collect();
        let (of, partitions) = match partitions[..] {
            [partition] => (Partitions::One, Bind::Blob(partition)),
            _ => (Partitions::Several, Bind::Slices(&partitions)),
        };
        let values = [partitions, Bind::Blobs(columns), bind_time(through)];
        let rows = self.rows(Cells::Named(of), &values).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let version = match (row.version, row.start.previous()) {
                (Some(version), _) => Some(version),
                // A stamp without its version hides the versions below it.
                (None, Some(through)) => self.newest(&row.key, through).await?,
                (None, None) => None,
            };
            found.extend(version.map(|version| (row.key, version)));
        }
        Ok(found)
    }
}

fn bytes_of(found: &[(CellKey, Version)]) -> usize {
    let payload = |version: &Version| version.payload.as_ref().map_or(0, Bytes::len);
    found.iter().map(|(key, version)| key.as_bytes().len() + payload(version)).sum()
}
