//! Open snapshots at a leader, by process.
//!
//! Requests may arrive twice or late, and a process may die silently. A snapshot is therefore named
//! by its process and a token that the process uses once: a closed snapshot cannot be closed again,
//! or committed with. The leader gives up the snapshots of a process that was silent for too long,
//! and the snapshots that a process reports as unknown. Otherwise they would hold back the conflict
//! state and the sweep for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use carnet_base::{Moment, Timestamp};
use carnet_store::Begun;

use crate::message::{ClientId, Token};

/// The open snapshots of one term.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: BTreeMap<(ClientId, Token), Open>,
    last_seen: HashMap<ClientId, Moment>,
    /// Undecided starts among the open snapshots.
    starts: BTreeSet<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    begun: Begun,
    since: Moment,
}

impl Clients {
    pub(crate) fn seen(&mut self, client: ClientId, now: Moment) {
        self.last_seen.insert(client, now);
    }

    pub(crate) fn opened(&mut self, client: ClientId, token: Token, begun: Begun, since: Moment) {
        self.starts.extend(begun.start);
        self.open.insert((client, token), Open { begun, since });
    }

    /// Returns the oldest snapshot with its process and the time it was opened.
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

    /// Closes the snapshots that a process has forgotten: it neither has nor requests any older
    /// than `oldest`.
    pub(crate) fn close_older(&mut self, client: ClientId, oldest: Token) -> Vec<Begun> {
        let older = self.open.range((client, Token(0))..(client, oldest));
        let older: Vec<Token> = older.map(|((_, token), _)| *token).collect();
        older.into_iter().filter_map(|token| self.close(client, token)).collect()
    }

    /// Marks a start as decided. Its snapshot stays open until it is given back.
    pub(crate) fn decided(&mut self, start: Timestamp) {
        self.starts.remove(&start);
    }

    /// Returns `true` if a start may still be decided.
    pub(crate) fn is_open(&self, start: Timestamp) -> bool {
        self.starts.contains(&start)
    }

    pub(crate) fn oldest_start(&self) -> Option<Timestamp> {
        self.starts.first().copied()
    }

    /// Closes the snapshots of processes that were silent for `timeout`.
    pub(crate) fn expire(&mut self, now: Moment, timeout: Duration) -> Vec<Begun> {
        self.last_seen.retain(|_, last_seen| now.since(*last_seen) < timeout);
        let is_gone = |(client, _): &&(ClientId, Token)| !self.last_seen.contains_key(client);
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
    fn decided_start_keeps_its_snapshot_open() {
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
    fn snapshots_forgotten_by_their_owner_are_closed() {
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
    fn snapshots_of_silent_processes_are_closed() {
        let second = |seconds| Moment(Duration::from_secs(seconds));
        let begun = |start| Begun {
            read: Timestamp::ZERO,
            start: Timestamp::new(start),
            slot: Slot(0),
            schema: Timestamp::ZERO,
        };
        let mut clients = Clients::default();
        clients.seen(ClientId(1), second(0));
        clients.seen(ClientId(2), second(0));
        clients.opened(ClientId(1), Token(1), begun(5), second(0));
        clients.opened(ClientId(2), Token(1), begun(6), second(0));
        let oldest = clients.oldest().unwrap();
        assert_eq!((oldest.0, oldest.2), (ClientId(1), second(0)));
        clients.seen(ClientId(2), second(20));
        assert_eq!(clients.expire(second(30), Duration::from_secs(30)), [begun(5)]);
        assert_eq!(clients.oldest_start(), Timestamp::new(6));
        assert_eq!(clients.expire(second(31), Duration::from_secs(30)), []);
    }
}
