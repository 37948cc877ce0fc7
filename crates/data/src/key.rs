//! Order-preserving bytes of clustering keys.
//!
//! A clustering key is a tuple of values, each of a column that is ordered `ASC` or `DESC`. Its
//! encoding is the concatenation of its components' encodings, and comparing two encodings byte by
//! byte gives the same result as Cassandra's comparators give for the values:
//!
//! | type | bytes of an `ASC` component | why that order |
//! | --- | --- | --- |
//! | `tinyint`, `smallint`, `int`, `bigint`, `timestamp` | 1, 2, 4, 8, 8: big-endian, sign bit flipped | signed |
//! | `date`, `time` | 4, 8: big-endian | unsigned |
//! | `boolean` | 1: 0 or 1 | false first |
//! | `float`, `double` | 4, 8: positive: sign bit set; negative: all bits flipped | −∞ … −0.0, 0.0 … ∞, NaN; every NaN is written alike |
//! | `text`, `ascii`, `blob` | each 0x00 becomes `00 FF`; then `00 00` | unsigned bytes, a prefix first |
//! | `inet` | 4 bytes, then `00`, or `01` and the other 12; an IPv4-mapped IPv6 address is the IPv4 address | unsigned bytes, a prefix first |
//! | `list`, `set`, `map` | for each item `01`, then its encoding (of a map its key's, then its value's); then `00` | part by part, a prefix first |
//! | `vector` | its elements | element by element |
//! | `tuple`, user-defined type with [all fields](crate::FieldKeys::All) | for each field `00` for null, or `01` and its encoding | null first |
//! | user-defined type with [open](crate::FieldKeys::Open) keys | for each field up to the last with a value `01` for null, or `02` and its encoding; then `00` | null first, and so are fields that were added later |
//! | `varint`, `decimal` | length or exponent, then bytes or digits, in `key/number.rs` | by number: 1.0 and 1.00 are the same key |
//! | `uuid` | 16: version, then the time where that is 1, else the first half; then the second half | as `UUIDType` |
//! | `timeuuid` | 16: the time, then the second half with each byte's sign bit flipped | as `TimeUUIDType`, which compares *signed* bytes |
//!
//! A `DESC` component is the same with every bit flipped. For example `('a', 3)` of
//! `(text ASC, int DESC)`:
//!
//! ```text
//! 61 00 00   7f ff ff fc
//! 'a' end    !(80 00 00 03)
//! ```
//!
//! Three properties hold, and all conversions of restrictions into ranges rely on them:
//!
//! * **A component's encoding is never a prefix of another's.** So the keys that begin with given
//!   components are exactly the keys whose bytes begin with the encoding of those, ascending or
//!   descending: [`prefix_range`] and [`slice()`] are exact.
//! * **A component takes at least one byte.** So no key is empty: the empty byte string names the
//!   static columns, and every function here excludes it.
//! * **Equal values have equal bytes**, and the decoder accepts only bytes that the encoder writes.
//!
//! Deliberately absent: `duration`, which has no order in Cassandra, and `counter`, alone or within
//! another type. They are rejected as clustering columns
//! ([`is_key_type`](crate::value::DataType::is_key_type)).

mod component;
mod number;
mod order;
mod reader;
mod slice;
mod tuple;

#[cfg(test)]
mod comparators;
#[cfg(test)]
mod tests;

pub(crate) use number::least_scale;
pub use order::Order;
pub use slice::{ByteBounds, prefix_range, prefix_successor, slice};
pub use tuple::{decode, decode_each, decode_first, decode_prefix, encode, encode_into};
