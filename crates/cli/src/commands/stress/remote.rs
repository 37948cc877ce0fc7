//! Target that uses servers over CQL.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet_base::{Signal, lock};
use carnet_checker::{Key, Op};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use tokio::runtime::Handle;

use super::bank::{ACCOUNTS, BALANCE};
use super::statement::{KEYSPACE, MARKER, SCHEMA, answered, opening, statement};
use super::target::{Target, TransactionOutcome};
use super::transaction::Transaction;

/// Timeout for a server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of attempts to connect to a server that has just been started.
const CONNECT_TRIES: usize = 100;

pub(super) struct Remote {
    address: String,
    tls: Option<TlsContext>,
    runtime: Handle,
    session: Mutex<Arc<Session>>,
    /// Lists that have a count, and flights that have a first row.
    opened: Mutex<BTreeSet<Key>>,
}

impl Remote {
    /// Connects to the servers of a database, and creates the tables anew.
    pub(super) fn connect_all(
        addresses: &[String],
        tls: Option<&TlsContext>,
        runtime: &Handle,
    ) -> Result<Vec<Self>> {
        let remotes = addresses.iter().map(|address| Self::connect(address, tls.cloned(), runtime));
        let remotes: Vec<Self> = remotes.collect::<Result<_>>()?;
        remotes.first().map(Self::prepare).transpose()?;
        Ok(remotes)
    }

    fn connect(address: &str, tls: Option<TlsContext>, runtime: &Handle) -> Result<Self> {
        let session = runtime.block_on(connect(address, tls.as_ref()))?;
        let (address, runtime) = (address.to_owned(), runtime.clone());
        let (session, opened) = (Mutex::new(Arc::new(session)), Mutex::default());
        Ok(Self { address, tls, runtime, session, opened })
    }

    fn prepare(&self) -> Result<()> {
        let Self { address, runtime, .. } = self;
        let session = Arc::clone(&*lock(&self.session));
        self.refuse_tables_of_others(&session)?;
        for statement in SCHEMA {
            let made = runtime.block_on(session.query_unpaged(*statement, &[]));
            made.with_context(|| format!("{address} refuses {statement}"))?;
        }
        for account in 0..ACCOUNTS {
            let text =
                format!("INSERT INTO carnet_stress.accounts (k, v) VALUES ({account}, {BALANCE})");
            let opened = runtime.block_on(session.query_unpaged(text.as_str(), &[]));
            opened.with_context(|| format!("{address} refuses {text}"))?;
        }
        Ok(())
    }

    /// Refuses a keyspace of this name that a run did not make: it would be dropped.
    fn refuse_tables_of_others(&self, session: &Session) -> Result<()> {
        let text = format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
        );
        let found = self.runtime.block_on(session.query_unpaged(text.as_str(), &[]));
        let found = found.with_context(|| format!("{} refuses {text}", self.address))?;
        let found = found.into_rows_result()?;
        let tables = found.rows::<(String,)>()?.map(|row| row.map(|(name,)| name));
        let tables = tables.collect::<Result<Vec<String>, _>>()?;
        if !tables.is_empty() && !tables.iter().any(|table| table == MARKER) {
            bail!(
                "the database has a keyspace {KEYSPACE} that carnet stress did not make, with the \
                 tables {}; nothing was changed: rename or drop that keyspace, or use another \
                 database",
                tables.join(", ")
            );
        }
        Ok(())
    }

    /// Returns the connection.
    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&*lock(&self.session))
    }

    /// Connects to a server after its restart.
    pub(super) fn connect_again(&self) -> Result<()> {
        let session = self.runtime.block_on(connect(&self.address, self.tls.as_ref()))?;
        *lock(&self.session) = Arc::new(session);
        Ok(())
    }
}

async fn connect(address: &str, tls: Option<&TlsContext>) -> Result<Session> {
    // Failures are reported and not retried: the history must record each outcome.
    let profile = ExecutionProfile::builder()
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .request_timeout(Some(ANSWER_TIMEOUT))
        .build();
    let mut tries = 0;
    loop {
        let builder = SessionBuilder::new().known_node(address).tls_context(tls.cloned());
        match builder.default_execution_profile_handle(profile.clone().into_handle()).build().await
        {
            Ok(session) => return Ok(session),
            Err(error) if tries == CONNECT_TRIES => {
                return Err(error).with_context(|| format!("cannot connect to {address}"));
            }
            Err(_) => tries += 1,
        }
        Signal::new().wait(Some(Duration::from_millis(50)));
    }
}

