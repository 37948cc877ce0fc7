//! Progress of a copy, as stored in the database that is copied into. Pure.
//!
//! ```text
//!   carnet_import.ranges   target     partition: the table that is copied into
//!                          job        row: a plan, by a random id; older plans are ignored
//!                          through    row: a range of tokens, identified by its last one
//!                          after      the range begins after this token
//!                          copied     rows of tokens up to this one are copied
//!                          rows, partitions, bytes   amount copied
//!                          current    static: the plan in force
//!                          source     static: identity of the source table
//!                          target_id  static: id of the target table; another table may get its name
//! ```
//!
//! A range's row is written in the same transaction as the rows that it covers. All ranges are
//! written before the first row: they are the plan, and a resumed import keeps to it. A new plan
//! gets a new id. A copy that has not noticed the new plan therefore writes nothing into it, and
//! ends when it reads `current`.

use anyhow::{Context, Result, anyhow};
use carnet::{Bytes, Uuid};
use carnet_base::Token;

use super::plan::{Range, Tally, is_whole};
use super::row::{Row, literal, text};
use super::table_name::TableName;

/// Statements that create the keyspace and the table if missing.
pub(super) const CREATE_KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS carnet_import \
     WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS carnet_import.ranges (target text, job uuid, through bigint, \
     current uuid static, source text static, target_id uuid static, after bigint, \
     copied bigint, rows bigint, partitions bigint, bytes bigint, \
     PRIMARY KEY (target, job, through))";

pub(super) const INSERT_RANGE: &str = "INSERT INTO carnet_import.ranges \
     (target, job, through, after, copied, rows, partitions, bytes) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

pub(super) const INSERT_JOB: &str =
    "INSERT INTO carnet_import.ranges (target, current, source, target_id) VALUES (?, ?, ?, ?)";

/// A copy that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The plan's id: a UUID's bytes.
    pub(super) id: Bytes,
    /// Identity of the source table.
    pub(super) source: String,
    /// Id of the table that is copied into.
    pub(super) target_id: Bytes,
    pub(super) ranges: Vec<Range>,
}

/// Returns the query whose rows [`read`] decodes.
pub(super) fn query(target: &TableName) -> String {
    let target = literal(&target.stored());
    format!(
        "SELECT current, source, target_id, job, after, through, copied, rows, partitions, bytes \
         FROM carnet_import.ranges WHERE target = {target}"
    )
}

/// Returns the query whose rows [`is_current`] and [`forget`] decode.
pub(super) fn jobs_query(target: &TableName) -> String {
    let target = literal(&target.stored());
    format!("SELECT current, job FROM carnet_import.ranges WHERE target = {target}")
}

/// Returns the query for the plan in force.
pub(super) fn current_query(target: &TableName) -> String {
    format!("{} LIMIT 1", jobs_query(target))
}

/// Returns `true` if a plan is in force.
pub(super) fn is_current(rows: &[Row], job: &Bytes) -> bool {
    rows.first().and_then(|row| row.first()) == Some(&Some(job.clone()))
}

/// Returns the statements that delete plans that are not in force.
pub(super) fn forget(target: &TableName, rows: &[Row]) -> Vec<String> {
    let uuid = |value: &Option<Bytes>| Uuid::from_slice(value.as_deref()?).ok();
    let mut older: Vec<Uuid> = rows
        .iter()
        .filter(|row| row.first() != row.get(1))
        .filter_map(|row| uuid(row.get(1)?))
        .collect();
    older.dedup();
    let target = literal(&target.stored());
    let delete = |job: Uuid| {
        format!("DELETE FROM carnet_import.ranges WHERE target = {target} AND job = {job}")
    };
    older.into_iter().map(delete).collect()
}

/// Decodes the stored progress; `None` if there is none.
///
/// # Errors
///
/// Rows that `carnet import` did not write.
pub(super) fn read(rows: &[Row]) -> Result<Option<Job>> {
    let Some(first) = rows.first() else { return Ok(None) };
    let unclear =
        || "carnet_import.ranges does not have the form that carnet import writes; use --restart";
    let column = |n: usize| first.get(n).with_context(unclear);
    let id = column(0)?.clone().with_context(unclear)?;
    let source = text(column(1)?).with_context(unclear)?;
    let target_id = column(2)?.clone().with_context(unclear)?;
    let current = rows.iter().filter(|row| row.get(3) == Some(&Some(id.clone())));
    let ranges: Vec<Range> =
        current.map(|row| range(row).with_context(unclear)).collect::<Result<_>>()?;
    if !is_whole(&ranges) {
        return Err(anyhow!(unclear()));
    }
    Ok(Some(Job { id, source, target_id, ranges }))
}

