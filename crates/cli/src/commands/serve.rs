//! `carnet serve`: a database behind ports.

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use carnet::base::{Clock, SystemClock};
use carnet::{Db, Durability};
use carnet_cql::Executor;
use carnet_cql::system::NodeInfo;
use carnet_server::{Authenticator, Config, CqlBackend, Server};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::place::Place;

/// Serve a database to cqlsh and drivers, by the native protocol v4 and v5.
///
/// SIGTERM and Ctrl-C drain: requests under way are answered, then the server ends.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The database's directory; it is made when it is not there.
    #[arg(value_name = "DIR", default_value = "carnet-data")]
    directory: PathBuf,
    /// A database on a Cassandra or ScyllaDB cluster instead, which any number of servers may
    /// serve at once: cassandra://user@host1,host2/keyspace?option=value. `docs/cassandra.md`
    /// tells more; an option that is not there is answered with all there are.
    #[arg(long, value_name = "URL", conflicts_with_all = ["directory", "durability"])]
    store: Option<String>,
    /// The address for CQL; port 0 picks a free one. Beyond loopback it takes --users.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9042")]
    listen: SocketAddr,
    /// The address for /livez, /readyz and /metrics, or "off".
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9180", value_parser = http)]
    http: Http,
    /// What an acknowledgement promises: "always" synced, synced every "interval:MILLISECONDS", or
    /// "none": written, not synced.
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = durability)]
    durability: Durability,
    /// A file with a line NAME:HASH for each user, as `carnet hash-password` prints it. With it,
    /// clients have to log in.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  carnet serve
  carnet serve /srv/bank --listen 127.0.0.1:9043 --http off
  carnet serve --store 'cassandra://10.0.0.1,10.0.0.2/bank?listen=10.0.0.9:9044&secret_file=secret'
  carnet hash-password ann >> users && carnet serve --listen 0.0.0.0:9042 --users users
  curl http://127.0.0.1:9180/metrics";

/// Where to answer monitors, if anywhere.
#[derive(Clone, Copy)]
struct Http(Option<SocketAddr>);

fn http(text: &str) -> Result<Http, String> {
    if text == "off" {
        return Ok(Http(None));
    }
    match text.parse() {
        Ok(address) => Ok(Http(Some(address))),
        Err(_) => Err("expected an address and port such as 127.0.0.1:9180, or off".into()),
    }
}

fn durability(text: &str) -> Result<Durability, String> {
    let millis = text.strip_prefix("interval:").and_then(|millis| millis.parse().ok());
    match (text, millis) {
        ("always", _) => Ok(Durability::Always),
        ("none", _) => Ok(Durability::None),
        (_, Some(millis @ 1..)) => Ok(Durability::Interval(Duration::from_millis(millis))),
        _ => Err("expected always, none, or interval:MILLISECONDS such as interval:100".into()),
    }
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            .init();
        let authenticator = self.users.as_deref().map(authenticator).transpose()?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        let directory = Some(self.directory);
        let place =
            Place::of(directory, self.store.as_deref())?.expect("a directory has a default");
        let db = place.open(Db::builder().durability(self.durability).control(true))?;
        let listen = with_port(self.listen)?;
        let executor = Executor::new(db.clone(), node_info(&place, listen));
        let config = Config { http: self.http.0, ..Config::new(listen) };
        runtime.block_on(async {
            let served = Box::pin(serve(config, executor, authenticator, &place)).await;
            db.leave().await;
            served?;
            say("stopped");
            Ok(())
        })
    }
}

async fn serve(
    config: Config,
    executor: Executor,
    authenticator: Option<Authenticator>,
    place: &Place,
) -> Result<()> {
    // Before the ports are open, so that no signal comes too early to be noticed.
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
    let backend = CqlBackend::new(executor);
    let server = Server::bind(config, backend, authenticator, Arc::new(SystemClock)).await?;
    let mut line = format!("serving {place}: CQL on {}", server.local_addr()?);
    if let Some(http) = server.http_addr()? {
        line.push_str(&format!(", HTTP on {http}"));
    }
    say(&line);
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(shutdown).await;
    Ok(())
}

/// Tells whoever started the server; that nobody listens is no reason to end.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn authenticator(path: &Path) -> Result<Authenticator> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the users in {}", path.display()))?;
    Authenticator::parse(&text).with_context(|| path.display().to_string())
}

/// Picks the port now where any will do: drivers are told it before it is opened.
fn with_port(mut listen: SocketAddr) -> Result<SocketAddr> {
    if listen.port() == 0 {
        let probe = TcpListener::bind(listen).with_context(|| format!("cannot use {listen}"))?;
        listen = probe.local_addr().context("the port's address is not known")?;
    }
    Ok(listen)
}

fn node_info(place: &Place, listen: SocketAddr) -> NodeInfo {
    let mut info = NodeInfo::local(place.host_id(&listen.to_string()));
    // "Every address" is none that a driver could connect to.
    info.address =
        if listen.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { listen.ip() };
    info.port = listen.port();
    info.started_secs =
        i32::try_from(SystemClock.wall().millis().div_euclid(1_000)).unwrap_or(i32::MAX);
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_has_three_forms() {
        assert_eq!(durability("always"), Ok(Durability::Always));
        assert_eq!(durability("none"), Ok(Durability::None));
        let interval = Duration::from_millis(50);
        assert_eq!(durability("interval:50"), Ok(Durability::Interval(interval)));
        for wrong in ["", "interval", "interval:", "interval:0", "interval:-1", "sometimes"] {
            assert!(durability(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn http_can_be_off() {
        assert_eq!(http("off").unwrap().0, None);
        assert_eq!(http("127.0.0.1:0").unwrap().0.unwrap().port(), 0);
        assert!(http("9180").is_err());
    }
}
