//! The workloads. Each kind of transaction has a file; a run mixes them in one database.

mod bank;
mod columns;
mod derived;
mod doctors;
pub(crate) mod expiring;
mod kind;
mod lists;
mod past;
mod registers;
mod scan;
mod seats;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use carnet_base::{CellKey, Error, ErrorKind, KeyRange, PartitionKey, Result, TableId, Timestamp};
use carnet_store::BeginKind;

use crate::client::{Client, Observed};
use crate::database::Database;
use crate::run_record::{Part, RecordId};
pub(crate) use derived::schema_cell;
pub use kind::Workload;

/// Id of the first table of the workloads; smaller ids are the database's own, and those of tables
/// in the catalog.
const FIRST_TABLE: u32 = 100_000;

/// Unique numbers, shared by all clients of a run.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Rc<Cell<i64>>);

impl Numbers {
    /// Returns an unused number.
    fn fresh(&self) -> i64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// Runs one transaction of a kind, with any result.
async fn run<D: Database>(
    workload: Workload,
    client: &mut Client<D>,
    numbers: &Numbers,
) -> Result<()> {
    match workload {
        Workload::Lists => lists::in_cells(client, numbers).await,
        Workload::Rows => lists::in_rows(client, numbers).await,
        Workload::Registers => registers::run(client, numbers).await,
        Workload::Bank => bank::run(client).await,
        Workload::Doctors => doctors::run(client).await,
        Workload::Seats => seats::run(client).await,
        Workload::Scan => scan::run(client).await,
        Workload::Past => past::run(client).await,
        Workload::Columns => columns::run(client, numbers).await,
        Workload::Derived => Box::pin(derived::run(client)).await,
        Workload::Expiring => expiring::run(client, numbers).await,
    }
}

/// Work of a client.
pub(crate) struct Work<'w> {
    /// The only kind of transaction; `None` mixes all.
    pub(crate) only: Option<Workload>,
    pub(crate) numbers: &'w Numbers,
    /// Whether clients sometimes abandon their own transactions.
    pub(crate) may_leave: bool,
}

impl Work<'_> {
    /// Lets a client run one transaction after the other, for ever; calls `hears` with errors.
    pub(crate) async fn done_by<D: Database>(
        &self,
        mut client: Client<D>,
        think_micros: u64,
        hears: impl Fn(ErrorKind),
    ) {
        let executor = client.executor.clone();
        loop {
            executor.sleep(client.random.micros(0, think_micros)).await;
            let workload = self.only.unwrap_or_else(|| client.random.pick(&Workload::ALL));
            let leaves = self.may_leave && client.random.percent(3);
            let limit = leaves.then(|| client.random.micros(1, 1_000));
            let ran = run(workload, &mut client, self.numbers);
            let ended = match limit {
                None => Some(ran.await),
                Some(limit) => first(ran, executor.sleep(limit)).await,
            };
            match ended {
                // It has abandoned its transaction, and comes back as a new client.
                None => client.process = client.run_record.new_client(),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    client.judge(&error);
                    if matches!(error.kind(), ErrorKind::Unknown { .. }) {
                        client.process = client.run_record.new_client();
                    }
                    hears(error.kind());
                    executor.sleep(client.random.micros(10, 1_000)).await;
                }
            }
        }
    }
}

/// Completes with the first future's output, or `None` once the second is complete.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => other.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Prepares the data of the workloads.
pub(crate) async fn prepare<D: Database>(client: &mut Client<D>) -> Result<()> {
    loop {
        match bank::open_accounts(client).await {
            Err(error) if has_expired(client, &error) => {}
            prepared => break prepared?,
        }
    }
    loop {
        match derived::prepare(client).await {
            Err(error) if has_lost(&error) || has_expired(client, &error) => {}
            prepared => return prepared,
        }
    }
}

/// Returns `true` if a transaction lost against the background builder of its process.
fn has_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TooOld)
}

/// Returns `true` if a transaction was idle for too long, so that its caller must begin another.
fn has_expired<D>(client: &Client<D>, error: &Error) -> bool {
    client.may_expire && error.kind() == ErrorKind::Timeout
}

/// Reads all data in one transaction, so that the verdict compares it.
pub(crate) async fn read_all<D: Database>(client: &mut Client<D>) -> Result<()> {
    loop {
        match derived::complete(client).await {
            Err(error) if has_lost(&error) || has_expired(client, &error) => {}
            completed => break completed?,
        }
    }
    loop {
        match read_all_once(client).await {
            Err(error) if has_expired(client, &error) => {}
            read => return read,
        }
    }
}

async fn read_all_once<D: Database>(client: &mut Client<D>) -> Result<()> {
    let tx = client.begin(Part::Other, BeginKind::ReadOnly).await?;
    read_tables(client, &tx).await?;
    tx.commit().await.map(drop)
}

/// Like [`read_all`], at a snapshot, with an existing record.
pub(crate) async fn read_all_on<D: Database>(
    client: &mut Client<D>,
    page: RecordId,
    read: Timestamp,
) -> Result<()> {
    let tx = client.resume(page, read).await?;
    read_tables(client, &tx).await?;
    tx.let_go();
    Ok(())
}

async fn read_tables<D: Database>(client: &Client<D>, tx: &Observed<D::Tx>) -> Result<()> {
    scan::read_tables(tx).await?;
    match tx.facade() {
        Some(tx) => derived::judge(tx, &client.run_record).await,
        None => Ok(()),
    }
}

/// Returns the tables whose cells are arbitrary bytes: those of all workloads but one.
pub(crate) fn raw_tables() -> impl Iterator<Item = TableId> {
    Workload::ALL.into_iter().filter(|workload| *workload != Workload::Columns).map(table)
}

/// Returns `true` for a table of the entries of an index or the rows of a view.
pub(crate) fn is_derived(table: TableId) -> bool {
    // Their base table is the first one that is created.
    TableId::FIRST < table && table < TableId(FIRST_TABLE)
}

const fn table(workload: Workload) -> TableId {
    TableId(FIRST_TABLE + workload as u32)
}

/// Returns the key of a cell: a partition number and a clustering key.
fn cell(workload: Workload, partition: i64, clustering: impl AsRef<[u8]>) -> CellKey {
    CellKey::new(table(workload), &partition_key(partition), clustering)
}

fn partition(workload: Workload, number: i64) -> KeyRange {
    KeyRange::partition(table(workload), &partition_key(number))
}

fn partition_key(number: i64) -> PartitionKey {
    PartitionKey::new(number.to_be_bytes().to_vec())
}

/// Decodes numbers from a payload; a workload writes eight bytes for each.
fn decode(payload: &[u8]) -> Vec<i64> {
    payload.chunks(8).map(|chunk| chunk.try_into().map_or(i64::MIN, i64::from_be_bytes)).collect()
}
