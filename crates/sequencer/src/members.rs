//! Announcements of processes to the leader, through which the clients of each server learn of all
//! servers.
//!
//! ```text
//!  server A ──"I am at 10.0.0.9:9042"──▶ leader ──▶ [A, B]     every second
//!  server B ──"I am at 10.0.0.8:9042"──▶   …    ──▶ [A, B]
//! ```
//!
//! Announcements are not stored, and no transaction depends on them. An announcement is valid for
//! some seconds; a new leader receives it anew. A leader marks its answer as *incomplete* until
//! every live process must have reached it. An incomplete answer removes no process: a new leader,
//! or a paused one, is no reason for clients to drop their servers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind, Moment, Result};

use crate::message::{ClientId, Members};

/// Interval between announcements of a process.
pub(crate) const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// Time after which an announcement expires. It is longer than a process may need to find the next
/// leader.
const ANNOUNCED_FOR: Duration = Duration::from_secs(10);
/// Time after which a leader has received an announcement of every live process.
const COMPLETE_AFTER: Duration = Duration::from_secs(5);
/// Longest silence of all processes. After a longer one, assume that this process was paused;
/// restart the completeness timer.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Maximum length of an announcement.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 1024;
/// Maximum number of processes that may announce themselves.
const PROCESSES_MAX: usize = 1024;

/// The announcements of a term.
#[derive(Debug)]
pub(crate) struct Announcements {
    /// Start of the completeness timer.
    since: Moment,
    /// Time of the latest announcement.
    last: Moment,
    of: BTreeMap<ClientId, (Moment, Bytes)>,
}

impl Announcements {
    pub(crate) const fn new(since: Moment) -> Self {
        Self { since, last: since, of: BTreeMap::new() }
    }

    /// Stores the announcement of a process, or removes it if `what` is empty; returns the
    /// announcements of all processes.
    pub(crate) fn announce(
        &mut self,
        client: ClientId,
        what: Bytes,
        now: Moment,
    ) -> Result<Members> {
        check(&what)?;
        if now.since(self.last) > SILENCE_MAX {
            self.since = now;
        }
        self.last = now;
        self.of.retain(|_, (at, _)| now.since(*at) < ANNOUNCED_FOR);
        if what.is_empty() {
            self.of.remove(&client);
        } else if self.of.len() < PROCESSES_MAX || self.of.contains_key(&client) {
            self.of.insert(client, (now, what));
        } else {
            return Err(Error::new(
                ErrorKind::Overloaded { retry_after: ANNOUNCED_FOR },
                format!(
                    "{PROCESSES_MAX} processes announce themselves already, which is the \
                         maximum"
                ),
            ));
        }
        let is_complete = now.since(self.since) >= COMPLETE_AFTER;
        let all = self.of.values().map(|(_, what)| what.clone()).collect();
        Ok(Members { is_complete, all })
    }
}

/// The announcement of this process, and those of all processes as last received.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Empty if there is nothing to announce any more.
    pub(crate) own: Bytes,
    all: Vec<Bytes>,
    /// `true` while a task repeats the announcement.
    pub(crate) is_driven: bool,
}

impl Announced {
    pub(crate) fn received(&mut self, members: Members) {
        let Members { is_complete, all } = members;
        if is_complete {
            self.all = all;
        } else {
            all.into_iter().for_each(|what| {
                if !self.all.contains(&what) {
                    self.all.push(what);
                }
            });
        }
    }

    pub(crate) fn all(&self) -> Vec<Bytes> {
        self.all.clone()
    }

    /// Returns the next announcement to send, or `None` if there is none and the task ends.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.is_driven = !self.own.is_empty();
        self.is_driven.then(|| self.own.clone())
    }
}

/// Rejects an announcement that is too long.
pub(crate) fn check(what: &Bytes) -> Result<()> {
    if what.len() <= ANNOUNCEMENT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the announcement has {} bytes; at most {ANNOUNCEMENT_BYTES_MAX} are allowed",
        what.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn second(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn announce(
        announcements: &mut Announcements,
        client: ClientId,
        what: &'static str,
        at: u64,
    ) -> (bool, Vec<Bytes>) {
        let what = Bytes::from_static(what.as_bytes());
        let members = announcements.announce(client, what, second(at)).unwrap();
        (members.is_complete, members.all)
    }

    #[test]
    fn answer_is_complete_after_the_completeness_timer() {
        let mut all = Announcements::new(second(10));
        assert_eq!(announce(&mut all, A, "a", 11), (false, vec!["a".into()]));
        assert_eq!(announce(&mut all, A, "a", 13), (false, vec!["a".into()]));
        assert_eq!(announce(&mut all, B, "b", 14), (false, vec!["a".into(), "b".into()]));
        assert_eq!(announce(&mut all, A, "a", 15), (true, vec!["a".into(), "b".into()]));
    }

    #[test]
    fn announcement_expires_or_is_withdrawn() {
        let mut all = Announcements::new(second(0));
        announce(&mut all, B, "b", 10);
        for at in (12..=18).step_by(2) {
            announce(&mut all, A, "a", at);
        }
        assert_eq!(announce(&mut all, A, "a2", 19), (true, vec!["a2".into(), "b".into()]));
        assert_eq!(announce(&mut all, A, "a2", 20), (true, vec!["a2".into()]));
        assert_eq!(announce(&mut all, A, "", 21), (true, vec![]));
    }

    #[test]
    fn paused_leader_restarts_the_completeness_timer() {
        let mut all = Announcements::new(second(0));
        for at in 0..20 {
            announce(&mut all, A, "a", at);
            announce(&mut all, B, "b", at);
        }
        assert_eq!(announce(&mut all, A, "a", 60), (false, vec!["a".into()]));
        (61..65).for_each(|at| drop(announce(&mut all, A, "a", at)));
        assert_eq!(announce(&mut all, A, "a", 65), (true, vec!["a".into()]));
    }

    #[test]
    fn incomplete_answer_removes_no_process() {
        let members = |is_complete, all: &[&'static str]| Members {
            is_complete,
            all: all.iter().map(|what| Bytes::from_static(what.as_bytes())).collect(),
        };
        let mut announced = Announced::default();
        announced.received(members(true, &["a", "b"]));
        announced.received(members(false, &["b", "c"]));
        assert_eq!(announced.all(), ["a", "b", "c"]);
        announced.received(members(true, &["c"]));
        assert_eq!(announced.all(), ["c"]);
    }

    #[test]
    fn too_long_or_too_many_announcements_are_rejected() {
        let mut all = Announcements::new(second(0));
        let long = Bytes::from(vec![0; ANNOUNCEMENT_BYTES_MAX + 1]);
        let error = all.announce(A, long, second(0)).unwrap_err();
        assert!(error.to_string().contains("1025 bytes"), "{error}");
        for client in 0..PROCESSES_MAX as u64 {
            announce(&mut all, ClientId(client), "x", 1);
        }
        let one_more = all.announce(ClientId(u64::MAX), "x".into(), second(1)).unwrap_err();
        assert!(matches!(one_more.kind(), ErrorKind::Overloaded { .. }), "{one_more}");
        announce(&mut all, A, "again", 1);
    }
}
