//! Open and requested snapshots of this process.

use std::collections::BTreeMap;

use carnet_store::Slot;

use crate::message::Token;

/// Open and requested snapshots of this process.
#[derive(Default)]
pub(super) struct Open {
    tokens: u64,
    pub(super) slots: BTreeMap<Slot, Token>,
    pub(super) asked: BTreeMap<Token, ()>,
    /// The oldest token in use, as last sent to a leader.
    pub(super) reported: Token,
    next: u32,
}

impl Open {
    /// Draws the token of a snapshot that is requested.
    pub(super) fn ask(&mut self) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.asked.insert(token, ());
        token
    }

    pub(super) fn keep(&mut self, token: Token) -> Slot {
        while self.slots.contains_key(&Slot(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let slot = Slot(self.next);
        self.next = self.next.wrapping_add(1);
        self.slots.insert(slot, token);
        slot
    }

    /// Returns a token below which none is in use.
    pub(super) fn oldest(&self) -> Token {
        let next = Token(self.tokens + 1);
        self.asked.first_key_value().map_or(next, |(token, ())| *token)
    }
}
