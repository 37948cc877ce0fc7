//! Statements that other servers of the database forward to this one: they run on this server's
//! threads, and take memory for their answers like the statements of its clients.

use std::sync::Arc;

use bytes::Bytes;
use carnet::cluster::{ForwardHandler, Forwarding};
use carnet_cql::forward::Answer;
use carnet_cql::{AnswerMemory, Grant};
use tokio::runtime::Handle;

use crate::backend::Backend;
use crate::connection::Shared;
use crate::in_progress::{InProgress, Working};
use crate::long::{Slices, yield_now};

/// Handler of forwarded statements, registered until it is dropped.
pub(crate) struct ForwardedStatements {
    in_progress: InProgress,
    _handler: Arc<dyn ForwardHandler>,
}

impl ForwardedStatements {
    /// Registers a handler.
    pub(crate) fn serve<B: Backend>(shared: &Arc<Shared<B>>) -> Self {
        let (in_progress, working) = InProgress::new();
        let (shared, runtime) = (Arc::clone(shared), Handle::current());
        let backend = Arc::clone(&shared);
        let handler: Arc<dyn ForwardHandler> = Arc::new(Handler { shared, runtime, working });
        backend.backend.serve_forwarded(&handler);
        Self { in_progress, _handler: handler }
    }

    /// Accepts no more statements, and waits for the ones in progress.
    pub(crate) async fn drain(&mut self) {
        self.in_progress.drain().await;
    }
}

struct Handler<B> {
    shared: Arc<Shared<B>>,
    runtime: Handle,
    working: Working,
}

impl<B: Backend> ForwardHandler for Handler<B> {
    fn answer(self: Arc<Self>, request: Bytes) -> Forwarding {
        let Some(working) = self.working.begin() else {
            return Box::pin(std::future::ready(Answer::NotHeld.encode()));
        };
        let shared = Arc::clone(&self.shared);
        // A task of its own, which goes on if the other server is gone.
        let task = self.runtime.spawn(async move {
            let _working = working;
            let bytes = request.len();
            let memory = Arc::new(AnswerMemory::new(&shared.answers, shared.answers.max() / 2));
            let grant = Grant {
                memory: Some(Arc::clone(&memory)),
                yield_now: Some(yield_now),
                ..Grant::default()
            };
            let of_work = Arc::clone(&shared);
            let work =
                Box::pin(async move { of_work.backend.answer_forwarded(request, grant).await });
            shared.long.run(Slices::new(work, None, bytes)).await
        });
        // No answer after a panic: the statement may have had an effect.
        Box::pin(async move { task.await.unwrap_or_default() })
    }
}
