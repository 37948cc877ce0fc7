//! Memory of decoded rows.
//!
//! A statement that assigns to one element of a list of half a million needs the whole row: some
//! 20 bytes an element as it is stored, a hundred while it is changed. Sixteen such statements would
//! hold a gigabyte, and none of them is worth more than a point read to the admission gate. So rows
//! take permits while they are decoded:
//!
//! ```text
//!   read the row ──► short: no permit
//!          └───────► long ──► permit of its bytes ──► decode, change, encode ──► released
//!                               └ none is free: the row is dropped, and read again in its turn
//! ```
//!
//! The permit ends before the transaction commits: a commit may wait for a turn at the row, which a
//! statement may have that waits for a permit.

use std::pin::pin;
use std::sync::Arc;

use carnet_base::{BytePermit, BytePermits, Result, ThreadTimer, Timer, before};
use carnet_store::Context;

use carnet_admission::Permit;
use carnet_admission::diagnosis::Why;

/// Permits for decoded rows, with a maximum of bytes for all of them.
pub(crate) struct RowMemory {
    permits: BytePermits,
    timer: Arc<ThreadTimer>,
}

impl RowMemory {
    pub(crate) fn new(bytes_max: usize, timer: Arc<ThreadTimer>) -> Self {
        Self { permits: BytePermits::new(usize::MAX, bytes_max), timer }
    }

    pub(crate) fn try_take(&self, bytes: usize) -> Option<BytePermit<'_>> {
        self.permits.try_take(bytes)
    }

    /// Waits for a permit until the deadline of a call.
    ///
    /// # Errors
    ///
    /// `Timeout`; `Aborted` if the statement is killed meanwhile.
    pub(crate) async fn take(
        &self,
        bytes: usize,
        context: &Context,
        admitted: Option<&Permit>,
    ) -> Result<BytePermit<'_>> {
        let take = async { Ok(self.permits.take(bytes).await) };
        let take = async {
            match admitted {
                Some(admitted) => admitted.read(Why::Memory, pin!(take)).await,
                None => take.await,
            }
        };
        let Some(deadline) = context.deadline() else { return take.await };
        let limit = self.timer.wait(deadline.since(self.timer.now()));
        before(limit, take).await.unwrap_or_else(|| Err(Context::passed()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::task::{Poll, Waker};

    use carnet_base::{Clock, ErrorKind, SystemClock, ThreadSpawn, block_on};

    use super::*;
    use crate::Db;
    use crate::testing::admitted;
    use carnet_admission::AdmissionLimits;

    fn memory(bytes_max: usize) -> RowMemory {
        let timer = ThreadTimer::lazy(Arc::new(SystemClock), Arc::new(ThreadSpawn));
        RowMemory::new(bytes_max, Arc::new(timer))
    }

    #[test]
    fn wait_for_a_turn_ends_at_the_deadline() {
        let memory = memory(100);
        let held = memory.try_take(60).expect("nothing is held");
        let soon = || Context::until(SystemClock.now().after(Duration::from_millis(5)));
        let error = block_on(memory.take(60, &soon(), None)).expect_err("the memory is held");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        drop(held);
        assert!(block_on(memory.take(1_000, &soon(), None)).is_ok(), "alone it may be longer");
    }

    #[test]
    fn killed_statement_leaves_its_wait() {
        let memory = memory(100);
        let _held = memory.try_take(60).expect("nothing is held");
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let permit = admitted(&db);
        let context = Context::unbounded();
        let mut wait = pin!(memory.take(60, &context, Some(&permit)));
        let mut task = std::task::Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut task).is_pending());
        permit.progress().kill();
        let Poll::Ready(Err(error)) = wait.as_mut().poll(&mut task) else { panic!("it waits on") };
        assert_eq!(error.kind(), ErrorKind::Aborted);
    }
}
