//! Arbitrary bytes cause no panic, and no disproportionate memory.
//!
//! Every input is drawn from its own seed, which a failure prints: `CARNET_SEED=<seed> cargo test
//! -p carnet-server --test hostile_bytes` replays that input alone.
//!
//! The tests need a process to themselves: the allocator counts the bytes of all threads.

#![expect(clippy::unwrap_used, reason = "these are the tests' own hands")]

use std::alloc::System;
use std::panic;

use bytes::{Bytes, BytesMut};
use carnet_base::MemoryBudget;
use carnet_base::{Rng, SeededRng};
use carnet_cql::{Bound, Values};
use carnet_server::protocol::decoder::{Decoded, FrameDecoder};
use carnet_server::protocol::frame::{Frame, RequestHeader};
use carnet_server::protocol::head::Peek;
use carnet_server::protocol::segment::{self, PAYLOAD_LEN_MAX};
use carnet_server::protocol::{Opcode, Version, compression};
use carnet_server::{ProtocolRequest, Statement};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BODY_MAX: usize = 1 << 20;
const INPUTS: u64 = 100_000;

/// Returns the maximum bytes that decoding may allocate for this number of input (or expanded)
/// bytes.
///
/// A list has the largest multiple: four bytes of a body can be an item of 48 bytes in memory. The
/// constant allows for error messages.
fn allowance(len: usize) -> usize {
    32 * len + 4096
}

const RECORDINGS: [(&[u8], Version, bool); 5] = [
    (include_bytes!("recorded/python-v4-session.bin"), Version::V4, false),
    (include_bytes!("recorded/python-v4-lz4-session.bin"), Version::V4, true),
    (include_bytes!("recorded/python-v5-session.bin"), Version::V5, false),
    (include_bytes!("recorded/python-v5-control.bin"), Version::V5, false),
    (include_bytes!("recorded/python-v5-lz4-session.bin"), Version::V5, true),
];

/// Valid inputs from which hostile ones are made.
struct Corpus {
    recordings: Vec<(Vec<u8>, Version, bool)>,
    frames: Vec<(RequestHeader, Bytes)>,
}

impl Corpus {
    fn new() -> Self {
        let mut frames = Vec::new();
        for (recording, version, lz4) in RECORDINGS {
            decode(recording, None, version, lz4, &mut |frame| {
                frames.push((frame.header, frame.body.slice(..frame.body.len().min(4000))));
            });
        }
        assert!(frames.len() > 100, "{} requests", frames.len());
        let recordings = RECORDINGS.map(|(bytes, version, lz4)| (bytes.to_vec(), version, lz4));
        Self { recordings: recordings.to_vec(), frames }
    }
}

/// Decodes bytes until they end or violate a rule.
fn decode(
    bytes: &[u8],
    negotiated: Option<(Version, bool)>,
    version: Version,
    lz4: bool,
    take: &mut dyn FnMut(Frame),
) {
    let mut decoder = FrameDecoder::new(MemoryBudget::new(4 * BODY_MAX), BODY_MAX);
    if let Some((version, lz4)) = negotiated {
        decoder.negotiated(version, lz4);
    }
    let mut inbox = BytesMut::from(bytes);
    while let Ok(Some(decoded)) = decoder.next(&mut inbox) {
        if let Decoded::Frame(frame) = decoded {
            if frame.header.opcode == Opcode::Startup {
                decoder.negotiated(version, lz4);
            }
            take(frame);
        }
    }
}

fn index(rng: &mut SeededRng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap()
}

fn byte(rng: &mut SeededRng) -> u8 {
    const TELLING: [u8; 6] = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff];
    if rng.chance(500) { TELLING[index(rng, 6)] } else { rng.next_u64().to_be_bytes()[0] }
}

/// Changes a few bytes: overwrites, removes, repeats, cuts.
fn mutate(rng: &mut SeededRng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(6) {
        if bytes.is_empty() {
            bytes.push(byte(rng));
        }
        let at = index(rng, bytes.len());
        match rng.below(8) {
            0..=3 => bytes[at] = byte(rng),
            4 => {
                let value = byte(rng);
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(value);
            }
            5 => {
                bytes.remove(at);
            }
            6 => {
                let end = (at + 1 + index(rng, 16)).min(bytes.len());
                let copied = bytes[at..end].to_vec();
                bytes.splice(at..at, copied);
            }
            _ => bytes.truncate(at),
        }
    }
}

