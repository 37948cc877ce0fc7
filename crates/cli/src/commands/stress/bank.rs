//! Transfers between accounts: whatever happens, their total stays.
//!
//! It is looked at by every reader, and in the end. Transfers have no place in a history of lists
//! and registers: their values are not told apart by who wrote them.

use anyhow::{Result, bail};
use carnet::base::{Rng, SeededRng};

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

    /// Runs it.
    ///
    /// # Errors
    ///
    /// The total is another one, and what makes it useless to go on.
    pub(super) fn run(self, target: &impl Target) -> Result<Answer<()>> {
        match self {
            Self::Transfer { from, to, amount } => target.transfer(from, to, amount),
            Self::Audit => Ok(match target.balances()? {
                Answer::Committed(balances) => Answer::Committed(audit(&balances)?),
                Answer::Aborted => Answer::Aborted,
                Answer::Unknown => Answer::Unknown,
            }),
        }
    }
}

fn audit(balances: &[i64]) -> Result<()> {
    let (total, due) = (balances.iter().sum::<i64>(), ACCOUNTS * BALANCE);
    if total != due {
        bail!("the accounts hold {total} of {due}: {balances:?}");
    }
    if balances.iter().any(|balance| *balance < 0) {
        bail!("an account holds less than nothing: {balances:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_sees_what_is_missing() {
        let mut balances = vec![BALANCE; 10];
        assert!(audit(&balances).is_ok());
        balances[3] -= 1;
        assert!(audit(&balances).unwrap_err().to_string().contains("hold 999 of 1000"));
        balances[4] += 1;
        assert!(audit(&balances).is_ok());
        balances[3] -= 2 * BALANCE;
        balances[4] += 2 * BALANCE;
        assert!(audit(&balances).unwrap_err().to_string().contains("less than nothing"));
    }

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
