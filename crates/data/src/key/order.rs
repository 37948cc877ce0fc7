//! Order of a clustering column.

/// Order of a clustering column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest value first.
    #[default]
    Asc,
    /// The largest value first.
    Desc,
}

impl Order {
    /// Returns the byte that each byte of an ascending encoding is XORed with.
    pub(super) const fn mask(self) -> u8 {
        match self {
            Self::Asc => 0x00,
            Self::Desc => 0xff,
        }
    }
}