fn read(frame: &Frame) {
    let Ok(ProtocolRequest::Statement(head)) = ProtocolRequest::decode(frame) else { return };
    match (head.peek(), head.clone().decode()) {
        (Peek::Execute { id, values }, Ok(Statement::Execute { id: decoded, params, .. })) => {
            assert_eq!(*id, decoded);
            if let Values::Positional(bound) = &params.values {
                for (index, value) in bound.iter().enumerate() {
                    assert_eq!(values.list_len(index), list_len(value), "value {index}");
                }
            }
        }
        (peek, Ok(Statement::Query { text, .. })) => {
            assert_eq!(peek, Peek::of_text(text.as_bytes()));
        }
        (Peek::Prepare, Ok(Statement::Prepare { .. })) => {}
        (Peek::Batch, Ok(Statement::Batch(_))) | (_, Err(_)) => {}
        (peek, Ok(statement)) => panic!("{peek:?} of {statement:?}"),
    }
}

/// Returns the number of elements of a value that is a list.
fn list_len(value: &Bound) -> Option<usize> {
    let Bound::Bytes(bytes) = value else { return None };
    usize::try_from(i32::from_be_bytes(*bytes.first_chunk()?)).ok()
}

/// Makes an input from the seed, decodes it, and returns the number of bytes that justify
/// allocations.
fn attack(corpus: &Corpus, seed: u64) -> (usize, impl FnOnce()) {
    let mut rng = SeededRng::new(seed);
    let kind = rng.below(5);
    let (mut bytes, version, lz4) = corpus.recordings[index(&mut rng, 5)].clone();
    let (mut header, body) = corpus.frames[index(&mut rng, corpus.frames.len())].clone();
    let mut negotiated = None;
    match kind {
        // A whole connection, from its greeting on.
        0 => mutate(&mut rng, &mut bytes),
        // Random bytes.
        1 => {
            bytes = (0..rng.below(2000)).map(|_| byte(&mut rng)).collect();
            if rng.chance(800) {
                negotiated = Some((version, lz4));
            }
        }
        // Invalid frames in valid segments.
        2 => {
            let mut frames = vec![5, 0, 0, 1, header.opcode as u8];
            frames.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            frames.extend_from_slice(&body);
            mutate(&mut rng, &mut frames);
            let mut out = BytesMut::new();
            let part_len = 1 + index(&mut rng, frames.len().clamp(1, PAYLOAD_LEN_MAX));
            let whole = rng.chance(500);
            for part in frames.chunks(if whole { PAYLOAD_LEN_MAX } else { part_len }) {
                segment::put(&mut out, part, whole, lz4);
            }
            bytes = out.to_vec();
            negotiated = Some((Version::V5, lz4));
        }
        // An invalid body in a valid frame.
        3 => {
            bytes = body.to_vec();
            mutate(&mut rng, &mut bytes);
            if rng.chance(300) {
                header.opcode = Opcode::REQUESTS[index(&mut rng, 8)];
                header.version = if rng.chance(500) { Version::V4 } else { Version::V5 };
                header.flags = byte(&mut rng);
            }
            header.body_len = bytes.len();
        }
        // An lz4 block.
        _ => {
            bytes = compression::compress(&b"lz4 ".repeat(1 + index(&mut rng, 2000)))
                .unwrap_or_else(|| b"short".to_vec());
            mutate(&mut rng, &mut bytes);
        }
    }
    let expanded = if lz4 || kind == 4 { (bytes.len() * 255 + 64).min(4 * BODY_MAX) } else { 0 };
    let claimed = index(&mut rng, 1 << 20);
    let justified = allowance(bytes.len() + expanded);
    let run = move || match kind {
        0..=2 => decode(&bytes, negotiated, version, lz4, &mut |frame| read(&frame)),
        3 => {
            let charge = MemoryBudget::new(bytes.len()).charge(bytes.len()).unwrap();
            read(&Frame { header, body: Bytes::from(bytes), charge, values: None });
        }
        _ => {
            let _ = compression::decompress(&bytes, claimed);
        }
    };
    (justified, run)
}

/// The only test of this file, because the allocator counts for the whole process.
#[test]
fn hostile_bytes_cause_no_panic_or_large_allocation() {
    let corpus = Corpus::new();
    let seeds = match std::env::var("CARNET_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 1..=INPUTS,
    };
    for seed in seeds {
        let (justified, run) = attack(&corpus, seed);
        let region = Region::new(ALLOCATOR);
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(run)).is_err();
        let allocated = region.change().bytes_allocated;
        let replay = format!("replay with CARNET_SEED={seed}");
        assert!(!panicked, "a decoder panicked; {replay}");
        assert!(
            allocated <= justified,
            "{allocated} bytes were allocated where {justified} are justified; {replay}"
        );
    }
}
