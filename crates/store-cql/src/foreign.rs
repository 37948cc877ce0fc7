//! Tables that other programs own: read in the order of their tokens, never written.
//!
//! ```text
//!   ForeignCluster::rows   a SELECT without values, all its rows, for reading system_schema
//!   ForeignCluster::scan   SELECT token(pk), … WHERE token(pk) > ? AND token(pk) <= ?
//!   ForeignCluster::page   a page of a scan's rows, and the position of the next
//! ```
//!
//! Values stay the bytes that the cluster sent. The caller knows the types of the columns, or
//! passes the bytes on to a database with the same encoding.
//!
//! # Invariants
//!
//! * Only SELECT statements are sent.
//! * A page is the state of a quorum of the replicas. Two pages are two different moments: there is
//!   no snapshot of a table that other programs write.

use std::sync::Arc;

use carnet_base::{Bytes, Error, Result, SystemClock, Token};
use carnet_store::cluster::Fault;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;

use crate::fault::{Access, fault_of, misunderstood};
use crate::options::CqlOptions;
use crate::session::{Bind, Session};

/// A row as received: the bytes of each column in Cassandra's serialization, `None` for null.
pub type ForeignRow = Vec<Option<Bytes>>;

/// A cluster with tables to be read.
pub struct ForeignCluster {
    session: Session,
}

/// Table and columns of a scan. Names are as the cluster stores them, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTable {
    /// Name of the keyspace.
    pub keyspace: String,
    /// Name of the table.
    pub table: String,
    /// Columns of the partition key, in their order.
    pub partition_key: Vec<String>,
    /// Columns to read, in the order of the result.
    pub columns: Vec<String>,
    /// Columns whose `TTL` and `WRITETIME` follow the columns of a row, both for each.
    pub timed: Vec<String>,
}

/// A scan that nodes have prepared.
pub struct ForeignScan(PreparedStatement);

/// Position of the end of a page.
#[derive(Clone, Debug)]
pub struct ForeignPosition(PagingState);

/// A page of a scan.
#[derive(Clone, Debug)]
pub struct ForeignPage {
    /// Rows in the order of tokens, each with its token. Rows of a partition are adjacent; a
    /// partition without rows has one row of its static columns.
    pub rows: Vec<(Token, ForeignRow)>,
    /// Position of the next page; `None` after the last row.
    pub next: Option<ForeignPosition>,
}

impl ForeignCluster {
    /// Connects to a cluster. The keyspace is used only to find the nodes of its replicas.
    ///
    /// # Errors
    ///
    /// `Invalid` for invalid options; `Unavailable` if no node answers.
    pub async fn connect(options: &CqlOptions) -> Result<Self> {
        options.check_reach()?;
        Ok(Self { session: Session::connect(options, Arc::new(SystemClock)).await? })
    }

    /// Runs a SELECT without values and returns all its rows, which should be few.
    ///
    /// # Errors
    ///
    /// `Invalid` if the cluster rejects the text or the role; `Unavailable`, `Overloaded`.
    pub async fn rows(&self, select: &str) -> Result<Vec<ForeignRow>> {
        let how = self.session.read_any();
        let prepared = self.session.prepare_text(how, select.to_owned()).await;
        let prepared = prepared.map_err(Fault::into_error)?;
        let (mut rows, mut state) = (Vec::new(), PagingState::start());
        loop {
            let page = self.session.page(how, prepared.clone(), &[], 5_000, state).await;
            let (result, more) = page.map_err(refused)?;
            rows.append(&mut rows_of(result)?);
            match more {
                PagingStateResponse::HasMorePages { state: next } => state = next,
                PagingStateResponse::NoMorePages => return Ok(rows),
            }
        }
    }

    /// Prepares a scan.
    ///
    /// # Errors
    ///
    /// See [`ForeignCluster::rows`].
    pub async fn scan(&self, table: &ForeignTable) -> Result<ForeignScan> {
        let prepared = self.session.prepare_text(self.session.read(), table.text()).await;
        Ok(ForeignScan(prepared.map_err(Fault::into_error)?))
    }

    /// Reads a page of a scan: at most `page_rows` rows with tokens greater than `after` and at
    /// most `through`, from the first on or from the end of an earlier page.
    ///
    /// # Errors
    ///
    /// See [`ForeignCluster::rows`]. The same page can be read again.
    pub async fn page(
        &self,
        scan: &ForeignScan,
        (after, through): (Token, Token),
        page_rows: u16,
        from: Option<ForeignPosition>,
    ) -> Result<ForeignPage> {
        let bounds = [Bind::Long(after.0), Bind::Long(through.0)];
        let (rows, from) = (i32::from(page_rows.max(1)), from.map(|from| from.0));
        let (how, prepared) = (self.session.read(), scan.0.clone());
        let page = self.session.page(how, prepared, &bounds, rows, from.unwrap_or_default()).await;
        let (result, more) = page.map_err(refused)?;
        let rows = rows_of(result)?.into_iter().map(with_token).collect::<Result<_>>()?;
        let next = match more {
            PagingStateResponse::HasMorePages { state } => Some(ForeignPosition(state)),
            PagingStateResponse::NoMorePages => None,
        };
        Ok(ForeignPage { rows, next })
    }
}

