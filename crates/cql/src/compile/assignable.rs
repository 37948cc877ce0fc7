//! Types whose values are values of other types.

use carnet::DataType;

/// Returns `true` if values of a type are values of another one, because all their bytes are. These are
/// Cassandra's rules.
pub(super) fn is_assignable(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Ascii, Bigint, Blob, Int, Text, Timestamp, Timeuuid, Uuid, Varint};
    found == wanted
        || match wanted {
            Uuid => matches!(found, Timeuuid),
            Text => matches!(found, Ascii),
            Bigint => matches!(found, Timestamp),
            Timestamp => matches!(found, Bigint),
            // A varint of more bytes than it needs is the same number.
            Varint => matches!(found, Int | Bigint | Timestamp),
            Blob => !found.is_composite(),
            _ => false,
        }
}
