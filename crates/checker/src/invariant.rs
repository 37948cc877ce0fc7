//! What must hold in every state that anybody can read, in workloads that were made to break it.
//!
//! Each follows from transactions that run one after another, and is lost to one anomaly: what
//! [`check`](crate::check) proves of a history, these see at a glance, also where clients write no
//! history down. Each returns what is wrong, in words.

/// Judges a bank: transfers leave the total of all accounts as it is, and nobody pays what he has
/// not. Lost updates and torn reads break it.
///
/// # Errors
///
/// The total is not `due`, or a balance is negative.
pub fn bank(balances: &[i64], due: i64) -> Result<(), String> {
    let total: i64 = balances.iter().sum();
    if total != due {
        return Err(format!("the accounts hold {total} of {due}: {balances:?}"));
    }
    if balances.iter().any(|balance| *balance < 0) {
        return Err(format!("an account holds less than nothing: {balances:?}"));
    }
    Ok(())
}

/// Judges a pair of doctors: each goes only while the other is on call. Two who look at the same
/// time and both go are *write skew*, which snapshot isolation allows.
///
/// # Errors
///
/// Both are gone.
pub fn on_call(pair: i64, gone: [bool; 2]) -> Result<(), String> {
    match gone {
        [true, true] => Err(format!("nobody of pair {pair} is on call")),
        _ => Ok(()),
    }
}

/// Judges a flight: whoever books counts the passengers before. Two who count at the same time and
/// both take the last seat, under names of their own, are *phantoms* to each other.
///
/// # Errors
///
/// There are more passengers than seats.
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
        assert!(bank(&balances, 200).unwrap_err().contains("less than nothing"));
    }

    #[test]
    fn one_of_two_stays_and_nobody_stands() {
        for gone in [[false, false], [true, false], [false, true]] {
            assert_eq!(on_call(7, gone), Ok(()));
        }
        assert!(on_call(7, [true, true]).unwrap_err().contains("pair 7"));
        assert_eq!(seated(7, 8, 8), Ok(()));
        assert!(seated(7, 9, 8).unwrap_err().contains("flight 7 has 9"));
    }
}
