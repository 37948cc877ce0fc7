//! Invariants of every readable state, for workloads designed to break them.
//!
//! Each follows from serial execution, and is violated by one anomaly. [`check`](crate::check)
//! proves such anomalies from a history; these invariants show them directly, also if clients
//! record no history. Each function returns a description of the violation.

/// Checks a bank: transfers keep the total of all accounts constant, and no balance is negative.
/// Lost updates and torn reads break it.
///
/// # Errors
///
/// If the total is not `due`, or a balance is negative.
pub fn bank(balances: &[i64], due: i64) -> Result<(), String> {
    let total: i64 = balances.iter().sum();
    if total != due {
        return Err(format!("the accounts hold {total} of {due}: {balances:?}"));
    }
    if balances.iter().any(|balance| *balance < 0) {
        return Err(format!("an account has a negative balance: {balances:?}"));
    }
    Ok(())
}

/// Checks a pair of doctors: each leaves only while the other is on call. If both check at the same
/// time and both leave, that is *write skew*, which snapshot isolation allows.
///
/// # Errors
///
/// If both are gone.
pub fn on_call(pair: i64, gone: [bool; 2]) -> Result<(), String> {
    match gone {
        [true, true] => Err(format!("no doctor of pair {pair} is on call")),
        _ => Ok(()),
    }
}

/// Checks a flight: a booking counts the passengers first. If two count at the same time and both
/// take the last seat, under different names, they are *phantoms* to each other.
///
/// # Errors
///
/// If there are more passengers than seats.
pub fn seated(flight: i64, passengers: usize, seats: usize) -> Result<(), String> {
    if passengers > seats {
        return Err(format!("flight {flight} has {passengers} passengers on {seats} seats"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_that_is_missing_or_owed_is_seen() {
        let mut balances = [20; 10];
        assert_eq!(bank(&balances, 200), Ok(()));
        balances[3] -= 1;
        assert!(bank(&balances, 200).unwrap_err().contains("hold 199 of 200"));
        balances[4] += 1;
        assert_eq!(bank(&balances, 200), Ok(()));
        balances[3] -= 20;
        balances[4] += 20;
        assert!(bank(&balances, 200).unwrap_err().contains("negative balance"));
    }

    #[test]
    fn doctors_and_seats_are_checked() {
        for gone in [[false, false], [true, false], [false, true]] {
            assert_eq!(on_call(7, gone), Ok(()));
        }
        assert!(on_call(7, [true, true]).unwrap_err().contains("pair 7"));
        assert_eq!(seated(7, 8, 8), Ok(()));
        assert!(seated(7, 9, 8).unwrap_err().contains("flight 7 has 9"));
    }
}
