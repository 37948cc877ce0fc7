//! Pushback of open transactions whose read and write sets fill their memory.
//!
//! A read set cannot be spilled, nor can the write set of a transaction over a cluster: a statement that
//! finds no memory for its set is refused. Before that point its client is slowed: while less than
//! an eighth of the memory is free, each statement of an open transaction waits, so that others end
//! and release theirs.

use std::pin::pin;
use std::time::Duration;

use carnet_admission::diagnosis::Why;
use carnet_base::Result;

use super::options::TransactionOptions;

/// Maximum wait of a statement: longer waits would only hold the memory of its own transaction.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl TransactionOptions<'_> {
    /// Waits while the sets of all transactions leave less than an eighth of their memory free: at most a
    /// second, and at most half of the time until the deadline.
    ///
    /// # Errors
    ///
    /// `Aborted` if the statement is killed meanwhile.
    pub async fn wait_for_set_memory(&self) -> Result<()> {
        let db = self.db();
        let is_short = || carnet_txn::is_short(&db.inner.transaction_memory);
        if !is_short() {
            return Ok(());
        }
        let begin = db.now();
        let until_deadline = self.until().map_or(WAIT_MAX, |deadline| deadline.since(begin) / 2);
        let limit = WAIT_MAX.min(until_deadline);
        let wait = async {
            while is_short() && db.now().since(begin) < limit {
                db.wait(LOOK_EVERY.min(limit)).await;
            }
            Ok(())
        };
        match self.admitted() {
            Some(permit) => permit.read(Why::Memory, pin!(wait)).await,
            None => wait.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use carnet_base::{ErrorKind, block_on};

    use super::*;
    use crate::Db;
    use crate::testing::admitted;
    use carnet_admission::AdmissionLimits;

    #[test]
    fn statement_waits_until_an_eighth_is_free() {
        let db = Db::builder().in_memory();
        let memory = &db.inner.transaction_memory;
        let held = memory.charge(memory.max() / 8 * 7 + 1).unwrap();
        let options = db.transaction();
        let mut wait = pin!(options.wait_for_set_memory());
        let mut task = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut task).is_pending());
        drop(held);
        block_on(wait).unwrap();
        let _fits = memory.charge(memory.max() / 8 * 7).unwrap();
        let mut passes = pin!(options.wait_for_set_memory());
        assert!(passes.as_mut().poll(&mut task).is_ready());
    }

    #[test]
    fn statement_waits_half_of_its_time_at_most() {
        let db = Db::builder().in_memory();
        let _held = db.inner.transaction_memory.charge(db.inner.transaction_memory.max()).unwrap();
        let deadline = db.now().after(Duration::from_millis(400));
        block_on(db.transaction().deadline(deadline).wait_for_set_memory()).unwrap();
        assert!(db.now() < deadline, "no time is left for the statement");
    }

    #[test]
    fn killed_statement_leaves_its_wait() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let _held = db.inner.transaction_memory.charge(db.inner.transaction_memory.max()).unwrap();
        let permit = admitted(&db);
        permit.progress().kill();
        let killed = block_on(db.transaction().permit(Arc::new(permit)).wait_for_set_memory());
        assert_eq!(killed.unwrap_err().kind(), ErrorKind::Aborted);
    }
}
