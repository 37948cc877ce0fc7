//! Versions of cells: blind writes with explicit write times, reads at QUORUM.
//!
//! A version is an `INSERT` with the time of its statement. The stamp is another column, always
//! written at the same time. A delete has a time above all of them, so that later arrivals stay
//! hidden. The data on replicas follows from these numbers and from no clock.

use carnet_base::{Bytes, CellKey, Error, KeyRange, TableId, Timestamp, Version};
use carnet_store::cluster::{
    Acknowledge, CellVersions, ClusterCells, Fault, Faulty, Statement as Number, VersionName,
    VersionPage, VersionWrite,
};
use carnet_store::{Context, PageLimit, RangeRequest};
use futures::future::BoxFuture;
use futures::stream::{StreamExt, TryStreamExt, iter};
use scylla::statement::Consistency;

use crate::cluster::CqlCluster;
use crate::partition::stored;
use crate::request_settings::RequestSettings;
use crate::scan::{Filling, Scan, Wanted, bind_time};
use crate::session::Bind;
use crate::statement::{Cells, Statement, cells_of};

/// Write time of a stamp. Only one value is ever written.
const STAMP_TIME: i64 = 1;

/// Write time of a delete, above that of every statement.
const DELETE_TIME: i64 = 1 << 40;

/// Maximum number of writes of one partition in a batch.
const BATCH_MAX: usize = 64;

/// Maximum bytes of a batch. A single write may be larger.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of a payload: half of the default limit of a node's commit log.
const PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// Number of concurrent batches of one call.
const BATCHES_AT_ONCE: usize = 32;

/// A statement about one version, with its size.
struct Write<'a> {
    key: &'a CellKey,
    of: Cells,
    values: Vec<Bind<'a>>,
    bytes: usize,
}

type Batch<'a> = Vec<(Statement, Vec<Bind<'a>>)>;

/// Returns the write time of a statement. The smallest is 1, because some tools take 0 for "none".
const fn write_time(Number(number): Number) -> i64 {
    number as i64 + 1
}

impl ClusterCells for CqlCluster {
    async fn create_table(&self, table: TableId) -> Faulty<()> {
        Self::create_table(self, table).await.map_err(Fault::Failed)
    }

    async fn write_versions(&self, context: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        let how = self.within(context, self.session.blind())?;
        let writes = writes.iter().map(write_of).collect::<Faulty<Vec<_>>>()?;
        self.write(how, writes).await
    }

    async fn read_version(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        let how = self.within(context, self.session.read())?;
        self.need_table(key.table()).await?;
        let (table, wanted) = (key.table(), Wanted::Newest(through));
        Scan { cluster: self, how, table, wanted }.newest(key, through).await
    }

