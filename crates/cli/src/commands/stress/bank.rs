//! Transfers between accounts: whatever happens, their total stays.
//!
//! It is looked at by every reader, and in the end. Transfers have no place in a history of lists
//! and registers: their values are not told apart by who wrote them.

use anyhow::Result;
use carnet::base::{Rng, SeededRng};
use carnet_checker::invariant;

use super::client::{Answer, Target};

/// Few, so that transfers meet.
pub(super) const ACCOUNTS: i64 = 10;
/// What each account holds at the beginning.
pub(super) const BALANCE: i64 = 100;
const AMOUNT_MAX: u64 = 20;
/// So many per mille of all transactions look at every account.
const AUDITS: u64 = 250;

/// What a transaction does at the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Moves money, if the account has it.
    Transfer { from: i64, to: i64, amount: i64 },
    /// Reads every account.
    Audit,
}

impl Errand {
    pub(super) fn draw(rng: &mut SeededRng) -> Self {
        if rng.chance(AUDITS) {
            return Self::Audit;
        }
        let mut below = |limit: i64| rng.below(limit.unsigned_abs()).cast_signed();
        let from = below(ACCOUNTS);
        let to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS;
        Self::Transfer { from, to, amount: 1 + below(AMOUNT_MAX.cast_signed()) }
    }

    /// Runs it, and judges what it read.
    ///
    /// # Errors
    ///
    /// What makes it useless to go on.
    pub(super) fn run(self, target: &impl Target) -> Result<Answer<Result<(), String>>> {
        Ok(match self {
            Self::Transfer { from, to, amount } => target.transfer(from, to, amount)?.map(Ok),
            Self::Audit => {
                target.balances()?.map(|balances| invariant::bank(&balances, ACCOUNTS * BALANCE))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_pays_themselves() {
        let mut rng = SeededRng::new(1);
        let accounts = 0..ACCOUNTS;
        for _ in 0..10_000 {
            if let Errand::Transfer { from, to, amount } = Errand::draw(&mut rng) {
                assert!(from != to && accounts.contains(&from) && accounts.contains(&to));
                assert!((1..=20).contains(&amount));
            }
        }
    }
}
