//! The table of the multi-gets.

use std::io;
use std::net::TcpStream;

use super::load::Statement;
use super::server::Process;
use super::wire;

/// Number of keys of a multi-get.
const KEYS: usize = 20;
/// Number of rows of the table.
pub(super) const ROWS: u64 = 20_000;

/// Creates the keyspace of all tables.
pub(super) fn create_keyspace(tcp: &mut TcpStream) -> io::Result<()> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    wire::query(tcp, &format!("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {replication}"))
}

/// Creates and fills the table, and prepares the statement.
pub(super) fn fill(server: &Process) -> io::Result<Statement> {
    let mut tcp = wire::connect(server.address)?;
    create_keyspace(&mut tcp)?;
    wire::query(&mut tcp, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")?;
    for batch in 0..ROWS / 500 {
        let inserts: String = (batch * 500..(batch + 1) * 500)
            .map(|key| format!("INSERT INTO ks.t (k, v) VALUES ({key}, '{key:0>100}'); "))
            .collect();
        wire::query(&mut tcp, &format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"))?;
    }
    let markers = vec!["?"; KEYS].join(", ");
    let id = wire::prepare(&mut tcp, &format!("SELECT k, v FROM ks.t WHERE k IN ({markers})"))?;
    Ok(Statement { id, keys: KEYS, rows: ROWS, page_rows: None })
}
