//! Tables that other programs own: read in the order of their tokens, never written.
//!
//! ```text
//!   ForeignCluster::rows   a SELECT without values, all its rows: what system_schema says
//!   ForeignCluster::scan   SELECT token(pk), … WHERE token(pk) > ? AND token(pk) <= ?
//!   ForeignCluster::page   some of a scan's rows, and where to go on
//! ```
//!
//! Values stay the bytes that the cluster sent. Whoever reads them knows the columns' types, or
//! hands them on to a database that speaks the same encoding and need not know.
//!
//! # Invariants
//!
//! * Nothing but SELECT is ever sent.
//! * A page is what a quorum of the replicas had. Two pages are two moments: there is no snapshot
//!   of a table that others write to.

use carnet_base::{Bytes, Error, Result, Token};
use carnet_store::cluster::Fault;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;

use crate::fault::{Access, fault_of, misunderstood};
use crate::options::CqlOptions;
use crate::session::{Bind, Session};

/// A row as it came: for each column its bytes in Cassandra's serialization, `None` for null.
pub type ForeignRow = Vec<Option<Bytes>>;

/// A cluster whose tables are read.
pub struct ForeignCluster {
    session: Session,
}

/// What a scan reads. Names are as the cluster stores them, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTable {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// The columns of the partition key, in their order.
    pub partition_key: Vec<String>,
    /// The columns that are wanted, in the order in which they shall come.
    pub columns: Vec<String>,
}

/// A scan that nodes have prepared.
pub struct ForeignScan(PreparedStatement);

/// Where a page ended.
#[derive(Clone, Debug)]
pub struct ForeignPosition(PagingState);

/// Rows of a scan.
#[derive(Clone, Debug)]
pub struct ForeignPage {
    /// The rows in the order of tokens, each with its own. Those of a partition come one after
    /// another; where it has none, one row of its static columns.
    pub rows: Vec<(Token, ForeignRow)>,
    /// Where to go on; `None` after the last row.
    pub next: Option<ForeignPosition>,
}

impl ForeignCluster {
    /// Connects to a cluster. Of the keyspace nothing is asked but where its replicas are.
    ///
    /// # Errors
    ///
    /// `Invalid` for options that cannot be; `Unavailable` where no node answers.
    pub async fn connect(options: &CqlOptions) -> Result<Self> {
        options.check_reach()?;
        Ok(Self { session: Session::connect(options).await? })
    }

    /// Runs a SELECT without values and returns all its rows. They are to be few.
    ///
    /// # Errors
    ///
    /// `Invalid` where the cluster refuses the text or the role; `Unavailable`, `Overloaded`.
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
    /// As [`ForeignCluster::rows`].
    pub async fn scan(&self, table: &ForeignTable) -> Result<ForeignScan> {
        let prepared = self.session.prepare_text(self.session.read(), table.text()).await;
        Ok(ForeignScan(prepared.map_err(Fault::into_error)?))
    }

    /// Reads a page of a scan: rows whose tokens are greater than `after` and at most `through`,
    /// from the first on or from where a page ended, at most `page_rows`.
    ///
    /// # Errors
    ///
    /// As [`ForeignCluster::rows`]. The same page can be asked for again.
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
        format!(
            "SELECT {token}, {} FROM {}.{} WHERE {token} > ? AND {token} <= ?",
            list(&self.columns),
            quoted(&self.keyspace),
            quoted(&self.table)
        )
    }
}

/// Spells a stored name: what is quoted is a name, whatever words the cluster reserves.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Takes the token off the front of a row.
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

/// Makes an error of the driver's. What a role may not do it may not do the next time either.
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
        }
    }

    #[test]
    fn a_scan_names_everything_in_quotes() {
        assert_eq!(
            table(&["a", "b"], &["a", "b", "odd\"name"]).text(),
            "SELECT token(\"a\", \"b\"), \"a\", \"b\", \"odd\"\"name\" FROM \"Ks\".\"t\" \
             WHERE token(\"a\", \"b\") > ? AND token(\"a\", \"b\") <= ?"
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
    fn what_a_role_may_not_read_is_not_asked_for_again() {
        let answered = |error| {
            let attempt = RequestAttemptError::DbError(error, "why".into());
            refused(ExecutionError::LastAttemptError(attempt)).kind()
        };
        assert_eq!(answered(DbError::Unauthorized), carnet_base::ErrorKind::Invalid);
        assert_eq!(answered(DbError::ServerError), carnet_base::ErrorKind::Unavailable);
    }
}
