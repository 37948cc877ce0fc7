//! Memory of a statement's values once they are decoded.
//!
//! A null takes 4 bytes of a request and ten times as much as a decoded value, so a batch of nulls would hold ten
//! times its charge. The values are counted before they are decoded, in bodies of more than 512 bytes.

use bytes::Bytes;
use carnet_cql::Bound;

use super::frame::{RequestHeader, flags};
use super::reader::BodyReader;
use super::statement::{BatchItem, param, param_flags};
use super::types::Consistency;
use super::{Opcode, ProtocolError};

/// Bytes of a body up to which the decoded values are not charged: they take some 6 KiB at most.
const SMALL_BYTES: usize = 512;
/// Bytes of the shortest value in a request.
const NULL_BYTES: usize = 4;

/// Returns the memory in bytes that the values of a request take beside its body; zero for a request that cannot be
/// decoded.
pub(super) fn of_values(header: RequestHeader, body: &Bytes) -> usize {
    if body.len() <= SMALL_BYTES {
        return 0;
    }
    bytes(header, BodyReader::new(body.clone())).unwrap_or_default()
}

fn bytes(header: RequestHeader, mut reader: BodyReader) -> Result<usize, ProtocolError> {
    if header.has(flags::CUSTOM_PAYLOAD) {
        reader.skip_bytes_map("the custom payload")?;
    }
    match header.opcode {
        Opcode::Query => drop(reader.long_bytes("the query")?),
        Opcode::Execute => {
            reader.short_bytes("the statement's id")?;
            if header.version >= super::Version::V5 {
                reader.short_bytes("the result's id")?;
            }
        }
        Opcode::Batch => return of_batch(reader),
        _ => return Ok(0),
    }
    Consistency::read(&mut reader)?;
    let flags = param_flags(&mut reader, header.version, "a statement")?;
    if flags & param::VALUES == 0 {
        return Ok(0);
    }
    let count = usize::from(reader.short("the number of values")?);
    let is_named = flags & param::NAMES != 0;
    let value = if is_named { size_of::<(String, Bound)>() } else { size_of::<Bound>() };
    // More values than can follow are an error when they are decoded.
    Ok(count.min(reader.left() / NULL_BYTES) * value)
}

fn of_batch(mut reader: BodyReader) -> Result<usize, ProtocolError> {
    reader.byte("the kind of batch")?;
    let items = reader.short("the number of statements")?;
    let mut count: usize = 0;
    for _ in 0..items {
        match reader.byte("the kind of a batch's statement")? {
            0 => drop(reader.long_bytes("the query")?),
            _ => drop(reader.short_bytes("the statement's id")?),
        }
        let values = usize::from(reader.short("the number of values")?);
        for _ in 0..values {
            reader.skip_value("a value")?;
        }
        count += values;
    }
    Ok(count * size_of::<Bound>() + usize::from(items) * size_of::<BatchItem>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Version;

    const VALUE: usize = size_of::<Bound>();

    fn header(version: Version, opcode: Opcode, body: &[u8]) -> RequestHeader {
        RequestHeader { version, flags: 0, stream: 1, opcode, body_len: body.len() }
    }

    fn of(version: Version, opcode: Opcode, body: &[u8]) -> usize {
        of_values(header(version, opcode, body), &Bytes::copy_from_slice(body))
    }

    #[test]
    fn values_of_statements_and_batches_are_counted() {
        let nulls = |count: usize| {
            let mut list = u16::try_from(count).unwrap().to_be_bytes().to_vec();
            list.extend(std::iter::repeat_n(0xff, 4 * count));
            list
        };
        let query = [&b"\0\0\0\x01x\0\x01\x01"[..], &nulls(2_000)].concat();
        assert_eq!(of(Version::V4, Opcode::Query, &query), 2_000 * VALUE);
        let execute = [&b"\0\x01x\0\x01y\0\x01\0\0\0\x01"[..], &nulls(3_000)].concat();
        assert_eq!(of(Version::V5, Opcode::Execute, &execute), 3_000 * VALUE);
        let prepared = [&b"\x01\0\x01x"[..], &nulls(1_500)].concat();
        let text = [&b"\0\0\0\0\x01x"[..], &nulls(700)].concat();
        let batch = [&b"\0\0\x02"[..], &prepared, &text, b"\0\x01\0"].concat();
        let of_items = 2 * size_of::<BatchItem>();
        assert_eq!(of(Version::V4, Opcode::Batch, &batch), 2_200 * VALUE + of_items);
        assert_eq!(of(Version::V4, Opcode::Batch, &batch[..5_000]), 0, "it cannot be decoded");
        assert_eq!(of(Version::V4, Opcode::Prepare, &query), 0);
        assert_eq!(of(Version::V4, Opcode::Query, &query[..512]), 0, "a small one");
        assert_ne!(of(Version::V4, Opcode::Query, &query[..513]), 0);
        let announced = [&b"\0\0\0\x01x\0\x01\x01\xff\xff"[..], &[0; 5_000]].concat();
        assert_eq!(of(Version::V4, Opcode::Query, &announced), 1_250 * VALUE, "no more can follow");
    }
}