    async fn read_chain(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> Faulty<Vec<Version>> {
        let how = self.within(context, self.session.read())?;
        self.need_table(key.table()).await?;
        let (table, wanted) = (key.table(), Wanted::Newest(through));
        Scan { cluster: self, how, table, wanted }.chain(key, through, max).await
    }

    async fn read_versions(
        &self,
        context: &Context,
        keys: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Vec<Option<Version>>> {
        if let [key] = keys {
            return Ok(vec![self.read_version(context, key, through).await?]);
        }
        self.load(context, keys, through, None).await
    }

    async fn read_range(&self, context: &Context, request: &RangeRequest) -> Faulty<VersionPage> {
        let how = self.within(context, self.session.read())?;
        let RangeRequest { range, read, reverse, limit } = request;
        self.need_table(range.table).await?;
        let (table, wanted) = (range.table, Wanted::Newest(*read));
        let scan = Scan { cluster: self, how, table, wanted };
        let mut page = Filling::new(*limit);
        if *reverse {
            scan.backward(range, &mut page).await?;
        } else {
            scan.forward(range, &mut page).await?;
        }
        let resume = resume(range, *reverse, &page);
        let cells = page.cells.into_iter().map(|(key, versions)| CellVersions { key, versions });
        Ok(VersionPage { cells: cells.collect(), resume })
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        self.need_table(range.table).await?;
        let (how, table) = (self.session.read(), range.table);
        let mut page = Filling::new(limit);
        let scan = Scan { cluster: self, how, table, wanted: Wanted::All };
        scan.forward(range, &mut page).await?;
        let resume = resume(range, false, &page);
        let cells = page.cells.into_iter().map(|(key, versions)| CellVersions { key, versions });
        Ok(VersionPage { cells: cells.collect(), resume })
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        let stamps = stamps.iter().map(|(VersionName { key, start }, commit)| {
            name_of(key, *start, Cells::Stamp, vec![Bind::Long(STAMP_TIME), bind_time(*commit)])
        });
        self.write(self.session.blind(), stamps.collect::<Faulty<_>>()?).await
    }

    async fn delete_versions(
        &self,
        versions: &[VersionName],
        acknowledge: Acknowledge,
    ) -> Faulty<()> {
        self.delete(versions, Cells::Delete, acknowledge).await
    }

    async fn delete_older(&self, than: &[VersionName], acknowledge: Acknowledge) -> Faulty<()> {
        self.delete(than, Cells::DeleteOlder, acknowledge).await
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        // The node that answers may have been down when a table was created. The sweep would then
        // miss the versions of that table, so wait until the nodes agree.
        self.session.await_schema().await.map_err(Fault::Failed)?;
        let names = self.names(Statement::TableNames).await.map_err(Fault::Failed)?;
        let mut tables: Vec<TableId> = names.iter().filter_map(|name| cells_of(name)).collect();
        tables.sort_unstable();
        Ok(tables)
    }
}

impl CqlCluster {
    /// Shortens the timeout of a request to the caller's deadline.
    pub(crate) fn within(
        &self,
        context: &Context,
        how: RequestSettings,
    ) -> Faulty<RequestSettings> {
        context.check(&*self.clock).map_err(Fault::Failed)?;
        let Some(deadline) = context.deadline() else { return Ok(how) };
        let left = deadline.since(self.clock.now());
        Ok(RequestSettings { timeout: how.timeout.min(left), ..how })
    }

    async fn delete(
        &self,
        names: &[VersionName],
        of: Cells,
        acknowledge: Acknowledge,
    ) -> Faulty<()> {
        let how = match acknowledge {
            Acknowledge::Quorum => self.session.blind(),
            Acknowledge::All => {
                RequestSettings { consistency: Consistency::All, ..self.session.blind() }
            }
        };
        let deletes = names.iter().map(|VersionName { key, start }| {
            name_of(key, *start, of, vec![Bind::Long(DELETE_TIME)])
        });
        self.write(how, deletes.collect::<Faulty<_>>()?).await
    }

    async fn write(&self, how: RequestSettings, mut writes: Vec<Write<'_>>) -> Faulty<()> {
        for write in &writes {
            self.need_table(write.key.table()).await?;
        }
        // Groups the cells of a partition. The order of writes does not matter, because each has
        // its own time.
        writes.sort_by(|a, b| a.key.cmp(b.key));
        let mut sends: Vec<BoxFuture<'_, Faulty<()>>> = Vec::new();
        for batch in batches(writes) {
            sends.push(Box::pin(async move { self.session.batch(how, &batch).await.map(|_| ()) }));
        }
        iter(sends).buffer_unordered(BATCHES_AT_ONCE).try_collect().await
    }
}

fn write_of(write: &VersionWrite) -> Faulty<Write<'_>> {
    let VersionWrite { key, start, statement, payload } = write;
    let bytes = payload.as_ref().map_or(0, Bytes::len);
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Fault::Failed(Error::invalid(format!(
            "a row of {bytes} bytes is too large for a cluster; at most {PAYLOAD_BYTES_MAX} are \
             allowed"
        ))));
    }
    // An empty payload instead of null, which the cluster would store as a tombstone of its own.
    let payload = payload.as_ref().map_or(&[][..], |payload| payload);
    let tombstone = Bind::Flag(write.payload.is_none());
    let values = vec![
        Bind::Blob(partition_of(key)?),
        Bind::Blob(key.clustering()),
        bind_time(*start),
        tombstone,
        Bind::Blob(payload),
        Bind::Long(write_time(*statement)),
    ];
    Ok(Write { key, of: Cells::Write, values, bytes: bytes + key.as_bytes().len() })
}