fn range(row: &Row) -> Option<Range> {
    let number = |n: usize| Some(i64::from_be_bytes(row.get(n)?.as_deref()?.try_into().ok()?));
    let count = |n: usize| u64::try_from(number(n)?).ok();
    Some(Range {
        after: Token(number(4)?),
        through: Token(number(5)?),
        copied: Token(number(6)?),
        tally: Tally { rows: count(7)?, partitions: count(8)?, bytes: count(9)? },
    })
}

/// Returns values for [`INSERT_RANGE`].
pub(super) fn range_values(target: &TableName, job: &Bytes, range: &Range) -> Row {
    let number = |number: i64| Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    let count = |count: u64| number(i64::try_from(count).unwrap_or(i64::MAX));
    let Range { after, through, copied, tally } = range;
    let tokens = [through, after, copied].map(|token| number(token.0));
    let counts = [tally.rows, tally.partitions, tally.bytes].map(count);
    let names = vec![Some(target.stored().into()), Some(job.clone())];
    [names, tokens.to_vec(), counts.to_vec()].concat()
}

/// Returns values for [`INSERT_JOB`].
pub(super) fn job_values(target: &TableName, job: &Bytes, source: &str, target_id: &Bytes) -> Row {
    vec![
        Some(target.stored().into()),
        Some(job.clone()),
        Some(Bytes::copy_from_slice(source.as_bytes())),
        Some(target_id.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::super::plan::plan;
    use super::*;

    const JOB: Bytes = Bytes::from_static(&[9; 16]);
    const OLDER: Bytes = Bytes::from_static(&[6; 16]);

    /// A plan after some ranges of an older plan.
    fn rows() -> Vec<Row> {
        let table = TableName::parse("shop.orders").unwrap();
        let id = Bytes::from_static(&[7; 16]);
        let row = |job: &Bytes, range: &Range| {
            let statics = job_values(&table, &JOB, "a table", &id);
            let mut values = range_values(&table, job, range);
            // The query has them in another order.
            values.swap(2, 3);
            [&statics[1..], &values[1..]].concat()
        };
        let older =
            plan().into_iter().take(9).map(|range| Range { copied: range.through, ..range });
        let older: Vec<Row> = older.map(|range| row(&OLDER, &range)).collect();
        [older, plan().iter().map(|range| row(&JOB, range)).collect()].concat()
    }

    #[test]
    fn stored_plan_is_read() {
        let job = read(&rows()).unwrap().unwrap();
        assert_eq!((&*job.source, &job.target_id[..]), ("a table", &[7; 16][..]));
        assert_eq!((job.id, job.ranges), (JOB, plan()));
        assert_eq!(read(&[]).unwrap(), None);
    }

    #[test]
    fn older_plan_is_ignored_and_deleted() {
        let rows: Vec<Row> =
            rows().iter().map(|row| vec![row[0].clone(), row[3].clone()]).collect();
        assert!(is_current(&rows, &JOB) && !is_current(&rows, &OLDER));
        let forgotten = forget(&TableName::parse("shop.orders").unwrap(), &rows);
        assert_eq!(
            forgotten,
            ["DELETE FROM carnet_import.ranges WHERE target = 'shop.orders' \
              AND job = 06060606-0606-0606-0606-060606060606"]
        );
    }

    #[test]
    fn plan_with_a_hole_is_refused() {
        for gone in [9, 100, 264] {
            let mut rows = rows();
            rows.remove(gone);
            assert!(read(&rows).is_err(), "without row {gone}");
        }
    }

    #[test]
    fn any_rows_are_read_or_refused() {
        let mut rng = SeededRng::new(5);
        let mut below = |count: u64| usize::try_from(rng.below(count)).unwrap();
        let good: Vec<Row> = rows();
        for _ in 0..1_000 {
            let mut rows = good.clone();
            let row = &mut rows[9 + below(3)];
            match below(3) {
                0 => row.truncate(below(10)),
                1 => row[below(10)] = None,
                _ => row[below(10)] = Some(Bytes::from(vec![0xff; below(18)])),
            }
            let _ = read(&rows);
        }
        let mut short = good;
        short[10].truncate(4);
        assert!(read(&short).unwrap_err().to_string().contains("--restart"));
    }
}
