//! Who announces itself to the leader: servers do, so that the clients of each hear of all.
//!
//! ```text
//!  server A ──"I am at 10.0.0.9:9042"──▶ leader ──▶ [A, B]     every second
//!  server B ──"I am at 10.0.0.8:9042"──▶   …    ──▶ [A, B]
//! ```
//!
//! Nothing of it is stored and no transaction depends on it: an announcement holds for some seconds,
//! and whoever leads next hears it anew. Until a leader must have heard everybody his answer is
//! *incomplete*, which takes nobody away: that he is new, or that he slept, is no reason for clients
//! to let go of their servers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, ErrorKind, Moment, Result};

use crate::message::{ClientId, Members};

/// A process announces itself so often.
pub(crate) const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// An announcement that was not repeated for so long is void: longer than a process may need to find
/// the next leader.
const ANNOUNCED_FOR: Duration = Duration::from_secs(10);
/// After so long a leader has heard everybody who lives.
const COMPLETE_AFTER: Duration = Duration::from_secs(5);
/// A leader who heard of nobody for so long slept himself.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The longest announcement.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 1024;
/// How many processes may announce themselves.
const PROCESSES_MAX: usize = 1024;

/// What the processes of a term announce.
#[derive(Debug)]
pub(crate) struct Announcements {
    /// Since when he hears whoever lives.
    since: Moment,
    /// When he heard of anybody last.
    heard: Moment,
    of: BTreeMap<ClientId, (Moment, Bytes)>,
}

impl Announcements {
    pub(crate) const fn new(since: Moment) -> Self {
        Self { since, heard: since, of: BTreeMap::new() }
    }

    /// Notes what a process announces, which is nothing more where that is empty; returns what all
    /// announce.
    pub(crate) fn announce(
        &mut self,
        client: ClientId,
        what: Bytes,
        now: Moment,
    ) -> Result<Members> {
        check(&what)?;
        if now.since(self.heard) > SILENCE_MAX {
            self.since = now;
        }
        self.heard = now;
        self.of.retain(|_, (at, _)| now.since(*at) < ANNOUNCED_FOR);
        if what.is_empty() {
            self.of.remove(&client);
        } else if self.of.len() < PROCESSES_MAX || self.of.contains_key(&client) {
            self.of.insert(client, (now, what));
        } else {
            return Err(Error::new(
                ErrorKind::Overloaded { retry_after: ANNOUNCED_FOR },
                format!("{PROCESSES_MAX} processes announce themselves, which is all there can be"),
            ));
        }
        let is_complete = now.since(self.since) >= COMPLETE_AFTER;
        let all = self.of.values().map(|(_, what)| what.clone()).collect();
        Ok(Members { is_complete, all })
    }
}

/// What a process announces, and what it heard that all do.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Nothing, or nothing more, where it is empty.
    pub(crate) own: Bytes,
    all: Vec<Bytes>,
    /// Whether somebody tells it again and again.
    pub(crate) is_driven: bool,
}

impl Announced {
    pub(crate) fn heard(&mut self, members: Members) {
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

    /// Returns what to tell next; where there is nothing more, nobody tells it any more.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.is_driven = !self.own.is_empty();
        self.is_driven.then(|| self.own.clone())
    }
}

/// Refuses an announcement that is too long.
pub(crate) fn check(what: &Bytes) -> Result<()> {
    if what.len() <= ANNOUNCEMENT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an announcement of {} bytes: it may have {ANNOUNCEMENT_BYTES_MAX} at most",
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
    fn an_answer_is_complete_once_everybody_can_have_announced_himself() {
        let mut all = Announcements::new(second(10));
        assert_eq!(announce(&mut all, A, "a", 11), (false, vec!["a".into()]));
        assert_eq!(announce(&mut all, A, "a", 13), (false, vec!["a".into()]));
        assert_eq!(announce(&mut all, B, "b", 14), (false, vec!["a".into(), "b".into()]));
        assert_eq!(announce(&mut all, A, "a", 15), (true, vec!["a".into(), "b".into()]));
    }

    #[test]
    fn an_announcement_is_void_once_it_is_not_repeated_or_taken_back() {
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
    fn a_leader_who_slept_knows_nobody_for_certain() {
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
    fn what_is_incomplete_takes_nobody_away() {
        let members = |is_complete, all: &[&'static str]| Members {
            is_complete,
            all: all.iter().map(|what| Bytes::from_static(what.as_bytes())).collect(),
        };
        let mut announced = Announced::default();
        announced.heard(members(true, &["a", "b"]));
        announced.heard(members(false, &["b", "c"]));
        assert_eq!(announced.all(), ["a", "b", "c"]);
        announced.heard(members(true, &["c"]));
        assert_eq!(announced.all(), ["c"]);
    }

    #[test]
    fn long_announcements_and_too_many_are_refused() {
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