impl std::fmt::Debug for ForeignCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignCluster").field("keyspace", &self.session.keyspace()).finish()
    }
}

impl std::fmt::Debug for ForeignScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ForeignScan").field(&self.0.get_statement()).finish()
    }
}

impl ForeignTable {
    /// Returns the text of the scan.
    fn text(&self) -> String {
        let list = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            names.join(", ")
        };
        let token = format!("token({})", list(&self.partition_key));
        let times = self.timed.iter().map(|name| quoted(name));
        let times: String = times.map(|name| format!(", TTL({name}), WRITETIME({name})")).collect();
        format!(
            "SELECT {token}, {}{times} FROM {}.{} WHERE {token} > ? AND {token} <= ?",
            list(&self.columns),
            quoted(&self.keyspace),
            quoted(&self.table)
        )
    }
}

/// Quotes a stored name, so that it may be a reserved word.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Splits the token off the front of a row.
fn with_token(mut row: ForeignRow) -> Result<(Token, ForeignRow)> {
    let columns = row.split_off(row.len().min(1));
    let token = row.pop().flatten();
    match token.as_deref().map(TryInto::try_into) {
        Some(Ok(bytes)) => Ok((Token(i64::from_be_bytes(bytes)), columns)),
        _ => Err(misunderstood(Access::Read, "a token has 8 bytes").into_error()),
    }
}

fn rows_of(result: QueryResult) -> Result<Vec<ForeignRow>> {
    let unclear = |error: &dyn std::fmt::Display| misunderstood(Access::Read, error).into_error();
    let result = result.into_rows_result().map_err(|error| unclear(&error))?;
    let rows = result.rows::<ColumnIterator<'_, '_>>().map_err(|error| unclear(&error))?;
    rows.map(|row| {
        row.map_err(|error| unclear(&error))?
            .map(|column| {
                let column = column.map_err(|error| unclear(&error))?;
                Ok(column.slice.map(|slice| slice.to_bytes()))
            })
            .collect()
    })
    .collect()
}

/// Converts an error of the driver. A missing right stays missing, so that error is not retryable.
fn refused(error: ExecutionError) -> Error {
    use RequestAttemptError::DbError as Answered;
    match error {
        ExecutionError::LastAttemptError(Answered(DbError::Unauthorized, _)) => {
            Error::invalid("the cluster does not let this role read").with_source(error)
        }
        error => fault_of(Access::Read, error).into_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(partition_key: &[&str], columns: &[&str]) -> ForeignTable {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        ForeignTable {
            keyspace: "Ks".into(),
            table: "t".into(),
            partition_key: names(partition_key),
            columns: names(columns),
            timed: Vec::new(),
        }
    }

    #[test]
    fn a_scan_names_everything_in_quotes() {
        assert_eq!(
            table(&["a", "b"], &["a", "b", "odd\"name"]).text(),
            "SELECT token(\"a\", \"b\"), \"a\", \"b\", \"odd\"\"name\" FROM \"Ks\".\"t\" \
             WHERE token(\"a\", \"b\") > ? AND token(\"a\", \"b\") <= ?"
        );
        let timed = ForeignTable { timed: vec!["b".into()], ..table(&["a"], &["a", "b"]) };
        assert_eq!(
            timed.text(),
            "SELECT token(\"a\"), \"a\", \"b\", TTL(\"b\"), WRITETIME(\"b\") FROM \"Ks\".\"t\" \
             WHERE token(\"a\") > ? AND token(\"a\") <= ?"
        );
    }

    #[test]
    fn a_token_is_taken_off_the_front() {
        let bytes = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
        let row = vec![bytes(&[0xff; 8]), None, bytes(b"x")];
        assert_eq!(with_token(row).unwrap(), (Token(-1), vec![None, bytes(b"x")]));
        for odd in [vec![], vec![None, bytes(b"x")], vec![bytes(b"short")]] {
            assert!(with_token(odd).is_err());
        }
    }

    #[test]
    fn missing_rights_are_not_retryable() {
        let answered = |error| {
            let attempt = RequestAttemptError::DbError(error, "why".into());
            refused(ExecutionError::LastAttemptError(attempt)).kind()
        };
        assert_eq!(answered(DbError::Unauthorized), carnet_base::ErrorKind::Invalid);
        assert_eq!(answered(DbError::ServerError), carnet_base::ErrorKind::Unavailable);
    }
}
