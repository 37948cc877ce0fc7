//! Who has a transaction open, and whose snapshot holds the sweep back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Moment, Timestamp};

/// Who runs a transaction, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// A client, for instance.
    pub who: Arc<str>,
    /// A kind of statement, for instance.
    pub what: &'static str,
}

impl Label {
    /// Makes a label.
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

/// A transaction that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// R: it keeps what is visible there.
    pub read: Timestamp,
    /// S, of one that may write.
    pub start: Option<Timestamp>,
    /// When it began, or a little before: nobody asks a clock at its beginning.
    pub began: Moment,
    /// Who runs it, if that was said.
    pub label: Option<Label>,
}

/// Remembers whom it has named, so that each who holds the sweep back for long is named once.
#[derive(Debug, Default)]
pub(crate) struct Named(Option<(Timestamp, Moment)>);

impl Named {
    /// Says whether the oldest transaction is to be named now.
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
    fn whoever_holds_for_long_is_named_once() {
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
