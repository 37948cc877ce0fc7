//! `carnet serve` with few file descriptors.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::Server;

/// A client of the native protocol v4 that sends one request at a time.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Self(stream);
        let mut startup = 1_u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            startup.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            startup.extend(text.as_bytes());
        }
        assert_eq!(client.request(0x01, &startup).0, 0x02, "READY");
        client
    }

    /// Returns the answer's opcode and body.
    fn request(&mut self, opcode: u8, body: &[u8]) -> (u8, Vec<u8>) {
        let mut frame = vec![0x04, 0, 0, 0, opcode];
        frame.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        frame.extend(body);
        self.0.write_all(&frame).unwrap();
        let mut header = [0; 9];
        self.0.read_exact(&mut header).unwrap();
        let len = u32::from_be_bytes(*header.last_chunk().unwrap());
        let mut answer = vec![0; usize::try_from(len).unwrap()];
        self.0.read_exact(&mut answer).unwrap();
        (header[4], answer)
    }

    fn execute(&mut self, statement: &str) {
        let mut query = u32::try_from(statement.len()).unwrap().to_be_bytes().to_vec();
        query.extend(statement.as_bytes());
        // Consistency ONE, no flags.
        query.extend([0, 1, 0]);
        let (opcode, answer) = self.request(0x07, &query);
        let start = &statement[..statement.len().min(60)];
        assert_eq!(opcode, 0x08, "RESULT of {start}: {}", String::from_utf8_lossy(&answer));
    }
}

fn metric(server: &Server, name: &str) -> u64 {
    let (_, metrics) = server.get("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} in:\n{metrics}")).parse().unwrap()
}

/// Many idle connections leave descriptors for the log's next files and for new tables.
#[test]
fn idle_connections_do_not_stop_writes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with_files_max(directory.path(), 128);
    let mut client = Client::connect(server.cql);
    client.execute(
        "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.execute("CREATE TABLE f.t (id int PRIMARY KEY, v text)");
    let _idle: Vec<_> = (0..300).map(|_| TcpStream::connect(server.cql).unwrap()).collect();
    let value = "x".repeat(900 << 10);
    // More than two segments of the log.
    for id in 0..45 {
        client.execute(&format!("INSERT INTO f.t (id, v) VALUES ({id}, '{value}')"));
    }
    assert_eq!(server.get("/readyz"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(metric(&server, "carnet_storage_stopped"), 0);
    assert!(metric(&server, "carnet_server_connections_refused_total") > 150);
    assert_eq!(metric(&server, "process_max_fds"), 128);
    assert!(metric(&server, "process_open_fds") < 110);
    let log = server.log();
    assert!(log.contains("the limit of open files permits"), "{log}");
    server.terminate();
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
}
