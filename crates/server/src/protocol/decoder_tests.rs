use bytes::BufMut;

use super::*;
use crate::protocol::Opcode;

const MIB: usize = 1 << 20;

fn plain(version: u8, stream: i16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, 0];
    out.put_i16(stream);
    out.put_u8(Opcode::Query as u8);
    out.put_i32(i32::try_from(body.len()).unwrap());
    out.put_slice(body);
    out
}

fn decoder(budget: usize) -> FrameDecoder {
    FrameDecoder::new(MemoryBudget::new(budget), MIB)
}

fn v5_decoder(budget: usize, lz4: bool) -> FrameDecoder {
    let mut decoder = decoder(budget);
    decoder.negotiated(Version::V5, lz4);
    decoder
}

/// Decodes the bytes in pieces, and returns the streams and bodies of the frames.
fn decode(decoder: &mut FrameDecoder, bytes: &[u8], piece: usize) -> Vec<(i16, Bytes)> {
    let mut inbox = BytesMut::new();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        inbox.extend_from_slice(piece);
        while let Some(decoded) = decoder.next(&mut inbox).unwrap() {
            match decoded {
                Decoded::Frame(frame) => frames.push((frame.header.stream, frame.body)),
                Decoded::Shed(header) => frames.push((-header.stream, Bytes::new())),
            }
        }
    }
    assert!(!decoder.is_mid_frame(&inbox));
    frames
}

#[test]
fn plain_frames_are_decoded_from_any_pieces() {
    let bytes = [plain(4, 1, b"abc"), plain(4, 2, b""), plain(4, 3, &[7; 1000])].concat();
    for piece in [1, 2, 9, 100, 10_000] {
        let frames = decode(&mut decoder(MIB), &bytes, piece);
        let want = [
            (1, Bytes::from_static(b"abc")),
            (2, Bytes::new()),
            (3, Bytes::from_static(&[7; 1000])),
        ];
        assert_eq!(frames, want);
    }
}

#[test]
fn segments_hold_several_frames_or_a_part_of_one() {
    for lz4 in [false, true] {
        let long = vec![9; 300_000];
        let mut bytes = BytesMut::new();
        let pair = [plain(5, 1, b"abc"), plain(5, 2, b"d")].concat();
        segment::put(&mut bytes, &pair, true, lz4);
        let long_frame = plain(5, 3, &long);
        // The first part is shorter than a header.
        segment::put(&mut bytes, &long_frame[..4], false, lz4);
        for part in long_frame[4..].chunks(segment::PAYLOAD_LEN_MAX) {
            segment::put(&mut bytes, part, false, lz4);
        }
        segment::put(&mut bytes, &plain(5, 4, b"e"), true, lz4);
        for piece in [7, 1 << 20] {
            let frames = decode(&mut v5_decoder(MIB, lz4), &bytes, piece);
            let want = [
                (1, Bytes::from_static(b"abc")),
                (2, Bytes::from_static(b"d")),
                (3, Bytes::from(long.clone())),
                (4, Bytes::from_static(b"e")),
            ];
            assert_eq!(frames, want);
        }
    }
}

#[test]
fn frame_over_the_budget_is_shed_without_memory() {
    let mut bytes = plain(4, 1, &[0; 5000]);
    bytes.extend(plain(4, 2, b"small"));
    let mut plain_decoder = decoder(100);
    let mut inbox = BytesMut::new();
    let mut most = 0;
    let mut found = Vec::new();
    for piece in bytes.chunks(64) {
        inbox.extend_from_slice(piece);
        while let Some(decoded) = plain_decoder.next(&mut inbox).unwrap() {
            found.push(match decoded {
                Decoded::Frame(frame) => ("frame", frame.header.stream),
                Decoded::Shed(header) => ("shed", header.stream),
            });
        }
        most = most.max(inbox.len());
    }
    assert_eq!(found, [("shed", 1), ("frame", 2)]);
    assert!(most < 64, "{most} bytes were kept");

    let mut segments = BytesMut::new();
    let long = plain(5, 1, &vec![0; 200_000]);
    for part in long.chunks(segment::PAYLOAD_LEN_MAX) {
        segment::put(&mut segments, part, false, false);
    }
    segment::put(&mut segments, &[plain(5, 2, &[0; 200]), plain(5, 3, b"s")].concat(), true, false);
    let mut decoder = v5_decoder(100, false);
    let frames = decode(&mut decoder, &segments, 1000);
    assert_eq!(frames, [(-1, Bytes::new()), (-2, Bytes::new()), (3, Bytes::from_static(b"s"))]);
    assert!(decoder.collected.capacity() <= 64);
}

