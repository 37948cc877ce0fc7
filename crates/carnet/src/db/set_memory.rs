//! Pushback of open transactions whose read and write sets fill their memory.
//!
//! A read set cannot be spilled, nor can the write set of a transaction over a cluster: a statement that
//! finds no memory for its set is refused. Before that point the clients of large transactions are slowed:
//! while less than an eighth of the memory is free, each of their statements waits, so that others end
//! and release theirs. Small transactions do not wait, and nor does one that holds more than all others.

use std::pin::pin;
use std::time::Duration;

use carnet_admission::diagnosis::Why;
use carnet_base::Result;

use super::options::TransactionOptions;
use crate::tx::Tx;

/// Maximum wait of a statement: a longer one would only hold the memory of its transaction.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl TransactionOptions<'_> {
    /// Waits while the transaction crowds the memory of write sets (the rule is that of
    /// `Transaction::crowds_memory`): at most a second, and at most half of the time until the deadline.
    ///
    /// # Errors
    ///
    /// `Aborted` if the statement is killed meanwhile.
    pub async fn wait_for_set_memory(&self, tx: &Tx) -> Result<()> {
        let db = self.db();
        if !tx.crowds_memory() {
            return Ok(());
        }
        let begin = db.now();
        let until_deadline = self.until().map_or(WAIT_MAX, |deadline| deadline.since(begin) / 2);
        let limit = WAIT_MAX.min(until_deadline);
        let wait = async {
            while tx.crowds_memory() && db.now().since(begin) < limit {
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

    use carnet_base::{Charge, ErrorKind, block_on};

    use super::*;
    use crate::Db;
    use crate::testing::admitted;
    use carnet_admission::AdmissionLimits;

    /// Returns a transaction that holds more than small ones do.
    fn large(db: &Db) -> Tx {
        let raw = db.raw("raw").unwrap();
        let tx = db.transaction().interactive(true).begin().unwrap();
        (0..5).for_each(|key| raw.put(&tx, [key], vec![0; 16 << 10]).unwrap());
        tx.as_async().clone()
    }

    fn fill(db: &Db) -> Charge {
        let memory = &db.inner.transaction_memory;
        memory.charge(memory.max() - memory.used()).unwrap()
    }

    #[test]
    fn large_transaction_waits_until_an_eighth_is_free() {
        let db = Db::builder().in_memory();
        let (large, small) = (large(&db), block_on(db.transaction().begin_async()).unwrap());
        let held = fill(&db);
        let options = db.transaction();
        let mut task = Context::from_waker(Waker::noop());
        let mut passes = pin!(options.wait_for_set_memory(&small));
        assert!(passes.as_mut().poll(&mut task).is_ready());
        let mut wait = pin!(options.wait_for_set_memory(&large));
        assert!(wait.as_mut().poll(&mut task).is_pending());
        drop(held);
        block_on(wait).unwrap();
    }

    #[test]
    fn statement_waits_half_of_its_time_at_most() {
        let db = Db::builder().in_memory();
        let large = large(&db);
        let _held = fill(&db);
        let deadline = db.now().after(Duration::from_millis(400));
        block_on(db.transaction().deadline(deadline).wait_for_set_memory(&large)).unwrap();
        assert!(db.now() < deadline, "no time is left for the statement");
    }

    #[test]
    fn killed_statement_leaves_its_wait() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let large = large(&db);
        let _held = fill(&db);
        let permit = Arc::new(admitted(&db));
        permit.progress().kill();
        let killed = block_on(db.transaction().permit(permit).wait_for_set_memory(&large));
        assert_eq!(killed.unwrap_err().kind(), ErrorKind::Aborted);
    }
}
