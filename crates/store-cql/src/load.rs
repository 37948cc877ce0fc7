//! Reads of many cells: planned, sent by several lanes, and learned from.
//!
//! How many cells go into a batch, and how many batches are under way, `carnet_store::loader`
//! finds out. Reads of one table learn together where their rows have about as many cells: a
//! partition costs a node more than a cell of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carnet_base::{Bytes, CellKey, TableId, Timestamp, Version};
use carnet_store::Context;
use carnet_store::cluster::Faulty;
use carnet_store::loader::{Answered, Batch, Grouping, Limits, Planner, Request, Setting, Tuner};
use futures::future::try_join_all;
use futures::stream::{StreamExt, TryStreamExt, iter};

use crate::cluster::CqlCluster;
use crate::partition::sought;
use crate::scan::{Scan, Wanted, bind_time};
use crate::session::Bind;
use crate::statement::{Cells, Partitions};

/// How many partitions or clustering keys a statement names at most.
const NAMES_MAX: usize = 4096;

/// The same on ScyllaDB, which refuses more unless it is told otherwise.
const NAMES_MAX_SCYLLA: usize = 100;

/// How many statements a batch is sent as at most.
const REQUESTS_MAX: usize = 32;

/// Cells that have a version, with it.
pub type Found = HashMap<CellKey, Version>;

/// Which reads are alike: the table, and how many cells a row has, as a power of four.
type Kind = (TableId, u32);

/// What reads of many cells have learned.
#[derive(Default)]
pub(crate) struct Loads(Mutex<HashMap<Kind, Tuner>>);

/// A read that has begun and ends when this is dropped.
struct Reading<'a> {
    loads: &'a Loads,
    kind: Kind,
    setting: Setting,
}

/// Tells what became of a batch: how many bytes came, where it did not fail, and when.
type Watch<'a> = dyn Fn(&Batch, Option<usize>, Duration) + Send + Sync + 'a;

impl Loads {
    fn begin(&self, kind: Kind, cells: usize) -> Reading<'_> {
        let setting = self.tuners().entry(kind).or_default().begin(cells);
        Reading { loads: self, kind, setting }
    }

    fn tuners(&self) -> MutexGuard<'_, HashMap<Kind, Tuner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading<'_> {
    fn with<T>(&self, act: impl FnOnce(&mut Tuner) -> T) -> T {
        act(self.loads.tuners().entry(self.kind).or_default())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.with(Tuner::end);
    }
}

impl CqlCluster {
    /// Reads the cells of a table that batches of the caller's own ask for, at most so many batches
    /// at a time: to compare with what
    /// [`read_versions`](carnet_store::cluster::ClusterCells::read_versions) chooses itself.
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
    ) -> Faulty<Found> {
        self.need_table(table).await?;
        self.send(context, (table, through), (batches, lanes), &|_, _, _| ()).await
    }

    /// Reads cells of one table, which are in their order.
    pub(crate) async fn load(
        &self,
        context: &Context,
        cells: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Found> {
        let Some(table) = cells.first().map(CellKey::table) else { return Ok(Found::new()) };
        self.need_table(table).await?;
        let rows = cells.chunk_by(CellKey::same_partition).count();
        let kind = (table, (cells.len() / rows).ilog2() / 2);
        let reading = self.loads.begin(kind, cells.len());
        let Setting { batch_cells, lanes, sharers } = reading.setting;
        let batches = self.planner(Limits::both(batch_cells)).plan(cells);
        let in_flight = batches.len().min(lanes) * sharers;
        let watch = |batch: &Batch, bytes: Option<usize>, took| {
            let cells = batch.cells();
            reading.with(|tuner| match bytes {
                Some(bytes) => tuner.answered(&Answered { cells, bytes, in_flight, took }),
                None => tuner.failed(in_flight),
            });
        };
        self.send(context, (table, through), (batches, lanes), &watch).await
    }

    /// Puts rows together, and statements no larger than the cluster takes them.
    fn planner(&self, limits: Limits) -> Planner {
        let names_max = if self.session.is_scylla() { NAMES_MAX_SCYLLA } else { NAMES_MAX };
        Planner { grouping: Grouping::Rows, limits, names_max, requests_max: REQUESTS_MAX }
    }

    async fn send(
        &self,
        context: &Context,
        (table, through): (TableId, Timestamp),
        (batches, lanes): (Vec<Batch>, usize),
        watch: &Watch<'_>,
    ) -> Faulty<Found> {
        let reads = batches.into_iter().map(|batch| async move {
            let how = self.within(context, self.session.read())?;
            let scan = Scan { cluster: self, how, table, wanted: Wanted::Newest(through) };
            let began = self.clock.now();
            let read = scan.batch(&batch, through).await;
            watch(
                &batch,
                read.as_ref().ok().map(|found| bytes_of(found)),
                self.clock.now().since(began),
            );
            read
        });
        let all = iter(reads).buffer_unordered(lanes.max(1));
        let add = |mut all: Found, found: Vec<(CellKey, Version)>| async move {
            all.extend(found);
            Ok(all)
        };
        all.try_fold(Found::new(), add).await
    }
}

impl Scan<'_> {
    async fn batch(&self, batch: &Batch, through: Timestamp) -> Faulty<Vec<(CellKey, Version)>> {
        let requests = batch.requests.iter().map(|request| self.request(request, through));
        Ok(try_join_all(requests).await?.concat())
    }

    async fn request(
        &self,
        Request { rows, columns }: &Request,
        through: Timestamp,
    ) -> Faulty<Vec<(CellKey, Version)>> {
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
                // A stamp alone hides what lies below it.
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