#[test]
fn budget_is_held_until_the_frame_is_dropped() {
    let budget = MemoryBudget::new(100);
    let mut decoder = FrameDecoder::new(budget.clone(), MIB);
    let mut inbox = BytesMut::from(&plain(4, 1, &[0; 80])[..40]);
    assert!(decoder.next(&mut inbox).unwrap().is_none());
    assert_eq!(budget.used(), 80, "charged once a part has arrived");
    inbox.extend_from_slice(&plain(4, 1, &[0; 80])[40..]);
    let frame = decoder.next(&mut inbox).unwrap();
    assert_eq!(budget.used(), 80);
    drop(frame);
    assert_eq!(budget.used(), 0);
    assert!(decoder.next(&mut BytesMut::from(&plain(4, 1, &[0; 80])[..40])).unwrap().is_none());
    drop(decoder);
    assert_eq!(budget.used(), 0, "a connection that ends gives its bytes back");
}

#[test]
fn announced_bytes_are_not_charged() {
    let budget = MemoryBudget::new(16 * MIB);
    let mut decoders = Vec::new();
    for _ in 0..16 {
        let mut decoder = FrameDecoder::new(budget.clone(), MIB);
        let mut inbox = BytesMut::from(&plain(4, 1, &vec![0; MIB])[..14]);
        assert!(decoder.next(&mut inbox).unwrap().is_none());
        assert_eq!(decoder.announced(), MIB);
        decoders.push(decoder);
    }
    assert_eq!(budget.used(), 16 * 5);
    let frame = decoder_within(&budget).next(&mut BytesMut::from(&plain(4, 2, &[0; 100])[..]));
    assert!(matches!(frame, Ok(Some(Decoded::Frame(_)))));
    drop(frame);

    let mut parts = BytesMut::new();
    let long = plain(5, 1, &vec![0; MIB]);
    segment::put(&mut parts, &long[..HEADER_LEN + 1000], false, false);
    let mut segmented = decoder_within(&budget);
    segmented.negotiated(Version::V5, false);
    assert!(segmented.next(&mut parts).unwrap().is_none());
    assert_eq!(budget.used(), 16 * 5 + 1000);
}

fn decoder_within(budget: &MemoryBudget) -> FrameDecoder {
    FrameDecoder::new(budget.clone(), MIB)
}

/// A request of 150,000 bytes, in two parts.
fn in_two_parts(segments: bool, first_len: usize) -> [BytesMut; 2] {
    let frame = plain(if segments { 5 } else { 4 }, 1, &[7; 150_000]);
    let (first, rest) = frame.split_at(first_len);
    [first, rest].map(|part| {
        let mut bytes = BytesMut::new();
        for part in part.chunks(segment::PAYLOAD_LEN_MAX) {
            match segments {
                true => segment::put(&mut bytes, part, false, false),
                false => bytes.extend_from_slice(part),
            }
        }
        bytes
    })
}

/// Many clients that each send a long request at once would otherwise fill the memory with parts.
#[test]
fn body_is_charged_once_a_sixteenth_has_arrived() {
    let budget = MemoryBudget::new(200_000);
    for segments in [false, true] {
        for (first_len, charged) in [(9_000, 9_000 - HEADER_LEN), (10_000, 150_000)] {
            let mut decoder = decoder_within(&budget);
            if segments {
                decoder.negotiated(Version::V5, false);
            }
            let [mut first, _] = in_two_parts(segments, first_len);
            assert!(decoder.next(&mut first).unwrap().is_none());
            assert_eq!((budget.used(), decoder.waits()), (charged, false));
        }
    }
}

