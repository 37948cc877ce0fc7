//! The handshake: two processes verify that they belong to the same database.
//!
//! ```text
//!   client                                            server
//!   greeting: version, mode, incarnation sought, Nc ─▶
//!                                                   ◀─ greeting: version, mode, Ns
//!   proof: HMAC(secret, "client", both greetings)  ─▶  right proof? right incarnation?
//!                                                   ◀─ verdict, HMAC(secret, "server", all that)
//! ```
//!
//! * The secret is never sent. Each proof covers both nonces, so an old proof is worthless; the
//!   role, so a proof cannot be sent back to its author; version and mode, so an attacker in
//!   between cannot downgrade them; and, under TLS, bytes that only the two ends of this connection
//!   know (RFC 9266), so an attacker cannot relay between two connections.
//! * The client looks for one *incarnation* of a process, which it knows from the lease. A
//!   different incarnation at the same host and port may belong to another database: it is sent no
//!   requests.
//! * The first ten bytes of both greetings, magic and version, are the same in every version, so
//!   that incompatible processes can report the reason.
//!
//! If no secret is set the key is empty: a proof then only shows that the greetings arrived intact.

use std::io;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::binding::Binding;
use super::refusal::Refusal;
use super::security::Secret;
use super::version::VERSION;

const MAGIC: [u8; 8] = *b"CARNTSEQ";
/// Length of magic and version, which never change.
const PREFIX_BYTES: usize = 10;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

const MODE_OPEN: u8 = 0;
const MODE_SECRET: u8 = 1;

const WELCOME: u8 = 0;
const WRONG_SECRET: u8 = 1;
const ANOTHER: u8 = 2;

/// Random name of one incarnation of a process on the network.
pub(super) type Incarnation = [u8; 8];

/// Runs the client's side of the handshake, for the incarnation `sought`.
pub(super) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: Option<&Secret>,
    sought: Incarnation,
    binding: Binding,
) -> Result<(), Refusal> {
    let mut transcript = Transcript::new(secret, binding);
    let mut greeting = opening(secret);
    greeting.extend(sought);
    greeting.extend(nonce()?);
    stream.write_all(&greeting).await?;
    stream.flush().await?;
    transcript.add(&greeting);

    let their_mode = read_opening(stream, &mut transcript).await?;
    let _nonce: [u8; NONCE_BYTES] = read(stream, &mut transcript).await?;
    check_modes(secret, their_mode)?;
    stream.write_all(&transcript.proof(b"client")).await?;
    stream.flush().await?;

    let mut verdict = [0; 1 + PROOF_BYTES];
    stream.read_exact(&mut verdict).await?;
    let (verdict, proof) = (verdict[0], &verdict[1..]);
    transcript.add(&[verdict]);
    if verdict == WRONG_SECRET || !transcript.is_proof(b"server", proof) {
        return Err(Refusal::WrongSecret);
    }
    if verdict == WELCOME { Ok(()) } else { Err(Refusal::Another) }
}

/// Runs the server's side of the handshake.
pub(super) async fn welcome<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: Option<&Secret>,
    myself: Incarnation,
    binding: Binding,
) -> Result<(), Refusal> {
    let mut transcript = Transcript::new(secret, binding);
    let opened = read_opening(stream, &mut transcript).await;
    let mut greeting = opening(secret);
    greeting.extend(nonce()?);
    // Send this version to a client of another version before leaving it.
    if matches!(opened, Ok(_) | Err(Refusal::Version { .. })) {
        stream.write_all(&greeting).await?;
        stream.flush().await?;
    }
    let their_mode = opened?;
    let sought: Incarnation = read(stream, &mut transcript).await?;
    let _nonce: [u8; NONCE_BYTES] = read(stream, &mut transcript).await?;
    transcript.add(&greeting);
    check_modes(secret, their_mode)?;

    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    let refusal = if !transcript.is_proof(b"client", &proof) {
        Some((WRONG_SECRET, Refusal::WrongSecret))
    } else if sought != myself {
        Some((ANOTHER, Refusal::Another))
    } else {
        None
    };
    let verdict = refusal.as_ref().map_or(WELCOME, |(verdict, _)| *verdict);
    transcript.add(&[verdict]);
    let mut answer = vec![verdict];
    if verdict == WRONG_SECRET {
        // A client without a valid proof gets none to try guesses on.
        answer.extend([0; PROOF_BYTES]);
    } else {
        answer.extend(transcript.proof(b"server"));
    }
    stream.write_all(&answer).await?;
    stream.flush().await?;
    refusal.map_or(Ok(()), |(_, refusal)| Err(refusal))
}

fn opening(secret: Option<&Secret>) -> Vec<u8> {
    let mut opening = MAGIC.to_vec();
    opening.extend(VERSION.to_be_bytes());
    opening.push(mode(secret));
    opening
}

const fn mode(secret: Option<&Secret>) -> u8 {
    if secret.is_some() { MODE_SECRET } else { MODE_OPEN }
}

async fn read_opening<S: AsyncRead + Unpin>(
    stream: &mut S,
    transcript: &mut Transcript,
) -> Result<u8, Refusal> {
    let prefix: [u8; PREFIX_BYTES] = read(stream, transcript).await?;
    let [a, b, c, d, e, f, g, h, high, low] = prefix;
    let magic = [a, b, c, d, e, f, g, h];
    if magic != MAGIC {
        return Err(Refusal::NotCarnet(magic));
    }
    let theirs = u16::from_be_bytes([high, low]);
    if theirs != VERSION {
        return Err(Refusal::Version { theirs });
    }
    let [mode] = read(stream, transcript).await?;
    Ok(mode)
}

fn check_modes(secret: Option<&Secret>, theirs: u8) -> Result<(), Refusal> {
    if mode(secret) == theirs {
        return Ok(());
    }
    Err(Refusal::Modes { is_ours_secret: secret.is_some() })
}

async fn read<S: AsyncRead + Unpin, const N: usize>(
    stream: &mut S,
    transcript: &mut Transcript,
) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    transcript.add(&bytes);
    Ok(bytes)
}

fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    random(&mut nonce)?;
    Ok(nonce)
}

/// Fills a buffer with unpredictable bytes.
pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| io::Error::other("the system has no random bytes"))
}

/// All bytes sent by both sides so far.
struct Transcript {
    key: hmac::Key,
    said: Vec<u8>,
}

impl Transcript {
    fn new(secret: Option<&Secret>, binding: Binding) -> Self {
        let key = match secret {
            Some(secret) => secret.key().clone(),
            None => hmac::Key::new(hmac::HMAC_SHA256, &[]),
        };
        Self { key, said: binding.iter().flatten().copied().collect() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
    }

    fn signed_bytes(&self, role: &[u8; 6]) -> Vec<u8> {
        [role, &self.said[..]].concat()
    }

    fn proof(&self, role: &[u8; 6]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.key, &self.signed_bytes(role));
        *tag.as_ref().first_chunk().expect("a tag of HMAC-SHA-256 has 32 bytes")
    }

    fn is_proof(&self, role: &[u8; 6], proof: &[u8]) -> bool {
        hmac::verify(&self.key, &self.signed_bytes(role), proof).is_ok()
    }
}

#[cfg(test)]
mod tests;
