//! Closed loop: each connection keeps a number of requests in flight, and sends the next request
//! when one is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use carnet_base::{Clock, Moment, SeededRng, SystemClock};
use hdrhistogram::Histogram;

use super::frame::Response;
use super::workload::Prepared;
use crate::wire;

/// Minimum room for a read.
const READ_LEN: usize = 64 << 10;

/// A load, for some time.
pub(super) struct Load<'l> {
    pub(super) address: SocketAddr,
    pub(super) prepared: &'l Prepared,
    /// Requests in flight, of all connections together.
    pub(super) in_flight: u16,
    pub(super) connections: u16,
    pub(super) time: Duration,
    pub(super) seed: u64,
}

/// Result of a load.
pub(super) struct Measured {
    /// Latencies of the answered operations, in nanoseconds.
    pub(super) nanos: Histogram<u64>,
    pub(super) failed: u64,
    pub(super) took: Duration,
}

impl Load<'_> {
    /// Runs the load until all requests are answered.
    pub(super) fn run(&self) -> io::Result<Measured> {
        let begun = SystemClock.now();
        let ends = begun.after(self.time);
        let connections = u64::from(self.connections);
        let clients = (0..connections).map(|at| {
            let seed = self.seed * 1_000 + at;
            Client::connect(self.address, self.prepared, SeededRng::new(seed))
        });
        let clients: Vec<Client<'_>> = clients.collect::<io::Result<_>>()?;
        let in_flight = self.in_flight / self.connections;
        let parts: Vec<io::Result<(Histogram<u64>, u64)>> = thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .map(|client| scope.spawn(move || client.run(in_flight, ends)))
                .collect();
            let ended = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
            });
            ended.collect()
        });
        let took = SystemClock.now().since(begun);
        let mut measured = Measured { nanos: histogram(), failed: 0, took };
        for part in parts {
            let (nanos, failed) = part?;
            measured.nanos.add(nanos).map_err(io::Error::other)?;
            measured.failed += failed;
        }
        Ok(measured)
    }
}

/// Latencies of up to a minute. Longer ones count as a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are valid")
}

/// A connection with its requests.
struct Client<'c> {
    tcp: TcpStream,
    prepared: &'c Prepared,
    rng: SeededRng,
    nanos: Histogram<u64>,
    failed: u64,
    /// Time of each stream's request, and the paging state of its next one.
    streams: Vec<(Moment, Option<Vec<u8>>)>,
    out: Vec<u8>,
}

impl<'c> Client<'c> {
    fn connect(address: SocketAddr, prepared: &'c Prepared, rng: SeededRng) -> io::Result<Self> {
        let (tcp, nanos) = (wire::connect(address)?, histogram());
        let (streams, out) = (Vec::new(), Vec::new());
        Ok(Self { tcp, prepared, rng, nanos, failed: 0, streams, out })
    }

    /// Sends requests until a moment, and waits for all answers.
    fn run(mut self, in_flight: u16, ends: Moment) -> io::Result<(Histogram<u64>, u64)> {
        self.streams = vec![(SystemClock.now(), None); usize::from(in_flight)];
        (0..usize::from(in_flight)).for_each(|stream| self.put_request(stream));
        self.flush()?;
        let (mut inbox, mut filled) = (vec![0; READ_LEN], 0);
        let mut waiting = usize::from(in_flight);
        while waiting > 0 {
            let read = self.tcp.read(&mut inbox[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            let (now, mut taken) = (SystemClock.now(), 0);
            while let Some(response) = Response::first(&inbox[taken..filled])? {
                taken += response.len;
                self.answered(&response, now)?;
                if now < ends {
                    self.put_request(response.stream);
                } else {
                    waiting -= 1;
                }
            }
            inbox.copy_within(taken..filled, 0);
            filled -= taken;
            if inbox.len() - filled < READ_LEN / 2 {
                inbox.resize(inbox.len() * 2, 0);
            }
            self.flush()?;
        }
        Ok((self.nanos, self.failed))
    }

    fn answered(&mut self, response: &Response<'_>, now: Moment) -> io::Result<()> {
        let stream = self.streams.get_mut(response.stream);
        let (sent, state) = stream.ok_or_else(|| io::Error::other("an unknown stream"))?;
        *state = response.paging_state().map(<[u8]>::to_vec);
        if response.is_error {
            if self.failed == 0 {
                let _ = writeln!(io::stderr(), "an operation failed: {}", response.message());
            }
            self.failed += 1;
            return Ok(());
        }
        let nanos = now.since(*sent).as_nanos();
        self.nanos.saturating_record(u64::try_from(nanos).unwrap_or(u64::MAX));
        Ok(())
    }

    fn put_request(&mut self, stream: usize) {
        let (sent, state) = &mut self.streams[stream];
        *sent = SystemClock.now();
        let name = u16::try_from(stream).expect("streams are fewer than 2^16");
        self.prepared.put_request(&mut self.out, name, &mut self.rng, state.as_deref());
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}
