//! Who announces itself to the leader: servers do, so that the clients of each hear of all.
//!
//! ```text
//!  server A ──"I am at 10.0.0.9:9042"──▶ leader ──▶ [A, B]     every second
//!  server B ──"I am at 10.0.0.8:9042"──▶   …    ──▶ [A, B]
//! ```
//!
//! Nothing of it is stored and no transaction depends on it: an announcement holds for a few seconds,
//! and whoever leads next hears it anew. Until he must have heard everybody he says that he does not
//! know, and the others go on with what they were told last: a change of leaders is no reason for
//! clients to let go of their servers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Error, Moment, Result};

use crate::message::ClientId;

/// A process announces itself so often.
pub(crate) const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// An announcement that was not repeated for so long is void.
pub(crate) const ANNOUNCED_FOR: Duration = Duration::from_secs(5);
/// The longest announcement.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 1024;

/// What the processes of a term announce.
#[derive(Debug)]
pub(crate) struct Members {
    /// When the term began.
    since: Moment,
    announced: BTreeMap<ClientId, (Moment, Bytes)>,
}

impl Members {
    pub(crate) const fn new(since: Moment) -> Self {
        Self { since, announced: BTreeMap::new() }
    }

    /// Notes what a process announces, which is nothing more where that is empty.
    pub(crate) fn announce(&mut self, client: ClientId, what: Bytes, now: Moment) -> Result<()> {
        check(&what)?;
        if what.is_empty() {
            self.announced.remove(&client);
        } else {
            self.announced.insert(client, (now, what));
        }
        Ok(())
    }

    /// Returns what all announce, in the order of their ids; `None` until everybody has had the time
    /// to.
    pub(crate) fn all(&mut self, now: Moment) -> Option<Vec<Bytes>> {
        self.announced.retain(|_, (at, _)| now.since(*at) < ANNOUNCED_FOR);
        let have_all = now.since(self.since) >= ANNOUNCED_FOR;
        have_all.then(|| self.announced.values().map(|(_, what)| what.clone()).collect())
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

    fn announce(members: &mut Members, client: ClientId, what: &'static str, at: u64) {
        members.announce(client, Bytes::from_static(what.as_bytes()), second(at)).unwrap();
    }

    #[test]
    fn a_leader_does_not_say_who_is_there_before_everybody_can_have_told_him() {
        let mut members = Members::new(second(10));
        announce(&mut members, A, "a", 11);
        assert_eq!(members.all(second(14)), None);
        announce(&mut members, B, "b", 14);
        assert_eq!(members.all(second(15)), Some(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn an_announcement_is_void_once_it_is_not_repeated_or_taken_back() {
        let mut members = Members::new(second(0));
        announce(&mut members, A, "a", 10);
        announce(&mut members, B, "b", 10);
        announce(&mut members, B, "b2", 12);
        assert_eq!(members.all(second(14)), Some(vec!["a".into(), "b2".into()]));
        assert_eq!(members.all(second(15)), Some(vec!["b2".into()]));
        announce(&mut members, B, "", 15);
        assert_eq!(members.all(second(15)), Some(vec![]));
    }

    #[test]
    fn a_long_announcement_is_refused() {
        let long = Bytes::from(vec![0; ANNOUNCEMENT_BYTES_MAX + 1]);
        let error = Members::new(second(0)).announce(A, long, second(0)).unwrap_err();
        assert!(error.to_string().contains("1025 bytes"), "{error}");
    }
}
