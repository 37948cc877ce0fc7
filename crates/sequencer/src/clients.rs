//! Whose snapshots are open at a leader.
//!
//! Requests may come twice and late, and a process may die without a word. So a snapshot is named
//! by its process and a token that the process uses once: what was closed cannot be closed, or
//! committed with, again. Those of a process that was not heard of for long are given up, and
//! those that a process says it does not know of: they would hold the conflict state and the sweep
//! for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use carnet_base::{Moment, Timestamp};
use carnet_store::Begun;

use crate::message::{ClientId, Token};

/// The open snapshots of one term.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: BTreeMap<(ClientId, Token), Open>,
    heard: HashMap<ClientId, Moment>,
    /// The starts among the open snapshots that are not decided.
    starts: BTreeSet<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    begun: Begun,
    since: Moment,
}

impl Clients {
    pub(crate) fn heard_of(&mut self, client: ClientId, now: Moment) {
        self.heard.insert(client, now);
    }

    pub(crate) fn opened(&mut self, client: ClientId, token: Token, begun: Begun, since: Moment) {
        self.starts.extend(begun.start);
        self.open.insert((client, token), Open { begun, since });
    }

    /// Returns the oldest snapshot, whose it is, and since when.
    pub(crate) fn oldest(&self) -> Option<(ClientId, Begun, Moment)> {
        let oldest = self.open.iter().min_by_key(|(_, open)| open.begun.read)?;
        let ((client, _), Open { begun, since }) = oldest;
        Some((*client, *begun, *since))
    }

    pub(crate) fn get(&self, client: ClientId, token: Token) -> Option<Begun> {
        self.open.get(&(client, token)).map(|open| open.begun)
    }

    pub(crate) fn close(&mut self, client: ClientId, token: Token) -> Option<Begun> {
        let begun = self.open.remove(&(client, token))?.begun;
        if let Some(start) = begun.start {
            self.starts.remove(&start);
        }
        Some(begun)
    }

    /// Closes what a process has forgotten: it has, and asks for, nothing older than `oldest`.
    pub(crate) fn close_older(&mut self, client: ClientId, oldest: Token) -> Vec<Begun> {
        let older = self.open.range((client, Token(0))..(client, oldest));
        let older: Vec<Token> = older.map(|((_, token), _)| *token).collect();
        older.into_iter().filter_map(|token| self.close(client, token)).collect()
    }

    /// Notes that a start is decided. Its snapshot stays open until it is given back.
    pub(crate) fn decided(&mut self, start: Timestamp) {
        self.starts.remove(&start);
    }

    /// Tells whether a start may still be decided.
    pub(crate) fn is_open(&self, start: Timestamp) -> bool {
        self.starts.contains(&start)
    }

    pub(crate) fn oldest_start(&self) -> Option<Timestamp> {
        self.starts.first().copied()
    }

    /// Closes what belongs to processes that were not heard of for so long.
    pub(crate) fn expire(&mut self, now: Moment, timeout: Duration) -> Vec<Begun> {
        self.heard.retain(|_, heard| now.since(*heard) < timeout);
        let is_gone = |(client, _): &&(ClientId, Token)| !self.heard.contains_key(client);
        let gone: Vec<_> = self.open.keys().filter(is_gone).copied().collect();
        gone.into_iter().filter_map(|(client, token)| self.close(client, token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use carnet_store::Slot;

    use super::*;

    #[test]
    fn a_snapshot_closes_once_and_for_its_owner_only() {
        let at = |number| Timestamp::new(number).unwrap();
        let begun =
            Begun { read: at(4), start: Some(at(5)), slot: Slot(0), schema: Timestamp::ZERO };
        let mut clients = Clients::default();
        clients.opened(ClientId(1), Token(1), begun, Moment::default());
        assert_eq!(clients.close(ClientId(2), Token(1)), None);
        assert!(clients.is_open(at(5)));
        assert_eq!(clients.close(ClientId(1), Token(1)), Some(begun));
        assert_eq!((clients.close(ClientId(1), Token(1)), clients.is_open(at(5))), (None, false));
    }

    #[test]
    fn a_start_that_is_decided_is_not_open_and_its_snapshot_is() {
        let start = Timestamp::new(5).unwrap();
        let begun = Begun {
            read: Timestamp::ZERO,
            start: Some(start),
            slot: Slot(0),
            schema: Timestamp::ZERO,
        };
        let mut clients = Clients::default();
        clients.opened(ClientId(1), Token(1), begun, Moment::default());
        assert_eq!((clients.is_open(start), clients.oldest_start()), (true, Some(start)));
        clients.decided(start);
        assert_eq!((clients.is_open(start), clients.oldest_start()), (false, None));
        assert_eq!(clients.get(ClientId(1), Token(1)), Some(begun));
        assert_eq!(clients.close(ClientId(1), Token(1)), Some(begun));
    }

    #[test]
    fn what_its_owner_has_forgotten_is_closed() {
        let begun =
            Begun { read: Timestamp::ZERO, start: None, slot: Slot(0), schema: Timestamp::ZERO };
        let mut clients = Clients::default();
        for (client, token) in [(1, 3), (2, 3), (2, 4), (2, 5), (3, 1)] {
            clients.opened(ClientId(client), Token(token), begun, Moment::default());
        }
        assert_eq!(clients.close_older(ClientId(2), Token(5)).len(), 2);
        assert_eq!(clients.open.len(), 3);
    }

    #[test]
    fn what_the_dead_held_is_given_up() {
        let second = |seconds| Moment(Duration::from_secs(seconds));
        let begun = |start| Begun {
            read: Timestamp::ZERO,
            start: Timestamp::new(start),
            slot: Slot(0),
            schema: Timestamp::ZERO,
        };
        let mut clients = Clients::default();
        clients.heard_of(ClientId(1), second(0));
        clients.heard_of(ClientId(2), second(0));
        clients.opened(ClientId(1), Token(1), begun(5), second(0));
        clients.opened(ClientId(2), Token(1), begun(6), second(0));
        let oldest = clients.oldest().unwrap();
        assert_eq!((oldest.0, oldest.2), (ClientId(1), second(0)));
        clients.heard_of(ClientId(2), second(20));
        assert_eq!(clients.expire(second(30), Duration::from_secs(30)), [begun(5)]);
        assert_eq!(clients.oldest_start(), Timestamp::new(6));
        assert_eq!(clients.expire(second(31), Duration::from_secs(30)), []);
    }
}
