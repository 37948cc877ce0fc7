//! Values of operands.

use carnet_base::Bytes;

/// Value of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evaluated {
    Bytes(Bytes),
    Null,
    /// No value: the client left the marker unset.
    Unset,
}
