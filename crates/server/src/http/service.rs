//! Thread of the HTTP port, which accepts its connections.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use carnet_base::{AddressLimit, Places};
use tokio::net::TcpListener;
use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio::time::interval;
use tracing::error;

use super::connection::serve_connection;
use super::site::Site;
use crate::accept::pause_after;
use crate::backend::Backend;
use crate::connection::Shared;
use crate::in_progress::InProgress;

const CONNECTIONS_MAX: usize = 64;
/// Number of connections from which a further one ends with its first answer, so that clients that keep
/// theirs leave places to monitors.
const KEPT_MAX: usize = CONNECTIONS_MAX / 4;
/// Interval of the search for sessions that have ended.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// HTTP service on a separate thread, so that busy statement threads do not delay monitoring. It
/// ends with [`HttpService::end`].
pub(crate) struct HttpService {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
    statements: InProgress,
}

impl HttpService {
    /// Starts the service's thread. Statements run on the caller's runtime.
    pub(crate) fn start<B: Backend>(
        shared: Arc<Shared<B>>,
        listener: TcpListener,
        draining: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = listener.into_std()?;
        let (statements, working) = InProgress::new();
        let site = Arc::new(Site::new(shared, address, draining, Handle::current(), working));
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("carnet-http".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return error!(%error, "the HTTP port is not answered"),
                };
                tokio::select! {
                    () = accept(site, listener) => {}
                    // The server has ended, or was dropped.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { stop, thread, statements })
    }

    /// Accepts no more statements, and waits for the ones in progress.
    pub(crate) async fn drain(&mut self) {
        self.statements.drain().await;
    }

    /// Ends the thread and waits for it, which releases its references to the server's state.
    pub(crate) async fn end(self) {
        drop(self.stop);
        let joined = task::spawn_blocking(|| self.thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            error!("the thread of the HTTP port broke");
        }
    }
}

/// Serves clients until it is dropped, also while the server drains.
async fn accept<B: Backend>(site: Arc<Site<B>>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let places = AddressLimit::of(Places::shared(CONNECTIONS_MAX));
    let mut sweep = interval(SWEEP_INTERVAL);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(e) => {
                        pause_after(&e).await;
                        continue;
                    }
                };
                let place = places.enter(peer.ip(), || ());
                let place = place.filter(|_| connections.len() < CONNECTIONS_MAX);
                let Some(place) = place else {
                    site.shared.log.connection(peer, "there are too many for HTTP");
                    continue;
                };
                let is_kept = connections.len() < KEPT_MAX;
                let site = Arc::clone(&site);
                connections.spawn(async move {
                    let _place = place;
                    // A client that disconnects or stalls gets no answer.
                    let _ = serve_connection(&site, stream, peer, is_kept).await;
                });
            }
            Some(_) = connections.join_next() => {}
            // Requests end them, too.
            _ = sweep.tick() => site.sessions.end_unused(),
        }
    }
}