/// Creates a write that names a version by its last three values.
fn name_of<'a>(
    key: &'a CellKey,
    start: Timestamp,
    of: Cells,
    mut values: Vec<Bind<'a>>,
) -> Faulty<Write<'a>> {
    values.extend([Bind::Blob(partition_of(key)?), Bind::Blob(key.clustering()), bind_time(start)]);
    Ok(Write { key, of, values, bytes: key.as_bytes().len() })
}

/// Returns the partition key under which a cell is stored, borrowed.
fn partition_of(key: &CellKey) -> Faulty<&[u8]> {
    let prefix = key.partition_prefix();
    let key = &prefix[prefix.len() - key.partition().bytes().len()..];
    stored(key).ok_or_else(|| {
        Fault::Failed(Error::invalid("this partition key is reserved: it stands for the empty key"))
    })
}

/// Cuts writes in the order of cells into batches of one partition each.
fn batches(writes: Vec<Write<'_>>) -> Vec<Batch<'_>> {
    let mut batches: Vec<Batch<'_>> = Vec::new();
    let mut last: Option<(&CellKey, usize)> = None;
    for Write { key, of, values, bytes } in writes {
        let statement = (Statement::Cells(key.table(), of), values);
        match (&mut last, batches.last_mut()) {
            (Some((previous, sum)), Some(batch))
                if previous.same_partition(key)
                    && batch.len() < BATCH_MAX
                    && *sum + bytes <= BATCH_BYTES_MAX =>
            {
                *sum += bytes;
                batch.push(statement);
            }
            _ => {
                last = Some((key, bytes));
                batches.push(vec![statement]);
            }
        }
    }
    batches
}

fn resume(range: &KeyRange, reverse: bool, page: &Filling) -> Option<KeyRange> {
    let (last, _) = page.cells.last().filter(|_| page.is_full())?;
    Some(range.after(last.clone(), reverse))
}

#[cfg(test)]
mod tests {
    use carnet_base::PartitionKey;

    use super::*;

    fn writes(cells: &[(&str, &str, usize)]) -> Vec<VersionWrite> {
        let write = |(partition, clustering, bytes): &(&str, &str, usize)| VersionWrite {
            key: CellKey::new(
                TableId(1),
                &PartitionKey::new(partition.as_bytes().to_vec()),
                clustering,
            ),
            start: Timestamp::new(9).unwrap(),
            statement: Number(0),
            payload: Some(vec![0; *bytes].into()),
        };
        let mut writes: Vec<VersionWrite> = cells.iter().map(write).collect();
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        writes
    }

    fn sizes(writes: &[VersionWrite]) -> Vec<usize> {
        let writes = writes.iter().map(write_of).collect::<Faulty<Vec<_>>>().unwrap();
        let mut sizes: Vec<usize> = batches(writes).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn a_batch_holds_cells_of_one_partition() {
        assert_eq!(sizes(&writes(&[("p", "a", 1), ("q", "a", 1), ("p", "b", 1)])), [1, 2]);
        assert_eq!(sizes(&[]), [0; 0]);
    }

    #[test]
    fn a_batch_is_small() {
        let many = vec![("p", "a", 1); BATCH_MAX + 1];
        assert_eq!(sizes(&writes(&many)), [1, BATCH_MAX]);
        assert_eq!(sizes(&writes(&[("p", "a", BATCH_BYTES_MAX), ("p", "b", 1)])), [1, 1]);
    }

    #[test]
    fn too_large_payload_is_refused_unsent() {
        let fault = write_of(&writes(&[("p", "a", PAYLOAD_BYTES_MAX + 1)])[0]).err().unwrap();
        assert!(!fault.is_unknown());
        assert_eq!(fault.into_error().kind(), carnet_base::ErrorKind::Invalid);
        assert!(write_of(&writes(&[("p", "a", PAYLOAD_BYTES_MAX)])[0]).is_ok());
    }

    #[test]
    fn a_delete_hides_every_statement_and_stamp() {
        assert!(write_time(Number(0)) >= STAMP_TIME);
        assert!(write_time(Number(u32::MAX)) < DELETE_TIME);
        assert!(write_time(Number(1)) > write_time(Number(0)));
    }
}
