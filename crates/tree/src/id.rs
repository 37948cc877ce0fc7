//! Ids of transactors, attempts and nodes.

use std::fmt;

/// Id of a transactor: one handle during one run of a process. It is drawn at random from 64 bits,
/// so a restarted process has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactorId(pub u64);

impl fmt::Display for TransactorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Number of a transactor's attempt to move the root, from 1. An attempt ends before the next one
/// begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

impl Attempt {
    /// Maximum attempt: node ids have 39 bits for it.
    pub const MAX: Self = Self((1 << 39) - 1);
}

/// Id of a node; never reused.
///
/// It contains the node's transactor and attempt, from which garbage collection determines whether
/// a root may still come to reach the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The transactor that made the node.
    pub transactor: TransactorId,
    /// Attempt in the upper 40 bits, index of the node within the attempt in the others.
    number: u64,
}

impl NodeId {
    const INDEX_BITS: u32 = 24;

    /// Returns the id of the `index`-th node of an attempt; `None` from 2²⁴ nodes on.
    #[must_use]
    pub fn new(transactor: TransactorId, attempt: Attempt, index: u32) -> Option<Self> {
        let fits = attempt <= Attempt::MAX && u64::from(index) < 1 << Self::INDEX_BITS;
        let number = (attempt.0 << Self::INDEX_BITS) | u64::from(index);
        fits.then_some(Self { transactor, number })
    }

    /// Returns the attempt that made the node.
    #[must_use]
    pub const fn attempt(self) -> Attempt {
        Attempt(self.number >> Self::INDEX_BITS)
    }

    /// Returns the 16 bytes of the id: transactor and number, both big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.transactor.0) << 64) | u128::from(self.number)).to_be_bytes()
    }

    /// Decodes the result of [`NodeId::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let (transactor, number) = bytes.split_at(8);
        let number_of = |half: &[u8]| u64::from_be_bytes(half.try_into().expect("it has 8 bytes"));
        Self { transactor: TransactorId(number_of(transactor)), number: number_of(number) }
    }

    /// Parses the output of `Display`; `None` for other texts.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (transactor, number) = name.split_once('-')?;
        let id = Self {
            transactor: TransactorId(u64::from_str_radix(transactor, 16).ok()?),
            number: u64::from_str_radix(number, 16).ok()?,
        };
        // Each id has one text form: no capitals, signs or missing zeros.
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
    fn node_id_round_trips_and_is_unique() {
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
