//! Transfers between accounts, whose total is invariant.
//!
//! Every reading transaction checks the total, and so does the final read. Transfers are not part
//! of a history of lists and registers: their values do not identify their writers.

use anyhow::Result;
use carnet_base::{Rng, SeededRng};
use carnet_checker::invariant;

use super::target::{Target, TransactionOutcome};

/// Number of accounts; small, so that transfers conflict.
pub(super) const ACCOUNTS: i64 = 10;
/// Initial balance of each account.
pub(super) const BALANCE: i64 = 100;
const AMOUNT_MAX: u64 = 20;
/// Number of audits per 1,000 transactions.
const AUDITS: u64 = 250;

/// Operation of a transaction on the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BankOperation {
    /// Moves money, if the account has it.
    Transfer { from: i64, to: i64, amount: i64 },
    /// Reads every account.
    Audit,
}

impl BankOperation {
    pub(super) fn draw(rng: &mut SeededRng) -> Self {
        if rng.chance(AUDITS) {
            return Self::Audit;
        }
        let mut below = |limit: i64| rng.below(limit.unsigned_abs()).cast_signed();
        let from = below(ACCOUNTS);
        let to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS;
        Self::Transfer { from, to, amount: 1 + below(AMOUNT_MAX.cast_signed()) }
    }

    /// Runs the operation and checks the values that it read.
    ///
    /// # Errors
    ///
    /// Errors that end the run.
    pub(super) fn run(
        self,
        target: &impl Target,
    ) -> Result<TransactionOutcome<Result<(), String>>> {
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
    fn transfers_have_two_distinct_accounts() {
        let mut rng = SeededRng::new(1);
        let accounts = 0..ACCOUNTS;
        for _ in 0..10_000 {
            if let BankOperation::Transfer { from, to, amount } = BankOperation::draw(&mut rng) {
                assert!(from != to && accounts.contains(&from) && accounts.contains(&to));
                assert!((1..=20).contains(&amount));
            }
        }
    }
}