/// Returns the outcome that an error implies; `None` if the statement itself is wrong.
fn meaning<T>(error: &ExecutionError) -> Option<TransactionOutcome<T>> {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, _))
        | ExecutionError::PrepareError(scylla::errors::PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(answer, _),
        }) => match answer {
            // "Aborted, safe to retry", and "no room".
            DbError::Overloaded | DbError::IsBootstrapping => Some(TransactionOutcome::Aborted),
            DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized => None,
            _ => Some(TransactionOutcome::Unknown),
        },
        _ => Some(TransactionOutcome::Unknown),
    }
}

impl Remote {
    /// Inserts a count of zero for each list that a transaction appends to, if it has none yet. The
    /// insert is idempotent and not part of the history.
    fn open(&self, session: &Session, transaction: &Transaction) -> Result<bool> {
        let Transaction { workload, ref ops, .. } = *transaction;
        for op in ops {
            let Op::Append { key, .. } = op else { continue };
            if lock(&self.opened).contains(key) {
                continue;
            }
            let text = opening(workload, key);
            match self.runtime.block_on(session.query_unpaged(text.as_str(), &[])) {
                Ok(_) => lock(&self.opened).insert(key.clone()),
                Err(error) if meaning::<()>(&error).is_some() => return Ok(false),
                Err(error) => {
                    return Err(error).with_context(|| format!("the server refuses {text}"));
                }
            };
        }
        Ok(true)
    }
}

impl Remote {
    /// Runs a statement.
    fn query(&self, session: &Session, text: &str) -> Result<TransactionOutcome<QueryResult>> {
        match self.runtime.block_on(session.query_unpaged(text, &[])) {
            Ok(result) => Ok(TransactionOutcome::Committed(result)),
            Err(error) => match meaning(&error) {
                Some(answer) => Ok(answer),
                None => Err(error).with_context(|| format!("the server refuses {text}")),
            },
        }
    }
}

impl Target for Remote {
    fn arrange(&self, mut ops: Vec<Op>) -> Vec<Op> {
        ops.sort_by_key(|op| !op.is_read());
        ops
    }

    fn run(&self, transaction: &Transaction) -> Result<TransactionOutcome<Vec<Op>>> {
        let session = Arc::clone(&*lock(&self.session));
        if !self.open(&session, transaction)? {
            return Ok(TransactionOutcome::Aborted);
        }
        let result = match self.query(&session, &statement(transaction))? {
            TransactionOutcome::Committed(result) => result,
            TransactionOutcome::Aborted => return Ok(TransactionOutcome::Aborted),
            TransactionOutcome::Unknown => return Ok(TransactionOutcome::Unknown),
        };
        if !transaction.ops.iter().any(Op::is_read) {
            return Ok(TransactionOutcome::Committed(transaction.ops.clone()));
        }
        let rows = result.into_rows_result()?;
        let rows = rows.rows::<(i64, Option<i64>)>()?.collect::<Result<Vec<_>, _>>()?;
        Ok(TransactionOutcome::Committed(answered(transaction, &rows)))
    }

    fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<TransactionOutcome<()>> {
        let session = Arc::clone(&*lock(&self.session));
        let text = format!(
            "BEGIN TRANSACTION \
             LET payer = (SELECT v FROM carnet_stress.accounts WHERE k = {from}); \
             IF payer.v >= {amount} THEN \
             UPDATE carnet_stress.accounts SET v = v - {amount} WHERE k = {from}; \
             UPDATE carnet_stress.accounts SET v = v + {amount} WHERE k = {to}; \
             END IF COMMIT TRANSACTION"
        );
        Ok(match self.query(&session, &text)? {
            TransactionOutcome::Committed(_) => TransactionOutcome::Committed(()),
            TransactionOutcome::Aborted => TransactionOutcome::Aborted,
            TransactionOutcome::Unknown => TransactionOutcome::Unknown,
        })
    }

    fn balances(&self) -> Result<TransactionOutcome<Vec<i64>>> {
        let session = Arc::clone(&*lock(&self.session));
        let result = match self.query(&session, "SELECT v FROM carnet_stress.accounts")? {
            TransactionOutcome::Committed(result) => result.into_rows_result()?,
            TransactionOutcome::Aborted => return Ok(TransactionOutcome::Aborted),
            TransactionOutcome::Unknown => return Ok(TransactionOutcome::Unknown),
        };
        let rows = result.rows::<(i64,)>()?.collect::<Result<Vec<_>, _>>()?;
        Ok(TransactionOutcome::Committed(rows.into_iter().map(|(held,)| held).collect()))
    }
}
