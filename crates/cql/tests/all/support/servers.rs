//! Servers of one database over a cluster in memory. They reach each other by TCP, through relays
//! that can lose their messages.

#![expect(clippy::disallowed_methods, reason = "relays have threads, and wait on real time")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet::cluster::{
    ForwardHandler, Forwarding, LeaseOptions, MemoryCluster, Security, SequencerOptions, TcpNetwork,
};
use carnet::{Bytes, Db, Uuid, block_on};
use carnet_admission::AdmissionLimits;
use carnet_base::lock;
use carnet_cql::forward::{Answer, Request};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Grant, Parameters, Session};
use tokio::runtime::Runtime;

/// Messages that a relay loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Loss {
    Nothing,
    Answers,
    Everything,
}

/// Relay of the connections to a server.
pub(crate) struct Relay {
    address: SocketAddr,
    loss: Arc<AtomicU8>,
}

impl Relay {
    fn new() -> (Self, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (Self { address, loss: Arc::default() }, listener)
    }

    fn lead_to(&self, to: SocketAddr, listener: TcpListener) {
        let loss = Arc::clone(&self.loss);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(to) else { continue };
                let ways = [(&near, &far, Loss::Everything), (&far, &near, Loss::Answers)];
                for (from, to, lost_from) in ways {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let loss = Arc::clone(&loss);
                    std::thread::spawn(move || pass(from, to, &loss, lost_from as u8));
                }
            }
        });
    }

    pub(crate) fn lose(&self, loss: Loss) {
        self.loss.store(loss as u8, Ordering::SeqCst);
    }
}

