//! `carnet import`: copies a table of a cluster that other programs use into a table of Carnet.
//!
//! ```text
//!   Foreign ─ page of a token range ─▶ Copier ─ rows, and how far the range is ─▶ Embedded
//!   (a cluster, only read)             readers,    as one transaction              or Remote
//!                                      one Pace
//! ```
//!
//! | file | decides | tested |
//! | --- | --- | --- |
//! | `shape` | the table to create, whether an existing one matches, unsupported columns | column by column |
//! | `user_types` | the user-defined types to create, and whether existing ones match | type by type |
//! | `writes`, `times` | the statements that write a row with its times | row by row |
//! | `plan` | token ranges and their progress | row by row |
//! | `pace` | size and time of the next read | answer by answer |
//! | `progress` | the progress that the database stores | with a database |
//! | `hold` | which import may copy into a table | with a database |
//! | `copier` | – does I/O | against a source that fails at every call |
//! | `source`, `target`, `remote` | – do I/O | on a real Cassandra |
//!
//! # Invariants
//!
//! * Values are copied byte for byte.
//! * Rows that are recorded as copied are in the table: both are written in one transaction.
//! * A reader holds one page and one transaction, whatever the table's size. A page's size in bytes
//!   is known only on arrival: its row limit is a megabyte divided by the heaviest row of the last
//!   page.
//! * One import copies into a table at a time. Each plan has an id of its own, and a copy ends when
//!   another plan has replaced its plan.
//! * Nothing is written before the whole schema is checked.
//!
//! # Deliberately absent
//!
//! The expiry of row markers, which no query tells. Deletions in the source during the copy: a copy is no replica.

mod collection;
mod copier;
mod hold;
mod pace;
mod plan;
mod progress;
mod remote;
mod report;
mod row;
mod shape;
mod source;
mod table_name;
mod target;
mod times;
mod user_types;
mod writes;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::cluster::TableUrl;
use carnet::{Bytes, Db, Uuid, block_on};
use carnet_base::{Clock, Rng, SeededRng, SystemClock};

pub(crate) use report::Summary;
pub(crate) use table_name::TableName;

use self::copier::Copier;
use self::hold::Hold;
use self::pace::Pace;
use self::plan::{Range, Tally, plan};
use self::progress::Job;
use self::remote::Remote;
use self::row::literal;
use self::shape::{Shape, columns_query};
use self::source::Foreign;
use self::target::{CommitError, Embedded, Statement, Target, Write};
use self::user_types::{UserTypes, types_query};
use self::writes::Writer;
use crate::copy::spelled;
use crate::database::Server;
use crate::place::Place;

/// Target of the copy.
pub(crate) enum Destination {
    Place(Place),
    Server(Server),
}

/// Options of an import.
pub(crate) struct Import {
    pub(crate) from: TableUrl,
    /// The table's name in Carnet; the source's name by default.
    pub(crate) into: Option<TableName>,
    pub(crate) rows_per_second: Option<u32>,
    /// Number of ranges that are read at once.
    pub(crate) readers: u16,
    /// Whether rows that were copied before are copied again.
    pub(crate) restarts: bool,
}

impl Import {
    /// Copies the table, or its remaining ranges.
    pub(crate) fn run(&self, destination: &Destination) -> Result<Summary> {
        // Open the source first: if the table cannot be copied, no database is created.
        let source = Foreign::open(&self.from)?;
        match destination {
            Destination::Server(server) => self.copy(&source, &mut Remote::connect(server)?),
            Destination::Place(place) => {
                let db = place.open(Db::builder().control(true))?;
                let done = self.copy(&source, &mut Embedded::new(db.clone()));
                block_on(db.leave());
                let done = done?;
                db.close()?;
                Ok(done)
            }
        }
    }

    fn copy(&self, source: &Foreign, target: &mut impl Target) -> Result<Summary> {
        let table = self.into.clone().unwrap_or_else(|| source.name().clone());
        ensure_table(target, &source.shape, &source.types, &source.identity, &table)?;
        let (writer, records_times) = prepare(target, &source.shape, &source.timed, &table)?;
        target.query(progress::CREATE_KEYSPACE)?;
        target.query(hold::CREATE)?;
        let hold = Hold::take(target, &table, random_id(), self.restarts)?;
        let done = self.copy_held(source, target, &writer, &hold);
        hold.release(target);
        let (before, copied, took) = done?;
        let mut notes: Vec<String> = source.note.iter().cloned().collect();
        if !records_times {
            notes.push(format!(
                "the server takes no write times, so those of {table} are the time of the copy; it records \
                 them with the setting timestamps = \"record\""
            ));
        }
        Ok(Summary { table, before, copied, took, notes })
    }
}

