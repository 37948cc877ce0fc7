//! Clients of both servers, which cause every kind of request.

use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::value::Counter;
use tokio::runtime::Runtime;

use crate::support::Server;

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE IF NOT EXISTS matrix WITH replication = {'class': 'SimpleStrategy', \
     'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS matrix.t (p int, c int, v text, PRIMARY KEY (p, c))",
    "CREATE TABLE IF NOT EXISTS matrix.counts (p int PRIMARY KEY, n counter)",
    "CREATE TABLE IF NOT EXISTS matrix.served (p int PRIMARY KEY, v int)",
];

/// Statements that together cause every request, but for those of elections and starts.
const STATEMENTS: [&str; 15] = [
    "INSERT INTO matrix.t (p, c, v) VALUES (1, 1, 'a')",
    "INSERT INTO matrix.t (p, c, v) VALUES (2, 1, 'b') USING TTL 1",
    "UPDATE matrix.t SET v = 'c' WHERE p = 1 AND c = 2",
    "SELECT v FROM matrix.t WHERE p = 1 AND c = 1",
    "SELECT v FROM matrix.t WHERE p = 1 AND c IN (1, 2, 3)",
    "SELECT v FROM matrix.served WHERE p IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)",
    "SELECT v FROM matrix.t WHERE p = 1",
    "SELECT v FROM matrix.t WHERE p = 1 AND c < 5",
    "SELECT v FROM matrix.t WHERE p = 1 ORDER BY c DESC",
    "SELECT v FROM matrix.t WHERE p = 1 AND c < 5 ORDER BY c DESC",
    "SELECT v FROM matrix.t",
    "SELECT DISTINCT p FROM matrix.t",
    "SELECT n FROM matrix.counts WHERE p = 1",
    "DELETE FROM matrix.t WHERE p = 1 AND c = 2",
    "DELETE FROM matrix.t WHERE p = 3",
];

pub(super) struct Probe {
    runtime: Runtime,
    sessions: Vec<Session>,
    added: Additions,
    served: i32,
}

/// Additions to the counter.
#[derive(Debug, Default)]
struct Additions {
    acknowledged: i64,
    unknown: i64,
}

impl Probe {
    pub(super) fn new(servers: &[Server]) -> Self {
        let runtime = Runtime::new().unwrap();
        let profile = ExecutionProfile::builder()
            .retry_policy(std::sync::Arc::new(FallthroughRetryPolicy::new()))
            .request_timeout(Some(Duration::from_secs(6)))
            .build();
        let connect = |server: &Server| {
            let builder = SessionBuilder::new().known_node(server.cql.to_string());
            let builder = builder.default_execution_profile_handle(profile.clone().into_handle());
            runtime.block_on(builder.build()).unwrap()
        };
        let sessions: Vec<Session> = servers.iter().map(connect).collect();
        for statement in SCHEMA {
            runtime.block_on(sessions[0].query_unpaged(statement, ())).unwrap();
        }
        Self { runtime, sessions, added: Additions::default(), served: 0 }
    }

    /// Runs each statement, through one server or the other. Any may fail.
    pub(super) fn ask_everything(&mut self, round: usize) {
        let session = &self.sessions[round % self.sessions.len()];
        for statement in STATEMENTS {
            // The request that is disturbed is in one of them.
            let _ = self.runtime.block_on(session.query_unpaged(statement, ()));
        }
        let add = "UPDATE matrix.counts SET n = n + 1 WHERE p = 1";
        match self.runtime.block_on(session.query_unpaged(add, ())) {
            Ok(_) => self.added.acknowledged += 1,
            Err(_) => self.added.unknown += 1,
        }
        if round % 3 == 1 {
            let create = "CREATE TABLE IF NOT EXISTS matrix.other (p int PRIMARY KEY)";
            for statement in
                [create, "INSERT INTO matrix.other (p) VALUES (1)", "DROP TABLE matrix.other"]
            {
                let _ = self.runtime.block_on(session.query_unpaged(statement, ()));
            }
        }
    }

    /// Creates a table through the first server, and drops it.
    ///
    /// # Errors
    ///
    /// The error of the server.
    pub(super) fn change_schema(&mut self) -> Result<(), String> {
        let create = "CREATE TABLE matrix.changed (p int PRIMARY KEY)";
        for statement in [create, "DROP TABLE matrix.changed"] {
            let changed = self.runtime.block_on(self.sessions[0].query_unpaged(statement, ()));
            changed.map_err(|error| format!("{statement}: {error}"))?;
        }
        Ok(())
    }

    /// Writes a row through a server, and reads it back.
    ///
    /// # Errors
    ///
    /// Why the server does not serve.
    pub(super) fn is_served(&mut self, server: usize) -> Result<(), String> {
        let session = &self.sessions[server];
        self.served += 1;
        let write = format!("INSERT INTO matrix.served (p, v) VALUES ({server}, {})", self.served);
        let read = format!("SELECT v FROM matrix.served WHERE p = {server}");
        let result = self.runtime.block_on(async {
            session.query_unpaged(write, ()).await?;
            session.query_unpaged(read, ()).await
        });
        let rows = result.map_err(|error| error.to_string())?.into_rows_result().unwrap();
        assert_eq!(rows.first_row::<(i32,)>().unwrap(), (self.served,), "server {server}");
        Ok(())
    }

    /// Checks that the counter has every acknowledged addition, and none twice.
    pub(super) fn check_counter(&self) {
        for session in &self.sessions {
            let read = "SELECT n FROM matrix.counts WHERE p = 1";
            let rows = self.runtime.block_on(session.query_unpaged(read, ())).unwrap();
            let count = rows.into_rows_result().unwrap().maybe_first_row::<(Counter,)>().unwrap();
            let (count, Additions { acknowledged, unknown }) =
                (count.map_or(0, |row| row.0.0), &self.added);
            let possible = *acknowledged..=acknowledged + unknown;
            assert!(possible.contains(&count), "{count} of {:?}", self.added);
        }
    }
}
