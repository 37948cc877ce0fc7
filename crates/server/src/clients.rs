//! The list of connected clients, which `system_views.clients` shows.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use carnet_base::lock;

use carnet_cql::system::{self, ClientList, ClientTls, ConnectionStage};

use crate::protocol::Version;

/// Maximum size of the STARTUP options that are kept per connection, in bytes. Further options are
/// left out, so that clients cannot fill the memory with them.
const OPTIONS_BYTES_MAX: usize = 4 << 10;

/// Connections of a server. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    entries: HashMap<u64, Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    address: SocketAddr,
    tls: Option<ClientTls>,
    requests: AtomicU64,
    about: Mutex<About>,
}

/// Data about a client.
#[derive(Debug)]
struct About {
    stage: ConnectionStage,
    version: Version,
    username: Option<String>,
    options: BTreeMap<String, String>,
}

impl Clients {
    /// Adds a connection to the list until the registration is dropped.
    pub(crate) fn register(&self, address: SocketAddr, tls: Option<ClientTls>) -> Registration {
        let about = About {
            stage: ConnectionStage::Establishing,
            version: Version::HIGHEST,
            username: None,
            options: BTreeMap::new(),
        };
        let (requests, about) = (AtomicU64::new(0), Mutex::new(about));
        let entry = Arc::new(Entry { address, tls, requests, about });
        let mut list = self.lock();
        let id = list.next;
        list.next += 1;
        list.entries.insert(id, Arc::clone(&entry));
        Registration { clients: self.clone(), id, entry }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.0)
    }
}

impl ClientList for Clients {
    fn clients(&self) -> Vec<system::Client> {
        let entries: Vec<_> = self.lock().entries.values().map(Arc::clone).collect();
        entries.iter().map(|entry| entry.client()).collect()
    }
}

impl Entry {
    fn client(&self) -> system::Client {
        let about = lock(&self.about);
        system::Client {
            address: self.address,
            username: about.username.clone(),
            stage: about.stage,
            protocol_version: about.version.number(),
            options: about.options.clone(),
            request_count: self.requests.load(Ordering::Relaxed),
            tls: self.tls.clone(),
        }
    }
}

/// Entry of one connection.
#[derive(Debug)]
pub(crate) struct Registration {
    clients: Clients,
    id: u64,
    entry: Arc<Entry>,
}

impl Registration {
    /// Counts a request of the client.
    pub(crate) fn count_request(&self) {
        self.entry.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the client has sent STARTUP and must log in.
    pub(crate) fn authenticating(&self, version: Version, options: &[(String, String)]) {
        let options = kept(options);
        let mut about = self.about();
        (about.stage, about.version) = (ConnectionStage::Authenticating, version);
        about.options = options;
    }

    /// Records that the client may run statements.
    pub(crate) fn ready(
        &self,
        version: Version,
        username: Option<&str>,
        options: &[(String, String)],
    ) {
        let options = kept(options);
        let mut about = self.about();
        (about.stage, about.version) = (ConnectionStage::Ready, version);
        about.username = username.map(str::to_owned);
        about.options = options;
    }

    fn about(&self) -> MutexGuard<'_, About> {
        lock(&self.entry.about)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clients.lock().entries.remove(&self.id);
    }
}

fn kept(options: &[(String, String)]) -> BTreeMap<String, String> {
    let mut bytes = 0;
    let mut kept = BTreeMap::new();
    for (name, value) in options {
        let len = name.len() + value.len();
        if bytes + len <= OPTIONS_BYTES_MAX {
            bytes += len;
            kept.insert(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn connection_is_listed_while_it_lasts() {
        let clients = Clients::default();
        let address = "10.0.0.1:7".parse().unwrap();
        let registration = clients.register(address, None);
        let [establishing] = &clients.clients()[..] else { panic!("one connection") };
        assert_eq!(establishing.stage, ConnectionStage::Establishing);
        registration.count_request();
        let options = [option("DRIVER_NAME", "x")];
        registration.authenticating(Version::V4, &options);
        assert_eq!(clients.clients()[0].stage, ConnectionStage::Authenticating);
        assert_eq!(clients.clients()[0].username, None);
        registration.count_request();
        registration.ready(Version::V4, Some("ann"), &options);
        let expected = system::Client {
            address,
            username: Some("ann".into()),
            stage: ConnectionStage::Ready,
            protocol_version: 4,
            options: options.into(),
            request_count: 2,
            tls: None,
        };
        assert_eq!(clients.clients(), [expected]);
        let other = clients.register(address, None);
        assert_eq!(clients.clients().len(), 2);
        drop(registration);
        assert_eq!(clients.clients()[0].stage, ConnectionStage::Establishing);
        drop(other);
        assert_eq!(clients.clients(), []);
    }

    #[test]
    fn oversized_options_are_left_out() {
        let long = "x".repeat(OPTIONS_BYTES_MAX);
        let options = [option("LONG", &long), option("DRIVER_NAME", "x"), option("ALSO", &long)];
        let kept = kept(&options);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["DRIVER_NAME"]);
    }
}
