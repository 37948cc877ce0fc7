//! A client that waits for each answer.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::{self, Response, ResponseKind};

/// Time after which a client of a load gives up.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let tcp = wire::connect(address)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(tcp))
    }

    /// Runs a statement that must succeed.
    pub(super) fn query(&mut self, text: &str) -> io::Result<()> {
        wire::query(&mut self.0, text)
    }

    pub(super) fn prepare(&mut self, text: &str) -> io::Result<Vec<u8>> {
        wire::prepare(&mut self.0, text)
    }

    /// Executes a prepared statement that must succeed.
    pub(super) fn execute(&mut self, id: &[u8], values: &[&[u8]]) -> io::Result<()> {
        let response = self.answer(&wire::execute_values(1, id, values, Some(5_000)))?;
        match response.answer {
            ResponseKind::Good => Ok(()),
            _ => Err(io::Error::other(response.error())),
        }
    }

    /// Sends a frame, and waits for its answer.
    pub(super) fn answer(&mut self, frame: &[u8]) -> io::Result<Response> {
        self.0.write_all(frame)?;
        wire::receive(&mut self.0)
    }
}
