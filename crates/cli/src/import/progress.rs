//! What is copied already, as the database that is copied into remembers it. Pure.
//!
//! ```text
//!   carnet_import.ranges   target     partition: the table that is copied into
//!                          through    row: a range of tokens, named by its last one
//!                          after      the range begins behind this token
//!                          copied     rows of tokens up to this one are copied
//!                          rows, partitions, bytes   of what is copied
//!                          source     static: what is copied
//!                          target_id  static: into which table, should the name be used again
//! ```
//!
//! A range's row is written in the transaction that writes the rows it speaks of. All ranges are
//! written before the first row is: they are the plan, and whoever goes on keeps to it.

use anyhow::{Context, Result};
use carnet::Bytes;
use carnet::base::Token;

use super::plan::{Range, Tally};
use super::shape::{literal, text};
use super::{Row, TableName};

/// What makes the table, where it is absent.
pub(super) const CREATE: [&str; 2] = [
    "CREATE KEYSPACE IF NOT EXISTS carnet_import \
     WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS carnet_import.ranges (target text, through bigint, \
     source text static, target_id uuid static, after bigint, copied bigint, rows bigint, \
     partitions bigint, bytes bigint, PRIMARY KEY (target, through))",
];

pub(super) const INSERT_RANGE: &str = "INSERT INTO carnet_import.ranges \
     (target, through, after, copied, rows, partitions, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)";

pub(super) const INSERT_JOB: &str =
    "INSERT INTO carnet_import.ranges (target, source, target_id) VALUES (?, ?, ?)";

/// A copy that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// What is copied.
    pub(super) source: String,
    /// The id of the table that it is copied into.
    pub(super) target_id: Bytes,
    pub(super) ranges: Vec<Range>,
}

/// Returns the query for what [`read`] reads.
pub(super) fn query(target: &TableName) -> String {
    let target = literal(&target.stored());
    format!(
        "SELECT source, target_id, after, through, copied, rows, partitions, bytes \
         FROM carnet_import.ranges WHERE target = {target}"
    )
}

/// Returns the statement that forgets a copy.
pub(super) fn forget(target: &TableName) -> String {
    format!("DELETE FROM carnet_import.ranges WHERE target = {}", literal(&target.stored()))
}

/// Reads what was written down; `None` where nothing was.
///
/// # Errors
///
/// What is not understood.
pub(super) fn read(rows: &[Row]) -> Result<Option<Job>> {
    let Some(first) = rows.first() else { return Ok(None) };
    let unclear = || "carnet_import.ranges is not as carnet import writes it; see --restart";
    let column = |n: usize| first.get(n).with_context(unclear);
    let source = text(column(0)?).with_context(unclear)?;
    let target_id = column(1)?.clone().with_context(unclear)?;
    let ranges = rows.iter().map(|row| range(row).with_context(unclear)).collect::<Result<_>>()?;
    Ok(Some(Job { source, target_id, ranges }))
}

fn range(row: &Row) -> Option<Range> {
    let number = |n: usize| Some(i64::from_be_bytes(row.get(n)?.as_deref()?.try_into().ok()?));
    let count = |n: usize| u64::try_from(number(n)?).ok();
    Some(Range {
        after: Token(number(2)?),
        through: Token(number(3)?),
        copied: Token(number(4)?),
        tally: Tally { rows: count(5)?, partitions: count(6)?, bytes: count(7)? },
    })
}

/// Returns values for [`INSERT_RANGE`].
pub(super) fn range_values(target: &TableName, range: &Range) -> Row {
    let number = |number: i64| Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    let count = |count: u64| number(i64::try_from(count).unwrap_or(i64::MAX));
    let Range { after, through, copied, tally } = range;
    let tokens = [through, after, copied].map(|token| number(token.0));
    let counts = [tally.rows, tally.partitions, tally.bytes].map(count);
    [vec![Some(target.stored().into())], tokens.to_vec(), counts.to_vec()].concat()
}

/// Returns values for [`INSERT_JOB`].
pub(super) fn job_values(target: &TableName, source: &str, target_id: &Bytes) -> Row {
    vec![
        Some(target.stored().into()),
        Some(Bytes::copy_from_slice(source.as_bytes())),
        Some(target_id.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use carnet::base::{Rng, SeededRng};

    use super::super::plan::plan;
    use super::*;

    fn rows() -> Vec<Row> {
        let table = TableName::parse("shop.orders").unwrap();
        let id = Bytes::from_static(&[7; 16]);
        let job = job_values(&table, "a table", &id);
        let row = |range: &Range| {
            let mut values = range_values(&table, range);
            // The query has them in another order.
            values.swap(1, 2);
            [&job[1..], &values[1..]].concat()
        };
        plan().iter().map(row).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let job = read(&rows()).unwrap().unwrap();
        assert_eq!((&*job.source, &job.target_id[..]), ("a table", &[7; 16][..]));
        assert_eq!(job.ranges, plan());
        assert_eq!(read(&[]).unwrap(), None);
    }

    #[test]
    fn any_rows_are_read_or_refused() {
        let mut rng = SeededRng::new(5);
        let mut below = |count: u64| usize::try_from(rng.below(count)).unwrap();
        let good: Vec<Row> = rows().into_iter().take(3).collect();
        for _ in 0..5_000 {
            let mut rows = good.clone();
            let row = &mut rows[below(3)];
            match below(3) {
                0 => row.truncate(below(8)),
                1 => row[below(8)] = None,
                _ => row[below(8)] = Some(Bytes::from(vec![0xff; below(18)])),
            }
            let _ = read(&rows);
        }
        let mut short = good;
        short[1].truncate(4);
        assert!(read(&short).unwrap_err().to_string().contains("--restart"));
    }
}