/// Passes bytes on, and drops them while the relay loses at least as much as `lost_from`.
fn pass(mut from: TcpStream, mut to: TcpStream, loss: &AtomicU8, lost_from: u8) {
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if loss.load(Ordering::SeqCst) < lost_from && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Handler of a server's forwarded statements, which records the requests.
pub(crate) struct Holder {
    executor: Executor,
    pub(crate) seen: Mutex<Vec<Request>>,
    /// Whether no request is ever answered.
    pub(crate) is_silent: AtomicBool,
    /// Answer to all requests, instead of the executor's.
    pub(crate) canned: Mutex<Option<Bytes>>,
    pub(crate) grant: Mutex<Grant>,
}

impl ForwardHandler for Holder {
    fn answer(self: Arc<Self>, request: Bytes) -> Forwarding {
        lock(&self.seen).push(Request::decode(request.clone()).unwrap());
        if self.is_silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        if let Some(canned) = lock(&self.canned).clone() {
            return Box::pin(std::future::ready(canned));
        }
        let grant = lock(&self.grant).clone();
        Box::pin(async move { self.executor.answer_forwarded(request, grant).await })
    }
}

/// A server of the database.
pub(crate) struct Server {
    pub(crate) executor: Executor,
    pub(crate) holder: Arc<Holder>,
    pub(crate) relay: Relay,
    _handler: Arc<dyn ForwardHandler>,
}

impl Server {
    pub(crate) fn query(&self, text: &str) -> Result<Response, CqlError> {
        self.query_by(&Session::new(), text)
    }

    pub(crate) fn query_by(&self, session: &Session, text: &str) -> Result<Response, CqlError> {
        block_on(self.executor.query(session, text, &Parameters::default()))
    }

    pub(crate) fn start(&self) -> Uuid {
        self.start_by(&Session::new())
    }

    pub(crate) fn start_by(&self, session: &Session) -> Uuid {
        let rows = rows(self.query_by(session, "START DETACHED TRANSACTION"));
        Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap()
    }

    pub(crate) fn ints(&self, text: &str) -> Vec<i32> {
        ints(&rows(self.query(text)))
    }

    /// Returns the ids of the listed transactions that stay open between statements.
    pub(crate) fn listed(&self) -> BTreeSet<Uuid> {
        let rows = rows(self.query("SELECT id FROM system_views.transactions")).values();
        let id = |row: &Vec<Option<Bytes>>| Some(Uuid::from_slice(row[0].as_ref()?).unwrap());
        rows.iter().filter_map(id).collect()
    }

    pub(crate) fn outcome(&self, id: Uuid) -> String {
        let rows = rows(self.query(&format!("SELECT outcome({id})")));
        String::from_utf8(rows.values()[0][0].as_ref().unwrap().to_vec()).unwrap()
    }

    /// Answers all forwarded requests with this one.
    pub(crate) fn answer_with(&self, answer: &Answer) {
        *lock(&self.holder.canned) = Some(answer.encode());
    }
}

pub(crate) fn rows(response: Result<Response, CqlError>) -> Rows {
    let Ok(Response::Rows(rows)) = response else { panic!("no rows: {response:?}") };
    rows
}

/// Returns the first column of rows.
pub(crate) fn ints(rows: &Rows) -> Vec<i32> {
    let int = |row: &Vec<Option<Bytes>>| {
        i32::from_be_bytes(row[0].as_ref().unwrap()[..].try_into().unwrap())
    };
    rows.values().iter().map(int).collect()
}

/// The servers of a database, with the table `ks.t` and its row k = v = 1.
pub(crate) struct Servers {
    cluster: Arc<MemoryCluster>,
    pub(crate) runtime: Runtime,
}

impl Servers {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        Self { cluster: Arc::default(), runtime }
    }

    /// Starts servers, of which the first one leads, and waits until they know each other.
    pub(crate) fn start<const N: usize>(&self) -> [Server; N] {
        let servers = std::array::from_fn(|number| self.server(number, |builder| builder));
        self.prepare(&servers);
        servers
    }

    /// Creates the table, and waits until the servers know each other.
    pub(crate) fn prepare(&self, servers: &[Server]) {
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "INSERT INTO ks.t (k, v) VALUES (1, 1)",
        ] {
            servers[0].query(text).unwrap();
        }
        for server in servers {
            wait("the servers know each other", || {
                server.executor.look_at_peers().1.len() == servers.len() - 1
            });
        }
    }

    /// Starts a server that admits as many statements as suit one processor.
    pub(crate) fn limited(&self, number: usize) -> Server {
        self.server(number, |builder| builder.admission(AdmissionLimits::of_server(1)))
    }

    pub(crate) fn server(
        &self,
        number: usize,
        settings: impl FnOnce(carnet::Builder) -> carnet::Builder,
    ) -> Server {
        let (relay, listener) = Relay::new();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let runtime = self.runtime.handle().clone();
        let advertise = Some(relay.address.to_string());
        let network = TcpNetwork::bind(listen, advertise, Security::Insecure, runtime).unwrap();
        relay.lead_to(network.listens_on(), listener);
        let serving = network.clone();
        let listen = move |handler: &_| serving.serve(handler);
        let (cluster, address) = (Arc::clone(&self.cluster), network.address().clone());
        let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
        let options = SequencerOptions { lease, ..SequencerOptions::default() };
        let builder = settings(Db::builder());
        let db = builder.open_cluster(cluster, network, address, options, listen).unwrap();
        let number = u8::try_from(number).unwrap() + 1;
        let mut node = NodeInfo::local(Uuid::from_u64_pair(number.into(), 7)).among_others();
        node.address = [10, 0, 0, number].into();
        let executor = Executor::new(db, node);
        let holder = Arc::new(Holder {
            executor: executor.clone(),
            seen: Mutex::default(),
            is_silent: AtomicBool::default(),
            canned: Mutex::default(),
            grant: Mutex::default(),
        });
        let handler: Arc<dyn ForwardHandler> = Arc::clone(&holder) as _;
        executor.db().serve_forwarded(&handler);
        executor.announce().unwrap();
        Server { executor, holder, relay, _handler: handler }
    }
}

/// Waits until something is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never happens: {what}");
}