#[test]
fn frame_without_memory_waits_for_it() {
    let budget = MemoryBudget::new(200_000);
    for (segments, first_len) in [(false, 1_000), (false, 150_009), (true, 1_000), (true, 150_009)]
    {
        let mut decoder = decoder_within(&budget);
        if segments {
            decoder.negotiated(Version::V5, false);
        }
        let other = budget.charge(100_000).unwrap();
        let [mut inbox, rest] = in_two_parts(segments, first_len);
        assert!(decoder.next(&mut inbox).unwrap().is_none());
        inbox.unsplit(rest);
        for _ in 0..3 {
            assert!(decoder.next(&mut inbox).unwrap().is_none());
            assert!(decoder.waits() && decoder.is_mid_frame(&inbox));
            assert!(budget.used() < 110_000, "little is charged while it waits");
        }
        drop(other);
        let Some(Decoded::Frame(frame)) = decoder.next(&mut inbox).unwrap() else {
            panic!("there is memory")
        };
        assert_eq!(&frame.body[..], &[7; 150_000]);
        assert!(!decoder.waits() && !decoder.is_mid_frame(&inbox));
    }
    // A segment of whole frames.
    let other = budget.charge(199_950).unwrap();
    let mut decoder = decoder_within(&budget);
    decoder.negotiated(Version::V5, false);
    let mut inbox = BytesMut::new();
    let frames = [plain(5, 1, b"short"), plain(5, 2, &[0; 60]), plain(5, 3, b"s")].concat();
    segment::put(&mut inbox, &frames, true, false);
    let mut next = || decoder.next(&mut inbox).unwrap();
    assert!(matches!(next(), Some(Decoded::Frame(frame)) if frame.header.stream == 1));
    assert!(next().is_none() && next().is_none());
    drop(other);
    assert!(matches!(next(), Some(Decoded::Frame(frame)) if frame.header.stream == 2));
    assert!(matches!(next(), Some(Decoded::Frame(frame)) if frame.header.stream == 3));
}

#[test]
fn frame_that_waited_too_long_is_shed() {
    let budget = MemoryBudget::new(200_000);
    for (segments, first_len) in [(false, 1_000), (false, 150_009), (true, 1_000), (true, 150_009)]
    {
        let mut decoder = decoder_within(&budget);
        if segments {
            decoder.negotiated(Version::V5, false);
        }
        let _other = budget.charge(199_990).unwrap();
        let [mut inbox, rest] = in_two_parts(segments, first_len);
        assert!(decoder.next(&mut inbox).unwrap().is_none());
        assert!(decoder.waits());
        decoder.give_up();
        assert_eq!((budget.used(), decoder.waits()), (199_990, false));
        inbox.unsplit(rest);
        let decoded = std::iter::from_fn(|| decoder.next(&mut inbox).unwrap()).next();
        assert!(matches!(decoded, Some(Decoded::Shed(header)) if header.stream == 1));
        assert!(!decoder.is_mid_frame(&inbox));
    }
    let _other = budget.charge(199_990).unwrap();
    let mut decoder = decoder_within(&budget);
    decoder.negotiated(Version::V5, false);
    let mut inbox = BytesMut::new();
    segment::put(&mut inbox, &[plain(5, 1, &[0; 60]), plain(5, 2, b"s")].concat(), true, false);
    assert!(decoder.next(&mut inbox).unwrap().is_none());
    decoder.give_up();
    let mut next = || decoder.next(&mut inbox).unwrap();
    assert!(matches!(next(), Some(Decoded::Shed(header)) if header.stream == 1));
    assert!(matches!(next(), Some(Decoded::Frame(frame)) if frame.header.stream == 2));
}

#[test]
fn v4_bodies_are_decompressed_only_if_negotiated() {
    let body = b"select ".repeat(200);
    let compressed = compression::compress_prefixed(&body).unwrap();
    let mut bytes = plain(4, 1, &compressed);
    bytes[1] = flags::COMPRESSION;
    let mut negotiated = decoder(MIB);
    negotiated.negotiated(Version::V4, true);
    assert_eq!(decode(&mut negotiated, &bytes, 100), [(1, Bytes::from(body))]);
    let error = decoder(MIB).next(&mut BytesMut::from(&bytes[..])).unwrap_err();
    assert!(error.to_string().contains("no compression"));
    // The same bytes, with a budget for their compressed form only.
    let mut small = decoder(compressed.len());
    small.negotiated(Version::V4, true);
    assert_eq!(decode(&mut small, &bytes, 100), [(-1, Bytes::new())]);
}

