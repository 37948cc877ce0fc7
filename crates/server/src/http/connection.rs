//! Connection of a client of the HTTP port: its TLS handshake, and HTTP/1.1 by hyper.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::ends::Ends;
use super::progress::Progress;
use super::route::route;
use super::site::Site;
use crate::backend::Backend;

const HEAD_LEN_MAX: usize = 8 << 10;
/// Maximum time for a handshake, for the head of a request, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for which a client takes no byte of its answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a client, after its TLS handshake where one is required, until it leaves, or for one request
/// unless the connection is kept. The handshake keeps only this service's thread.
pub(super) async fn serve_connection<B: Backend>(
    site: &Arc<Site<B>>,
    stream: TcpStream,
    peer: SocketAddr,
    is_kept: bool,
) -> io::Result<()> {
    // Without this option small answers would wait for acknowledgements. A failure to set it is
    // harmless.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr()?.ip();
    let tls = site.shared.tls.as_ref().filter(|_| site.shared.monitoring.over_tls);
    let ends = Ends { peer, local, over_tls: tls.is_some() };
    match tls {
        Some(tls) => {
            let acceptor = TlsAcceptor::from(tls.monitors());
            let stream = timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await??;
            serve_requests(site, stream, ends, is_kept).await
        }
        None => serve_requests(site, stream, ends, is_kept).await,
    }
}

async fn serve_requests<B: Backend>(
    site: &Arc<Site<B>>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ends: Ends,
    is_kept: bool,
) -> io::Result<()> {
    let service = service_fn(|request| {
        let site = Arc::clone(site);
        async move { Ok::<_, Infallible>(route(&site, request, ends).await) }
    });
    let stream = TokioIo::new(Progress::new(stream, STALL_TIMEOUT));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_LEN_MAX)
        .keep_alive(is_kept)
        .serve_connection(stream, service)
        .await;
    served.map_err(io::Error::other)
}
