//! Names: of transactors, of their attempts to move the root, of nodes.

use std::fmt;

/// Names a transactor: one life of one handle. Drawn at random from 64 bits, so that a process
/// that starts again is somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactorId(pub u64);

impl fmt::Display for TransactorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Numbers a transactor's attempts to move the root, from 1. One attempt has ended, whatever its
/// outcome, before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

impl Attempt {
    /// The largest attempt: node ids have 39 bits for it.
    pub const MAX: Self = Self((1 << 39) - 1);
}

/// Names a node, for ever: no name is used twice.
///
/// It tells who made the node and in which attempt, by which garbage collection knows whether a
/// root may still come to name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// Who made it.
    pub transactor: TransactorId,
    /// The attempt in the upper 40 bits, the node's place among that attempt's nodes below.
    number: u64,
}

impl NodeId {
    const INDEX_BITS: u32 = 24;

    /// Names the `index`-th node of an attempt; `None` beyond 2²⁴ nodes.
    #[must_use]
    pub fn new(transactor: TransactorId, attempt: Attempt, index: u32) -> Option<Self> {
        let fits = attempt <= Attempt::MAX && u64::from(index) < 1 << Self::INDEX_BITS;
        let number = (attempt.0 << Self::INDEX_BITS) | u64::from(index);
        fits.then_some(Self { transactor, number })
    }

    /// Returns the attempt in which the node was made.
    #[must_use]
    pub const fn attempt(self) -> Attempt {
        Attempt(self.number >> Self::INDEX_BITS)
    }

    /// Returns the 16 bytes of the name: transactor, then number, both big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.transactor.0) << 64) | u128::from(self.number)).to_be_bytes()
    }

    /// Reads what [`NodeId::to_bytes`] writes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let (transactor, number) = bytes.split_at(8);
        let number_of = |half: &[u8]| u64::from_be_bytes(half.try_into().expect("it has 8 bytes"));
        Self { transactor: TransactorId(number_of(transactor)), number: number_of(number) }
    }

    /// Reads what `Display` writes; `None` where it is something else.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (transactor, number) = name.split_once('-')?;
        let id = Self {
            transactor: TransactorId(u64::from_str_radix(transactor, 16).ok()?),
            number: u64::from_str_radix(number, 16).ok()?,
        };
        // One node has one name: no capitals, signs or missing zeros.
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.transactor, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_has_one_spelling() {
        let id = NodeId::new(TransactorId(0xab), Attempt(3), 5).unwrap();
        assert_eq!(id.to_string(), "00000000000000ab-0000000003000005");
        assert_eq!(NodeId::parse(&id.to_string()), Some(id));
        assert_eq!(NodeId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.attempt(), Attempt(3));
        for other in ["", "ab-3000005", "00000000000000AB-0000000003000005", "x-y", "-"] {
            assert_eq!(NodeId::parse(other), None, "{other}");
        }
        assert_eq!(NodeId::new(TransactorId(1), Attempt(1), 1 << 24), None);
    }
}
