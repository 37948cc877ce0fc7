//! HTTP port for monitoring: `/livez`, `/readyz`, `/metrics`.
//!
//! | path | 200 | otherwise |
//! | --- | --- | --- |
//! | `/livez` | the process answers | |
//! | `/readyz` | statements can run | 503 with the cause: draining, or why the store takes no writes |
//! | `/metrics` | metrics in Prometheus' text format | |
//!
//! The text of a 200 from `/readyz` is `ok`, or names damage that does not prevent statements.
//!
//! Beyond loopback connections are over TLS, and a request shows a token as `Authorization: Bearer
//! TOKEN`; otherwise the answer is 401.
//!
//! HTTP/1.1 with one request per connection, GET and HEAD only: three static answers need no more.
//! The head of a request is limited in bytes and time, and so is the number of connections, of
//! which one address may have half; further ones are closed at once.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use carnet_base::{AddressLimit, Places};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::error;

use crate::accept::pause_after;
use crate::backend::Backend;
use crate::connection::Shared;
use crate::metrics::append_memory;
use crate::{audit_figures, process_figures, shed_figures};

const CONNECTIONS_MAX: usize = 64;
const HEAD_LEN_MAX: usize = 8 << 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Reply {
    fn text(status: &'static str, body: impl Into<String>) -> Self {
        let body = format!("{}\n", body.into());
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }
}

/// Target of a request.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    path: &'a str,
    /// Whether the method is HEAD: only the answer's head is sent.
    head_only: bool,
}

/// Parses the first line of a request.
fn parse(head: &[u8]) -> Result<Asked<'_>, Reply> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Reply::text("400 Bad Request", "this is not HTTP"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Reply::text("505 HTTP Version Not Supported", "use HTTP/1.1"));
    }
    let path = target.split('?').next().unwrap_or_default();
    match method {
        "GET" | "HEAD" => Ok(Asked { path, head_only: method == "HEAD" }),
        _ => Err(Reply::text("405 Method Not Allowed", "use GET or HEAD")),
    }
}

fn unauthorized() -> Reply {
    let text = "show the server's token in the header: Authorization: Bearer TOKEN";
    Reply::text("401 Unauthorized\r\nWWW-Authenticate: Bearer", text)
}

fn reply<B: Backend>(shared: &Shared<B>, draining: bool, path: &str) -> Reply {
    match path {
        "/livez" => Reply::text("200 OK", "ok"),
        "/readyz" if draining => Reply::text("503 Service Unavailable", "draining"),
        "/readyz" => match shared.backend.readiness() {
            Ok(text) => Reply::text("200 OK", text),
            Err(failure) => Reply::text("503 Service Unavailable", failure.message),
        },
        "/metrics" => {
            let mut body = shared.metrics.render(shared.budget.used());
            let mut memory = vec![
                ("requests", shared.budget.used()),
                ("answers", shared.answers.used()),
                ("connections", shared.connections.used()),
            ];
            memory.extend(shared.backend.memory());
            append_memory(&mut body, &memory);
            process_figures::append(&mut body);
            shed_figures::append(&mut body, &shared.metrics, shared.backend.admission());
            audit_figures::append(&mut body, shared.audit.as_deref());
            shared.backend.append_metrics(&mut body);
            let content_type = "text/plain; version=0.0.4; charset=utf-8";
            Reply { status: "200 OK", content_type, body }
        }
        _ => Reply::text("404 Not Found", "there are /livez, /readyz and /metrics"),
    }
}

/// HTTP service on a thread of its own, so that busy statement threads do not delay monitoring. It
/// ends with [`Monitors::end`].
pub(crate) struct Monitors {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Monitors {
    /// Starts the service's thread.
    pub(crate) fn start<B: Backend>(
        shared: Arc<Shared<B>>,
        listener: TcpListener,
        draining: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let listener = listener.into_std()?;
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("carnet-http".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return error!(%error, "monitors are not answered"),
                };
                tokio::select! {
                    () = serve(shared, listener, draining) => {}
                    // The server has ended, or was dropped.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread and waits for it, which releases its references to the server's state.
    pub(crate) async fn end(self) {
        drop(self.stop);
        let joined = task::spawn_blocking(|| self.thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            error!("the thread that answers monitors broke");
        }
    }
}

/// Answers requests until it is dropped, also while the server drains.
async fn serve<B: Backend>(
    shared: Arc<Shared<B>>,
    listener: TcpListener,
    draining: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let places = AddressLimit::of(Places::shared(CONNECTIONS_MAX));
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
                    shared.refusals.connection(peer, "there are too many for HTTP");
                    continue;
                };
                let (shared, draining) = (Arc::clone(&shared), draining.clone());
                connections.spawn(async move {
                    let _place = place;
                    // A client that disconnects or stalls gets no answer.
                    let _ = timeout(REQUEST_TIMEOUT, accept(&shared, stream, draining)).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers a client, after its TLS handshake where one is required. The handshake keeps only this
/// service's thread.
async fn accept<B: Backend>(
    shared: &Shared<B>,
    stream: TcpStream,
    draining: watch::Receiver<bool>,
) -> io::Result<()> {
    match shared.tls.as_ref().filter(|_| shared.monitoring.over_tls) {
        Some(tls) => {
            let acceptor = TlsAcceptor::from(tls.monitors());
            answer(shared, acceptor.accept(stream).await?, draining).await
        }
        None => answer(shared, stream, draining).await,
    }
}

async fn answer<B: Backend>(
    shared: &Shared<B>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    draining: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut head = BytesMut::with_capacity(1024);
    let complete = loop {
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            break true;
        }
        if head.len() >= HEAD_LEN_MAX {
            break false;
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let (reply, head_only) = if complete {
        match parse(&head) {
            Ok(asked) if !shared.monitoring.admits(&head) => (unauthorized(), asked.head_only),
            Ok(asked) => (reply(shared, *draining.borrow(), asked.path), asked.head_only),
            Err(reply) => (reply, false),
        }
    } else {
        (
            Reply::text("431 Request Header Fields Too Large", "the request's head is too long"),
            false,
        )
    };
    let mut out = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        reply.status,
        reply.content_type,
        reply.body.len()
    );
    if !head_only {
        out.push_str(&reply.body);
    }
    stream.write_all(out.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn first_line_is_parsed() {
        let asked = parse(b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(asked, Asked { path: "/metrics", head_only: false });
        assert!(parse(b"HEAD /livez HTTP/1.0\r\n\r\n").unwrap().head_only);
        let status = |head: &[u8]| parse(head).unwrap_err().status;
        assert_eq!(status(b"POST / HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status(b"GET / HTTP/2\r\n\r\n"), "505 HTTP Version Not Supported");
        for broken in [&b""[..], b"\r\n\r\n", b"GET /\r\n\r\n", b"\xff\xfe x y\r\n\r\n", b"a b c d"]
        {
            assert_eq!(status(broken), "400 Bad Request", "{broken:?}");
        }
    }

    #[test]
    fn arbitrary_requests_do_not_panic() {
        for seed in 0..20_000 {
            let mut rng = SeededRng::new(seed);
            let mut head = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
            for _ in 0..rng.below(8) {
                let at = usize::try_from(rng.below(head.len() as u64)).unwrap();
                head[at] = rng.next_u64().to_be_bytes()[0];
            }
            // Any answer is valid for arbitrary bytes; a panic is not.
            let len = parse(&head).map_or_else(|reply| reply.body.len(), |asked| asked.path.len());
            assert!(len < 64, "seed {seed}");
        }
    }
}
