//! Files that a server reads again while it runs: TLS certificates, the users file, and the levels
//! of the log.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::lock;
use carnet_cql::Executor;
use carnet_server::Tls;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};

use crate::logging::{LEVELS, Logging};
use crate::users::UsersFile;

/// Interval at which the users file is examined. The server itself examines its certificates.
const INTERVAL: Duration = Duration::from_secs(10);

/// Files to read again. See the module documentation.
pub(super) struct Reloads {
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) users: Option<Arc<Mutex<UsersFile>>>,
    pub(super) executor: Executor,
    pub(super) log: Logging,
    /// Settings file, if there is one.
    pub(super) settings: Option<PathBuf>,
}

impl Reloads {
    /// Loads all files at each SIGHUP, and the users file when it changes.
    pub(super) async fn run(self, mut hangup: Signal) -> Infallible {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                signal = hangup.recv() => match signal {
                    Some(()) => {
                        info!("SIGHUP: loading the certificates, the users file and the levels of the log");
                        reload_certificates(self.tls.clone()).await;
                        match self.users {
                            Some(_) => self.reload_users().await,
                            None => info!("SIGHUP: there is no users file to load again"),
                        }
                        self.reload_levels();
                    }
                    // The stream of signals does not end while the process runs.
                    None => std::future::pending().await,
                },
                _ = ticks.tick() => self.reload_users().await,
            }
        }
    }

    async fn reload_users(&self) {
        let Some(file) = self.users.clone() else { return };
        // Files may be on a slow disk.
        let reload = spawn_blocking(move || {
            let mut file = lock(&file);
            file.reload().map(|users| users.map(|users| (users, Arc::clone(file.users()))))
        });
        match reload.await {
            Ok(Ok(Some((users, old)))) => {
                // First the names: a new user who logs in is no role.
                self.executor.set_users(users.names());
                old.replace(&users);
                info!("the users file has changed; new log-ins use it");
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => error!(error = format!("{error:#}"), "{}", UsersFile::KEPT),
            Err(error) => error!(%error, "the reload of the users file broke; its users stay"),
        }
    }
}

impl Reloads {
    fn reload_levels(&self) {
        if Logging::is_of_variable() {
            return info!("SIGHUP: the levels of the log stay: RUST_LOG sets them");
        }
        let Some(settings) = &self.settings else {
            return info!("SIGHUP: the levels of the log stay: there is no settings file");
        };
        match self.log.reload(settings) {
            Ok(levels) => {
                self.executor.set_setting(LEVELS, &levels);
                info!("SIGHUP: the levels of the log are loaded again");
            }
            Err(error) => error!(
                error = format!("{error:#}"),
                "SIGHUP: the levels of the log cannot be loaded again; the old ones stay"
            ),
        }
    }
}

async fn reload_certificates(tls: Option<Arc<Tls>>) {
    let Some(tls) = tls else {
        return info!("SIGHUP: there are no TLS certificates to load again");
    };
    match spawn_blocking(move || tls.reload()).await {
        Ok(Ok(())) => info!("SIGHUP: the TLS certificates are loaded again"),
        Ok(Err(error)) => error!(%error, "SIGHUP: {}", Tls::KEPT),
        Err(error) => error!(%error, "SIGHUP: the reload of certificates broke"),
    }
}
