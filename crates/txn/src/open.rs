//! Open transactions, and the one whose snapshot blocks the sweep.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Moment, Timestamp};

/// Description of a transaction for people: its client and its purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The client, for instance.
    pub who: Arc<str>,
    /// The kind of statement, for instance.
    pub what: &'static str,
}

impl Label {
    /// Creates a label.
    #[must_use]
    pub fn new(who: impl Into<Arc<str>>, what: &'static str) -> Self {
        Self { who: who.into(), what }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.what)
    }
}

/// An open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// R: versions visible there are kept.
    pub read: Timestamp,
    /// S, of a transaction that may write.
    pub start: Option<Timestamp>,
    /// Begin of the transaction, in coarse time: it may be slightly too early.
    pub began: Moment,
    /// Its label, if there is one.
    pub label: Option<Label>,
}

/// Remembers the last named transaction, so that each long blocker is named once.
#[derive(Debug, Default)]
pub(crate) struct Named(Option<(Timestamp, Moment)>);

impl Named {
    /// Returns `true` if the oldest transaction is to be named now.
    pub(crate) fn is_due(
        &mut self,
        oldest: &OpenTransaction,
        now: Moment,
        after: Duration,
    ) -> bool {
        let key = Some((oldest.read, oldest.began));
        now.since(oldest.began) >= after && std::mem::replace(&mut self.0, key) != key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_blocker_is_named_once() {
        let second = |second| Moment(Duration::from_secs(second));
        let open = |read, began| OpenTransaction {
            read: Timestamp::new(read).unwrap(),
            start: None,
            began: second(began),
            label: None,
        };
        let mut named = Named::default();
        let mut is_due = |open, now| named.is_due(&open, second(now), Duration::from_secs(60));
        assert!(!is_due(open(5, 100), 159));
        assert!(is_due(open(5, 100), 160) && !is_due(open(5, 100), 170));
        assert!(!is_due(open(6, 150), 180), "another one, which is young");
        assert!(is_due(open(6, 150), 220));
        assert_eq!(Label::new("ada@host", "SELECT").to_string(), "ada@host: SELECT");
    }
}