impl Import {
    /// Copies the remaining rows while this import has the right to. Returns the amounts of earlier
    /// runs and of this one, and the time that it took.
    fn copy_held<T: Target>(
        &self,
        source: &Foreign,
        target: &mut T,
        writer: &Writer,
        hold: &Hold,
    ) -> Result<(Tally, Tally, Duration)> {
        let job = begin(target, &source.identity, &writer.table, self.restarts)?;
        let before = total(&job.ranges);
        let began = SystemClock.now();
        let target: &T = target;
        let copier = Copier::new(source, target, writer, &job, Pace::new(self.rows_per_second));
        copier.run(self.readers, |copier| {
            std::thread::scope(|scope| {
                scope.spawn(|| hold.keep(target, copier));
                report::watch(copier);
            });
        })?;
        Ok((before, copier.copied().0, SystemClock.now().since(began)))
    }
}

/// Creates the table and its user-defined types if missing.
fn ensure_table(
    target: &impl Target,
    shape: &Shape,
    types: &UserTypes,
    source: &str,
    table: &TableName,
) -> Result<()> {
    let types_there = || UserTypes::read(&target.query(&types_query(&table.keyspace))?);
    match Shape::read(&target.query(&columns_query(table))?, &types_there()?)? {
        None => {
            let keyspace = spelled(&table.keyspace);
            target.query(&format!(
                "CREATE KEYSPACE IF NOT EXISTS {keyspace} \
                 WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ))?;
            for statement in types.create(&table.keyspace) {
                target.query(&statement)?;
            }
            if let Some(difference) = types.difference(&types_there()?) {
                bail!("types of {table} exist and differ from {source}: {difference}");
            }
            target.query(&shape.create(table))?;
        }
        Some(there) => {
            let difference = || types.difference(&types_there().unwrap_or_default());
            if let Some(difference) = shape.difference(&there).or_else(difference) {
                bail!("{table} exists and differs from {source}: {difference}");
            }
        }
    }
    Ok(())
}

/// Prepares the statements that write rows, with write times if the target takes them.
fn prepare(
    target: &mut impl Target,
    shape: &Shape,
    timed: &[usize],
    table: &TableName,
) -> Result<(Writer, bool)> {
    let mut writer = |records_times| -> Result<Writer> {
        let writer = Writer::new(shape.clone(), table.clone(), timed.to_vec(), records_times);
        for (statement, text) in writer.statements() {
            target.prepare(statement, &text)?;
        }
        Ok(writer)
    };
    match writer(true) {
        Ok(writer) => Ok((writer, true)),
        Err(_) => Ok((writer(false)?, false)),
    }
}

/// Returns the plan: an earlier one with its progress, or a new one, which is stored.
fn begin(target: &mut impl Target, source: &str, table: &TableName, restarts: bool) -> Result<Job> {
    target.query(progress::CREATE_KEYSPACE)?;
    target.query(progress::CREATE)?;
    target.prepare(Statement::Range, progress::INSERT_RANGE)?;
    target.prepare(Statement::Job, progress::INSERT_JOB)?;

    let id = table_id(target, table)?;
    if !restarts
        && let Some(job) = progress::read(&target.query(&progress::query(table))?)?
        && job.target_id == id
    {
        if job.source != source {
            bail!(
                "{table} is a copy of {}; --restart replaces it with a copy of {source}",
                job.source
            );
        }
        let rows = total(&job.ranges).rows;
        if rows > 0 && target.query(&format!("SELECT * FROM {table} LIMIT 1"))?.is_empty() {
            bail!(
                "{rows} rows were copied into {table}, which is empty now; copy again with --restart"
            );
        }
        return Ok(job);
    }
    begin_anew(target, source, table, id)
}

/// Stores a new plan, replacing any earlier one.
fn begin_anew(
    target: &impl Target,
    source: &str,
    table: &TableName,
    target_id: Bytes,
) -> Result<Job> {
    let id = Bytes::copy_from_slice(random_id().as_bytes());
    let job = Job { id, source: source.to_owned(), target_id, ranges: plan() };
    let values = progress::job_values(table, &job.id, source, &job.target_id);
    let mut writes = vec![Write::whole(Statement::Job, values)];
    writes.extend(job.ranges.iter().map(|range| {
        let values = progress::range_values(table, &job.id, range);
        Write::whole(Statement::Range, values)
    }));
    if let Err(CommitError::Passing { error, .. } | CommitError::Lasting(error)) =
        target.commit(&writes)
    {
        return Err(error).context("cannot store the plan of the copy");
    }
    for statement in progress::forget(table, &target.query(&progress::jobs_query(table))?) {
        target.query(&statement)?;
    }
    Ok(job)
}

/// Returns a random UUID of version 4 (RFC 9562).
fn random_id() -> Uuid {
    let mut rng = SeededRng::from_entropy();
    let random = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    Uuid::from_u128(random & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62)
}

fn table_id(target: &impl Target, table: &TableName) -> Result<Bytes> {
    let query = format!(
        "SELECT id FROM system_schema.tables WHERE keyspace_name = {} AND table_name = {}",
        literal(&table.keyspace),
        literal(&table.table)
    );
    let id = target.query(&query)?.into_iter().flatten().next().flatten();
    id.with_context(|| format!("{table} has no id: was it dropped just now?"))
}

fn total(ranges: &[Range]) -> Tally {
    ranges.iter().fold(Tally::default(), |sum, range| sum.plus(range.tally))
}

#[cfg(test)]
mod tests;