#[test]
fn invalid_segments_are_refused() {
    let refused = |pieces: &[(&[u8], bool)]| {
        let mut bytes = BytesMut::new();
        for (payload, whole) in pieces {
            segment::put(&mut bytes, payload, *whole, false);
        }
        let mut decoder = v5_decoder(MIB, false);
        loop {
            match decoder.next(&mut bytes) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("taken: {pieces:?}"),
                Err(e) => return e.to_string(),
            }
        }
    };
    let frame = plain(5, 1, b"abc");
    assert!(refused(&[(&frame[..11], true)]).contains("ends within one"));
    assert!(refused(&[(&frame[..5], true)]).contains("ends within one"));
    assert!(refused(&[(&frame[..11], false), (&frame, true)]).contains("between the parts"));
    assert!(refused(&[(&frame[..3], false), (&frame, true)]).contains("between the parts"));
    assert!(refused(&[(&[&frame[..], b"x"].concat(), false)]).contains("last segment"));
    assert!(refused(&[(&plain(4, 1, b""), true)]).contains("version 4"));
}

#[test]
fn connection_keeps_its_version() {
    let mut decoder = decoder(MIB);
    decoder.negotiated(Version::V4, false);
    let error = decoder.next(&mut BytesMut::from(&plain(5, 1, b"")[..])).unwrap_err();
    assert!(error.to_string().contains("speaks version 4"));
}

#[test]
fn body_above_the_limit_is_refused_by_its_header() {
    let mut header = plain(4, 1, b"");
    header[5..9].copy_from_slice(&(1 << 20 | 1_i32).to_be_bytes());
    let error = decoder(usize::MAX).next(&mut BytesMut::from(&header[..])).unwrap_err();
    assert!(error.to_string().contains("1048577 bytes; 1048576"), "{error}");
}

/// Makes the body of a query with nulls.
fn query_with_nulls(version: u8, count: u16) -> Vec<u8> {
    let flags: &[u8] = if version == 4 { b"\x01" } else { b"\0\0\0\x01" };
    let mut body = [&b"\0\0\0\x01x\0\x01"[..], flags].concat();
    body.put_u16(count);
    body.extend(std::iter::repeat_n(0xff, 4 * usize::from(count)));
    body
}

/// Decoded nulls take ten times the bytes that they have in a request.
#[test]
fn values_are_charged_before_they_are_decoded() {
    let query = |stream| plain(4, stream, &query_with_nulls(4, 10_000));
    let budget = MemoryBudget::new(MIB);
    let mut decoder = FrameDecoder::new(budget.clone(), MIB);
    let mut inbox = BytesMut::from(&[query(1), query(2), query(3)].concat()[..]);
    let mut next = |decoder: &mut FrameDecoder| decoder.next(&mut inbox).unwrap();
    let Some(Decoded::Frame(first)) = next(&mut decoder) else { panic!("there is room") };
    let values = first.values.as_ref().unwrap().bytes();
    assert!(values > 8 * first.body.len(), "{values} bytes");
    assert_eq!(first.charge.bytes(), first.body.len(), "the size of the request is another thing");
    // A request whose body fits proceeds; the next body waits.
    let others = budget.charge(MIB - values - 100_000).unwrap();
    let Some(Decoded::Frame(second)) = next(&mut decoder) else { panic!("its body fits") };
    assert!(budget.used() > MIB);
    assert!(next(&mut decoder).is_none() && decoder.waits());
    drop((others, second));
    let Some(Decoded::Frame(third)) = next(&mut decoder) else { panic!("memory was freed") };
    assert_eq!((third.header.stream, decoder.waits()), (3, false));
    drop((first, third));
    assert_eq!(budget.used(), 0);
}
