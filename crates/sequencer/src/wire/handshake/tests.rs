use tokio::io::{DuplexStream, duplex};

use super::*;

const MYSELF: Incarnation = [7; 8];

fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

/// One side: its secret, its incarnation or the one it looks for, and its channel binding.
struct Side<'a>(Option<&'a Secret>, Incarnation, Binding);

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Runs the handshake between two sides.
fn meet(client: &Side<'_>, server: &Side<'_>) -> [Result<(), Refusal>; 2] {
    let (mut near, mut far) = duplex(1024);
    let (client, server) = run(async {
        tokio::join!(
            async move { greet(&mut near, client.0, client.1, client.2).await },
            async move { welcome(&mut far, server.0, server.1, server.2).await }
        )
    });
    [client, server]
}

#[test]
fn equal_secrets_complete_the_handshake() {
    let known = secret("sixteen bytes at least");
    for secret in [None, Some(&known)] {
        for binding in [None, Some([3; 32])] {
            let side = Side(secret, MYSELF, binding);
            assert!(matches!(meet(&side, &side), [Ok(()), Ok(())]));
        }
    }
}

#[test]
fn wrong_secret_is_reported_to_both_sides() {
    let (ours, theirs) = (secret("sixteen bytes at least"), secret("sixteen bytes at most"));
    let met = meet(&Side(Some(&ours), MYSELF, None), &Side(Some(&theirs), MYSELF, None));
    assert!(matches!(met, [Err(Refusal::WrongSecret), Err(Refusal::WrongSecret)]), "{met:?}");
}

#[test]
fn secret_on_one_side_only_is_refused() {
    let ours = secret("sixteen bytes at least");
    let (with, without) = (Side(Some(&ours), MYSELF, None), Side(None, MYSELF, None));
    for met in [meet(&with, &without), meet(&without, &with)] {
        let is_ours_secret = |side: &Result<(), Refusal>| match side {
            Err(Refusal::Modes { is_ours_secret }) => Some(*is_ours_secret),
            _ => None,
        };
        let [client, server] = met.each_ref().map(is_ours_secret);
        assert!(client.is_some() && server == client.map(|is| !is), "{met:?}");
    }
}

#[test]
fn another_incarnation_reports_itself() {
    let met = meet(&Side(None, [8; 8], None), &Side(None, MYSELF, None));
    assert!(matches!(met, [Err(Refusal::Another), Err(Refusal::Another)]), "{met:?}");
}

/// An attacker stands between two TLS connections. Both ends know the secret, and each proves it
/// for another connection.
#[test]
fn proof_is_invalid_on_another_connection() {
    let known = secret("sixteen bytes at least");
    let side = |number| Side(Some(&known), MYSELF, Some([number; 32]));
    let met = meet(&side(1), &side(2));
    assert!(matches!(met, [Err(Refusal::WrongSecret), Err(Refusal::WrongSecret)]), "{met:?}");
}

/// Forwards bytes with one of them changed; fails if a side has left.
async fn pass(
    from: &mut DuplexStream,
    to: &mut DuplexStream,
    bytes: usize,
    flip: Option<usize>,
) -> io::Result<()> {
    let mut passed = vec![0; bytes];
    from.read_exact(&mut passed).await?;
    if let Some(place) = flip {
        passed[place] ^= 1;
    }
    to.write_all(&passed).await
}

/// With any byte changed on the way, at least one side refuses.
#[test]
fn altered_handshake_is_refused() {
    let known = secret("sixteen bytes at least");
    // Greetings of both, the client's proof, the verdict.
    let parts = [51, 43, PROOF_BYTES, 1 + PROOF_BYTES];
    for (part, bytes) in parts.into_iter().enumerate() {
        for place in 0..bytes {
            let flip = |of: usize| (of == part).then_some(place);
            let (client, mut near) = duplex(1024);
            let (mut far, server) = duplex(1024);
            let (client, server, _) = run(async {
                tokio::join!(
                    async { greet(&mut { client }, Some(&known), MYSELF, None).await },
                    async { welcome(&mut { server }, Some(&known), MYSELF, None).await },
                    async move {
                        pass(&mut near, &mut far, parts[0], flip(0)).await?;
                        pass(&mut far, &mut near, parts[1], flip(1)).await?;
                        pass(&mut near, &mut far, parts[2], flip(2)).await?;
                        pass(&mut far, &mut near, parts[3], flip(3)).await
                    }
                )
            });
            assert!(client.is_err(), "part {part}, byte {place}");
            assert!(part == 3 || server.is_err(), "part {part}, byte {place}");
        }
    }
}

/// A server without the secret sends the client's own bytes back to it.
#[test]
fn mirrored_bytes_prove_nothing() {
    let known = secret("sixteen bytes at least");
    let (client, mut mirror) = duplex(1024);
    let (client, ()) = run(async {
        tokio::join!(
            async { greet(&mut { client }, Some(&known), MYSELF, None).await },
            async move {
                let mut greeting = [0; 51];
                mirror.read_exact(&mut greeting).await.unwrap();
                let echo = [&greeting[..11], &greeting[19..]].concat();
                mirror.write_all(&echo).await.unwrap();
                let mut proof = [0; PROOF_BYTES];
                mirror.read_exact(&mut proof).await.unwrap();
                mirror.write_all(&[&[WELCOME][..], &proof].concat()).await.unwrap();
            }
        )
    });
    assert!(matches!(client, Err(Refusal::WrongSecret)), "{client:?}");
}

/// Bytes recorded from one handshake open no second connection.
#[test]
fn replayed_proof_is_refused() {
    let known = secret("sixteen bytes at least");
    let heard = run(async {
        let (mut client, mut server) = duplex(1024);
        let served = async { welcome(&mut server, Some(&known), MYSELF, None).await.unwrap() };
        let heard = async {
            let mut transcript = Transcript::new(Some(&known), None);
            let mut greeting = opening(Some(&known));
            greeting.extend(MYSELF);
            greeting.extend([1; NONCE_BYTES]);
            client.write_all(&greeting).await.unwrap();
            transcript.add(&greeting);
            let _: [u8; 43] = read(&mut client, &mut transcript).await.unwrap();
            let proof = transcript.proof(b"client");
            client.write_all(&proof).await.unwrap();
            [&greeting[..], &proof].concat()
        };
        tokio::join!(served, heard).1
    });
    let again = run(async {
        let (mut client, mut server) = duplex(1024);
        client.write_all(&heard).await.unwrap();
        welcome(&mut server, Some(&known), MYSELF, None).await
    });
    assert!(matches!(again, Err(Refusal::WrongSecret)), "{again:?}");
}

#[test]
fn a_secret_is_not_shown() {
    assert_eq!(format!("{:?}", secret("sixteen bytes at least")), "Secret");
    assert!(Secret::new("fifteen bytes ..").is_ok() && Secret::new("fifteen bytes .").is_err());
}
