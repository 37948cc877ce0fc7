//! Helpers for the tests of this crate.

use bytes::Bytes;

use crate::{Rng, SeededRng};

/// Reads a file of golden vectors.
pub(crate) fn vectors(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Reads hexadecimal digits.
pub(crate) fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// Draws up to `len_max` bytes, half of the time from values that codecs treat specially.
pub(crate) fn random_bytes(rng: &mut SeededRng, len_max: u64) -> Vec<u8> {
    const SPECIAL: [u8; 8] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0x81, 0xfe, 0xff];
    let special = rng.chance(500);
    let len = rng.below(len_max + 1);
    (0..len)
        .map(|_| {
            let [first, ..] = rng.next_u64().to_be_bytes();
            if special { SPECIAL[usize::from(first) % 8] } else { first }
        })
        .collect()
}

/// Runs a test with thousands of seeds, or only with `CARNET_SEED` if that is set.
pub(crate) fn with_seeds(test: impl Fn(&mut SeededRng)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {0}: set CARNET_SEED={0} to replay it alone", self.0);
            }
        }
    }
    let seeds = match std::env::var("CARNET_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("CARNET_SEED is a number");
            seed..=seed
        }
        Err(_) => 0..=9_999,
    };
    for seed in seeds {
        let seed = Seed(seed);
        test(&mut SeededRng::new(seed.0));
    }
}

/// Calls a decoder with random bytes, and with damaged valid ones.
pub(crate) fn fuzz(good: &[Bytes], decode: impl Fn(&[u8])) {
    with_seeds(|rng| {
        decode(&random_bytes(rng, 40));
        let picked = usize::try_from(rng.below(good.len() as u64)).unwrap();
        let mut bytes = good[picked].to_vec();
        for _ in 0..=rng.below(3) {
            damage(rng, &mut bytes);
        }
        decode(&bytes);
    });
}

fn damage(rng: &mut SeededRng, bytes: &mut Vec<u8>) {
    let at = usize::try_from(rng.below(bytes.len() as u64 + 1)).unwrap();
    match rng.below(4) {
        0 => bytes.truncate(at),
        1 => {
            let more = random_bytes(rng, 4);
            bytes.splice(at..at, more);
        }
        2 if at < bytes.len() => {
            bytes.remove(at);
        }
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}
