//! Bodies of requests: objects of JSON, limited in bytes and time.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::time::Duration;

use carnet_base::{Charge, MemoryBudget};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::answer::{Answer, refusal};

/// Maximum time for the arrival of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request's body with its memory.
pub(super) struct Received<T> {
    pub(super) value: T,
    /// Charge of the body to the memory of requests.
    pub(super) charge: Charge,
}

/// Receives the body of a request, of at most `len_max` bytes, which are charged as they arrive.
///
/// # Errors
///
/// The answer that refuses the request.
pub(super) async fn receive<T: DeserializeOwned>(
    body: Incoming,
    len_max: usize,
    budget: &MemoryBudget,
) -> Result<Received<T>, Answer> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |len| len > len_max) {
        return Err(too_long(len_max));
    }
    let mut charge = budget.charge(0).expect("no bytes fit into every budget");
    let bytes = match timeout(BODY_TIMEOUT, collect(body, len_max, &mut charge)).await {
        Ok(collected) => collected?,
        Err(_) => {
            let why = "the request took too long to arrive";
            return Err(refusal(StatusCode::REQUEST_TIMEOUT, why));
        }
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        refusal(StatusCode::BAD_REQUEST, &format!("the request is not as expected: {error}"))
    })?;
    Ok(Received { value, charge })
}

async fn collect(
    mut body: Incoming,
    len_max: usize,
    charge: &mut Charge,
) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let incomplete = |_| refusal(StatusCode::BAD_REQUEST, "the request is incomplete");
        // Trailers have no meaning here.
        let Ok(part) = frame.map_err(incomplete)?.into_data() else { continue };
        if part.len() > len_max - bytes.len() {
            return Err(too_long(len_max));
        }
        if !charge.grow_to(bytes.len() + part.len()) {
            let why = "the server holds too many bytes of requests already: try again later";
            return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn too_long(len_max: usize) -> Answer {
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &format!("a request may have {len_max} bytes"))
}
