//! A message between processes, and its frame.

use crate::message::{LeaderRequest, Response};

/// A message between processes.
#[derive(Debug)]
pub enum Message {
    /// Request of a client.
    LeaderRequest(LeaderRequest),
    /// The answer to a request.
    Response(Response),
    /// A keep-alive check.
    Ping,
    /// The answer to a keep-alive check.
    Pong,
}

/// A message with its id.
#[derive(Debug)]
pub struct Frame {
    /// Id of a request on its connection; an answer has the id of its request. Pings and pongs have
    /// 0.
    pub id: u64,
    /// Message of the packet.
    pub message: Message,
}
