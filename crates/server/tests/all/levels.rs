//! Service levels of a server's users.

use carnet::Db;
use carnet_admission::{AdmissionLimits, Class};
use carnet_cql::Executor;
use carnet_cql::system::NodeInfo;
use carnet_server::{CqlBackend, Limits};

use crate::support::{AUTH_SUCCESS, AUTHENTICATE, Client, PASSWORDS, RESULT, Running, get};

const INVALID: i32 = 0x2200;
const READ_TIMEOUT: i32 = 0x1200;
const POINT: &str = "SELECT c FROM ks.t WHERE p = 1 AND c = 1";

struct Levels {
    server: Running,
    db: Db,
}

impl Levels {
    /// Starts a server with the users ann and bob, who have the same password.
    fn start() -> Self {
        let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
        let executor = Executor::new(db.clone(), NodeInfo::local(carnet::Uuid::nil()));
        executor.set_users(["ann", "bob"].map(str::to_owned));
        let passwords = format!("{PASSWORDS}\n{}", PASSWORDS.replace("ann:", "bob:"));
        let backend = CqlBackend::new(executor);
        let server = Running::of(backend, Limits::default(), Some(&passwords));
        let levels = Self { server, db };
        let mut ann = levels.client("ann");
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (p int, c int, PRIMARY KEY (p, c))",
            "CREATE SERVICE LEVEL gold WITH workload_type = 'interactive' AND shares = 800",
            "CREATE SERVICE LEVEL reports WITH shares = 100 AND max_concurrency = 3",
            "ATTACH SERVICE LEVEL gold TO ann",
        ] {
            run(&mut ann, text);
        }
        levels
    }

    fn client(&self, user: &str) -> Client {
        let mut client = Client::connect(self.server.address, 4);
        client.startup(&[]);
        assert_eq!(client.receive().opcode, AUTHENTICATE);
        client.settle(false);
        client.log_in(user, "one");
        assert_eq!(client.receive().opcode, AUTH_SUCCESS);
        client
    }

    /// Returns the number of statements of a class that a level's users ran.
    fn admitted(&self, class: Class, level: &str) -> u64 {
        let figures = self.db.admission().unwrap().figures_of_levels(class);
        let of_level = figures.iter().find(|(name, _)| &**name == level);
        of_level.map_or(0, |(_, figures)| figures.admitted)
    }
}

fn run(client: &mut Client, text: &str) {
    client.query(1, text);
    let response = client.receive();
    assert_eq!(response.opcode, RESULT, "{text}: {response:?}");
}

#[test]
fn statements_use_the_level_of_their_user() {
    let levels = Levels::start();
    let (mut ann, mut bob) = (levels.client("ann"), levels.client("bob"));
    run(&mut ann, POINT);
    run(&mut ann, "INSERT INTO ks.t (p, c) VALUES (1, 1)");
    run(&mut bob, POINT);
    run(&mut bob, POINT);
    run(&mut bob, &format!("{POINT} USING SERVICE LEVEL reports"));
    run(&mut bob, "SELECT * FROM system.local");
    let admitted = |class, level| levels.admitted(class, level);
    assert_eq!((admitted(Class::Read, "gold"), admitted(Class::Write, "gold")), (1, 1));
    assert_eq!((admitted(Class::Read, "default"), admitted(Class::Read, "reports")), (2, 1));
    assert_eq!(admitted(Class::System, "default"), 0, "they run by the level driver");
    bob.query(1, &format!("{POINT} USING SERVICE LEVEL none"));
    bob.receive().assert_error(INVALID, "Service Level none doesn't exist.");
}

#[test]
fn changes_act_on_open_connections() {
    let levels = Levels::start();
    let (mut ann, mut bob) = (levels.client("ann"), levels.client("bob"));
    run(&mut ann, POINT);
    run(&mut bob, "ALTER SERVICE LEVEL gold WITH timeout = 0ms");
    ann.query(1, POINT);
    ann.receive().assert_error(READ_TIMEOUT, "");
    run(&mut ann, &format!("{POINT} USING TIMEOUT 1h"));
    run(&mut bob, POINT);
    let (_, metrics) = get(levels.server.http, "/metrics");
    for line in [
        "carnet_statement_timeouts_total{level=\"gold\"} 1\n",
        "carnet_statement_timeouts_total{level=\"default\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    run(&mut bob, "ATTACH SERVICE LEVEL reports TO ann");
    run(&mut ann, POINT);
    assert_eq!(levels.admitted(Class::Read, "reports"), 1);
    run(&mut bob, "DROP SERVICE LEVEL reports");
    let before = levels.admitted(Class::Read, "default");
    run(&mut ann, POINT);
    assert_eq!(levels.admitted(Class::Read, "default"), before + 1);
}

#[test]
fn level_is_attached_to_known_users_only() {
    let levels = Levels::start();
    let mut ann = levels.client("ann");
    ann.query(1, "ATTACH SERVICE LEVEL gold TO eve");
    ann.receive().assert_error(INVALID, "Role eve doesn't exist.");
    run(&mut ann, "ATTACH SERVICE LEVEL gold TO bob");
}
