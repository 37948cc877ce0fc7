//! A client that waits for each answer.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::{self, Response, ResponseKind};

/// Time after which a client of a load gives up.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let tcp = wire::connect(address)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(tcp))
    }

    /// Connects as a user.
    pub(crate) fn log_in(address: SocketAddr, user: &str, password: &str) -> io::Result<Self> {
        let tcp = wire::log_in(address, user, password)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(tcp))
    }

    /// Sends a frame, and does not wait for its answer.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(frame)
    }

    /// Runs a statement that must succeed.
    pub(crate) fn query(&mut self, text: &str) -> io::Result<()> {
        wire::query(&mut self.0, text)
    }

    pub(crate) fn prepare(&mut self, text: &str) -> io::Result<Vec<u8>> {
        wire::prepare(&mut self.0, text)
    }

    /// Executes a prepared statement that must succeed.
    pub(crate) fn execute(&mut self, id: &[u8], values: &[&[u8]]) -> io::Result<()> {
        let response = self.answer(&wire::execute_values(1, id, values, Some(5_000)))?;
        match response.answer {
            ResponseKind::Good => Ok(()),
            _ => Err(io::Error::other(response.error())),
        }
    }

    /// Sends a frame, and waits for its answer.
    pub(crate) fn answer(&mut self, frame: &[u8]) -> io::Result<Response> {
        self.0.write_all(frame)?;
        wire::receive(&mut self.0)
    }
}
