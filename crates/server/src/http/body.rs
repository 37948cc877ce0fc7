//! Bodies of requests: objects of JSON, limited in bytes and time.

#![expect(clippy::disallowed_methods, reason = "its tasks run on the runtime")]

use std::time::Duration;

use bytes::Bytes;
use carnet_base::{Charge, MemoryBudget};
use http_body_util::{BodyExt, Limited};
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

/// Receives the body of a request, of at most `len_max` bytes, which are charged before they arrive.
///
/// # Errors
///
/// The answer that refuses the request.
pub(super) async fn receive<T: DeserializeOwned>(
    body: Incoming,
    len_max: usize,
    budget: &MemoryBudget,
) -> Result<Received<T>, Answer> {
    let too_long = || {
        let why = format!("a request may have {len_max} bytes");
        refusal(StatusCode::PAYLOAD_TOO_LARGE, &why)
    };
    // The length of a body in chunks is not announced.
    let announced =
        body.size_hint().upper().map_or(len_max, |len| usize::try_from(len).unwrap_or(usize::MAX));
    if announced > len_max {
        return Err(too_long());
    }
    let Some(mut charge) = budget.charge(announced) else {
        let why = "the server holds too many bytes of requests already: try again later";
        return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let collected = timeout(BODY_TIMEOUT, Limited::new(body, len_max).collect()).await;
    let bytes: Bytes = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_long()),
        Ok(Err(_)) => return Err(refusal(StatusCode::BAD_REQUEST, "the request is incomplete")),
        Err(_) => {
            let why = "the request took too long to arrive";
            return Err(refusal(StatusCode::REQUEST_TIMEOUT, why));
        }
    };
    charge.set(bytes.len());
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        refusal(StatusCode::BAD_REQUEST, &format!("the request is not as expected: {error}"))
    })?;
    Ok(Received { value, charge })
}
