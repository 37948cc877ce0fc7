//! Log lines that clients can cause as often as they like, such as those about refused log-ins.
//!
//! Each kind has a maximum rate. A line contains the number of suppressed lines since the last one;
//! the totals are in the metrics.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Clock, LogRate, lock};
use tracing::{error, warn};

use crate::failure::Failure;

/// Maximum burst of lines of each kind.
const BURST: u32 = 10;
/// Interval after which one more line of each kind may be written.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of characters of a user's name in the log.
const USER_CHARS_MAX: usize = 64;

/// Log at a limited rate.
pub(crate) struct LimitedLog {
    clock: Arc<dyn Clock>,
    logins: Mutex<LogRate>,
    connections: Mutex<LogRate>,
    handshakes: Mutex<LogRate>,
    faults: Mutex<LogRate>,
    broken: Mutex<LogRate>,
    behind: Mutex<LogRate>,
}

impl LimitedLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let rate = || Mutex::new(LogRate::new(BURST, INTERVAL));
        Self {
            clock,
            logins: rate(),
            connections: rate(),
            handshakes: rate(),
            faults: rate(),
            broken: rate(),
            behind: rate(),
        }
    }

    /// Logs a refused log-in.
    pub(crate) fn login(&self, peer: SocketAddr, user: &str, why: impl fmt::Display) {
        if let Some(suppressed) = self.admit(&self.logins) {
            warn!(%peer, user = %Shown(user), suppressed, "log-in refused: {why}");
        }
    }

    /// Logs a connection that was closed at once.
    pub(crate) fn connection(&self, peer: SocketAddr, why: impl fmt::Display) {
        if let Some(suppressed) = self.admit(&self.connections) {
            warn!(%peer, suppressed, "connection refused: {why}");
        }
    }

    /// Logs a TLS handshake that failed.
    pub(crate) fn handshake(&self, peer: SocketAddr, why: impl fmt::Display) {
        if let Some(suppressed) = self.admit(&self.handshakes) {
            warn!(%peer, suppressed, "TLS handshake failed: {why}");
        }
    }

    /// Logs a statement that failed by the server's fault: each statement on a damaged file does.
    pub(crate) fn fault(&self, failure: &Failure) {
        if let Some(suppressed) = self.admit(&self.faults) {
            error!(error = %failure, suppressed, "a statement failed by the server's fault");
        }
    }

    /// Logs a connection whose task broke.
    pub(crate) fn broken(&self, peer: SocketAddr, error: &dyn fmt::Display) {
        if let Some(suppressed) = self.admit(&self.broken) {
            error!(%peer, %error, suppressed, "a connection's task broke");
        }
    }

    /// Logs a connection that is closed since it does not read its events.
    pub(crate) fn behind(&self, peer: SocketAddr, missed: u64) {
        if let Some(suppressed) = self.admit(&self.behind) {
            warn!(%peer, missed, suppressed, "too far behind the events");
        }
    }

    fn admit(&self, rate: &Mutex<LogRate>) -> Option<u64> {
        lock(rate).admit(self.clock.now())
    }
}

/// A user name as sent by a client: quoted, so that it stays on its line, and cut.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(USER_CHARS_MAX) {
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::SystemClock;

    use super::*;

    #[test]
    fn kinds_of_lines_have_separate_rates() {
        let log = LimitedLog::new(Arc::new(SystemClock));
        let admitted = |rate| (0..1000).filter(|_| log.admit(rate).is_some()).count();
        // More, if the test takes longer than a second.
        assert!((10..30).contains(&admitted(&log.connections)));
        assert!((10..30).contains(&admitted(&log.logins)));
        assert!((10..30).contains(&admitted(&log.handshakes)));
        assert!((10..30).contains(&admitted(&log.faults)));
        assert!((10..30).contains(&admitted(&log.broken)));
        assert!((10..30).contains(&admitted(&log.behind)));
    }

    #[test]
    fn names_in_the_log_are_quoted_and_cut() {
        assert_eq!(Shown("ann\n\x1b[31m").to_string(), r#""ann\n\u{1b}[31m""#);
        let long = Shown(&"é".repeat(70)).to_string();
        assert_eq!(long, format!("\"{}\"…", "é".repeat(64)));
    }
}
