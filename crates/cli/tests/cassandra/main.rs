//! Carnet on a real Cassandra: the façade, stock drivers, and servers that are killed and paused.
//!
//! | variable | |
//! | --- | --- |
//! | `CARNET_CASSANDRA` | `host:port` of a node that runs; one is started unless it is set |
//! | `CARNET_CLUSTER_SECONDS` | how long servers are killed and paused; 9 unless set |
//! | `CARNET_CLUSTER_SEED` | replays the transactions and the moments of a run that failed |
//!
//! The tests need a process to themselves: a node takes gigabytes, and they pause it.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod backup;
mod growth;
mod guide;
mod import;
mod matrix;
#[path = "../../../store-cql/tests/cassandra/node.rs"]
mod node;
#[allow(dead_code, reason = "the runner `all` uses the other helpers")]
#[path = "../all/support/mod.rs"]
mod support;

use std::env;
use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use carnet::{Db, Error, ErrorKind, Key, Result, block_on, record};
use carnet_base::{Rng, SeededRng};
use support::{Guard, Server, carnet, clients, e2e, fail, secret_file, succeed};

record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Account {
        balance: i64,
    }
}

type Accounts = carnet::Table<Key<(i64,)>, Account>;

/// Returns the URL of an unused database; `None` without a Cassandra.
///
/// Leases are long, unless the test is about their expiry: a busy machine must not change leaders.
fn store(options: &str) -> Option<String> {
    static USED: AtomicUsize = AtomicUsize::new(0);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    let (point, process) = (&node::node()?.contact_point, std::process::id());
    Some(format!("cassandra://{point}/cli{process}_{number}?replication=1{options}"))
}

const LONG_LEASE: &str = "&lease=60s&leader_timeout=60s";
/// Options of a server that others of its database reach.
fn loopback() -> String {
    format!("&listen=127.0.0.1:0&secret_file={}", secret_file("sixteen-letters-or-more"))
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Moves money between two accounts if there is enough.
fn transfer(db: &Db, accounts: &Accounts, from: i64, to: i64) -> Result<()> {
    db.transact(|tx| {
        let balance = |id| Ok::<_, Error>(accounts.get(tx, &Key((id,), ()))?.unwrap().balance);
        let (mine, theirs) = (balance(from)?, balance(to)?);
        if mine > 0 {
            accounts.put(tx, &Key((from,), ()), &Account { balance: mine - 1 })?;
            accounts.put(tx, &Key((to,), ()), &Account { balance: theirs + 1 })?;
        }
        Ok(())
    })
}

#[test]
fn two_processes_share_one_database() {
    const ACCOUNTS: i64 = 12;
    let Some(url) = store(&format!("{LONG_LEASE}{}", loopback())) else { return };
    let retention = std::time::Duration::ZERO;
    let open = || Db::builder().retention(retention).open(&url).unwrap();
    let (one, other) = (open(), open());
    assert!(one.is_leading() && !other.is_leading());
    let table = |db: &Db| db.table::<Key<(i64,)>, Account>("bank.accounts").unwrap();
    let (mine, theirs) = (table(&one), table(&other));
    one.transact(|tx| {
        (0..ACCOUNTS).try_for_each(|id| mine.put(tx, &Key((id,), ()), &Account { balance: 10 }))
    })
    .unwrap();
    thread::scope(|scope| {
        for (db, accounts) in [(&one, &mine), (&other, &theirs)] {
            for seed in 0..2 {
                let mut rng = SeededRng::new(seed);
                scope.spawn(move || {
                    for _ in 0..15 {
                        let from = i64::try_from(rng.below(12)).unwrap();
                        transfer(db, accounts, from, (from + 5) % ACCOUNTS).unwrap();
                        let snapshot = db.snapshot().unwrap();
                        let rows = accounts.scan(&snapshot).map(|row| row.unwrap().1.balance);
                        assert_eq!(rows.sum::<i64>(), 10 * ACCOUNTS);
                    }
                });
            }
        }
    });

    let (raw, far) = (one.raw("raw").unwrap(), other.raw("raw").unwrap());
    one.transact(|tx| (0..150).try_for_each(|n| raw.put(tx, format!("{n:03}"), "v"))).unwrap();
    let snapshot = other.snapshot().unwrap();
    let keys = |rows: Vec<Result<(carnet::Bytes, carnet::Bytes)>>| -> Vec<carnet::Bytes> {
        rows.into_iter().map(|row| row.unwrap().0).collect()
    };
    let up = keys(far.range(&snapshot, "010".."140").collect());
    let mut down = keys(far.range(&snapshot, "010".."140").rev().collect());
    down.reverse();
    assert_eq!((up.len(), &up[0][..], &up[129][..]), (130, &b"010"[..], &b"139"[..]));
    assert_eq!(up, down);

    let commit = one.begin().unwrap();
    raw.put(&commit, "late", "v").unwrap();
    let start = commit.as_async().start_timestamp().unwrap();
    let at = commit.commit().unwrap();
    assert_eq!(other.outcome(start).unwrap(), carnet::Outcome::Committed(at));
    // Only the leader deletes overwritten cells.
    one.compact().unwrap();
    assert_eq!(other.compact().unwrap_err().kind(), ErrorKind::Unavailable);
    let rows = mine.scan(&one.snapshot().unwrap()).map(|row| row.unwrap().1.balance);
    assert_eq!(rows.sum::<i64>(), 10 * ACCOUNTS);

    block_on(one.leave());
    other.transact(|tx| far.put(tx, "after", "v")).unwrap();
    assert!(other.is_leading());
    // A process with the wrong secret learns nothing, and reports the cause.
    let wrong = url
        .replace(&secret_file("sixteen-letters-or-more"), &secret_file("another-sixteen-or-more"))
        .replace("leader_timeout=60s", "leader_timeout=1s");
    let refused = Db::open(&wrong).err().unwrap();
    assert!(refused.to_string().contains("cannot be reached"), "{refused}");
}

#[test]
fn stock_drivers_run_application_statements() {
    let Some(url) = store(LONG_LEASE) else { return };
    let (Some(python), Some(node)) = (clients::python(), clients::node()) else { return };
    let server = Server::of_store(&url, "127.0.0.1:0");
    let mut driver = Command::new(python);
    succeed(driver.arg(e2e("python_driver.py")).args([&server.port(), "12"]));
    let mut driver = Command::new("node");
    driver.env("NODE_PATH", node.join("node_modules"));
    succeed(driver.arg(e2e("node_driver.js")).arg(server.port()));
    server.terminate();
    let (status, said) = server.wait();
    assert!(status.success() && said == "stopped\n", "{status}: {said}");
}

#[test]
fn clients_discover_the_other_servers() {
    let Some(url) = store(&format!("{LONG_LEASE}{}", loopback())) else { return };
    let Some(python) = clients::python() else { return };
    let first = Server::of_store(&url, "127.0.0.1:0");
    let mut second = Server::of_store(&url, "127.0.0.2:0");
    let mut command = Command::new(python);
    command.arg(e2e("two_servers.py")).args([first.cql.to_string(), second.cql.to_string()]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut application = Guard::new(child);
    let mut said = String::new();
    application.stdout().read_line(&mut said).unwrap();
    assert_eq!(said, "both\n", "see above");
    second.process.kill();
    writeln!(application.stdin(), "it is dead").unwrap();
    assert!(application.wait().success(), "see above");
}

/// Two servers, each killed and paused repeatedly, with clients at both.
#[test]
fn killed_and_paused_servers_lose_nothing() {
    let seconds = variable("CARNET_CLUSTER_SECONDS").unwrap_or(9).to_string();
    let seed =
        variable("CARNET_CLUSTER_SEED").unwrap_or_else(|| SeededRng::from_entropy().next_u64());
    println!("replay: CARNET_CLUSTER_SEED={seed} cargo test -p carnet-cli --test cassandra");
    for workload in ["list-append,phantom,bank", "register,write-skew"] {
        let Some(url) = store(&loopback()) else { return };
        let mut stress = carnet();
        stress.args(["stress", "--store", &url, "--workload", workload, "--servers", "2"]);
        stress.args(["--kill-every", "2.5", "--pause-every", "3", "--seconds", &seconds]);
        let said = succeed(stress.args(["--clients", "6", "--seed", &seed.to_string()]));
        assert!(said.contains("strictly serializable, nothing acknowledged is missing"), "{said}");
        println!("{workload}: {said}");
    }
}

/// Like `crash.rs`, but on a cluster: transfers with a server that is killed.
#[test]
fn money_is_neither_created_nor_lost() {
    let Some(url) = store(&loopback()) else { return };
    let Some(python) = clients::python() else { return };
    let seed =
        variable("CARNET_CLUSTER_SEED").unwrap_or_else(|| SeededRng::from_entropy().next_u64());
    let replay = format!(
        "replay: CARNET_CLUSTER_SEED={seed} cargo test -p carnet-cli --test cassandra money"
    );
    let mut server = Server::of_store(&url, "127.0.0.1:0");
    let listen = server.cql.to_string();
    let mut bank = clients::Bank::start(&python, &server.port(), seed, 60);
    bank.ask("setup", &replay);
    for round in 0..2 {
        bank.ask(&format!("round {round}"), &replay);
        support::pause(std::time::Duration::from_millis(700));
        server.process.kill();
        server = Server::of_store(&url, &listen);
        println!("round {round} {}", bank.ask(&format!("check {round}"), &replay));
    }
    println!("{}", bank.ask("check all", &replay));
}

#[test]
fn the_shell_works_on_a_cluster() {
    let Some(url) = store(LONG_LEASE) else { return };
    let cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
               'replication_factor': 1}; CREATE TABLE k.t (a int PRIMARY KEY, b text); \
               INSERT INTO k.t (a, b) VALUES (1, 'x'); SELECT * FROM k.t";
    let said = succeed(carnet().args(["shell", "--store", &url, "--json", "-e", cql]));
    assert_eq!(said, "{\"a\":1,\"b\":\"x\"}\n");
    // The next process need not wait for the lease.
    let cql = "SELECT b FROM k.t WHERE a = 1";
    let said = succeed(carnet().args(["shell", "--store", &url, "--json", "-e", cql]));
    assert_eq!(said, "{\"b\":\"x\"}\n");
}

#[test]
fn the_readme_command_runs() {
    let Some(node) = node::node() else { return };
    let readme = include_str!("../../../../README.md");
    let printed = readme.lines().find(|line| line.contains("shell --store")).unwrap();
    let command = printed.strip_prefix("cargo run --release -- ").unwrap();
    let command = command.replace("127.0.0.1:PORT", &node.contact_point).replace('\'', "");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = succeed(carnet().args(command.split_whitespace()).current_dir(root));
    assert!(said.contains("8 ┆  1000"), "{said}");
}

#[test]
fn the_commit_table_is_migrated() {
    let Some(url) = store(LONG_LEASE) else { return };
    let migrate = |to| {
        let mut command = carnet();
        command.args(["migrate", "--store", &url, "--to", to]);
        command
    };
    let shell = |cql| succeed(carnet().args(["shell", "--store", &url, "--json", "-e", cql]));
    shell(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}; CREATE TABLE k.t (a int PRIMARY KEY); \
         INSERT INTO k.t (a) VALUES (1)",
    );
    assert_eq!(succeed(&mut migrate("v3")), "v3 is in force already\n");
    let said = succeed(&mut migrate("v2"));
    assert!(
        said.starts_with("starts from ") && said.ends_with(" on are written as v2\n"),
        "{said}"
    );
    let refused = fail(&mut migrate("v1"));
    assert!(refused.contains("v1"), "{refused}");
    assert_eq!(shell("INSERT INTO k.t (a) VALUES (2); SELECT a FROM k.t").lines().count(), 2);
}

/// What makes a cluster weaker than its operator may think is in the log and in the metrics.
#[test]
fn weak_settings_are_named() {
    let Some(node) = node::start_that_syncs_later() else { return };
    let url = format!("cassandra://{}/weak?replication=1&request_timeout=6s", node.contact_point);
    let server = Server::of_store(&url, "127.0.0.1:0");
    let (_, metrics) = server.get("/metrics");
    for line in
        ["carnet_cluster_syncs_later 1", "carnet_cluster_leader 1", "carnet_cluster_failing 0"]
    {
        assert!(metrics.lines().any(|have| have == line), "{line} in {metrics}");
    }
    let page = include_str!("../../../../docs/metrics.md");
    for help in metrics.lines().filter_map(|line| line.strip_prefix("# HELP carnet_cluster_")) {
        let (name, help) = help.split_once(' ').unwrap();
        let name = format!("| `carnet_cluster_{name}` | ");
        let is_listed =
            |line: &str| line.starts_with(&name) && line.ends_with(&format!(" {help} |"));
        assert!(page.lines().any(is_listed), "{name}: {help}");
    }
    let log = server.log();
    assert!(log.contains("commitlog_sync: periodic"), "{log}");
    assert!(log.contains("request_timeout of 6s is not shorter than leader_timeout"), "{log}");

    let Some(url) = store(LONG_LEASE) else { return };
    let server = Server::of_store(&url, "127.0.0.1:0");
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\ncarnet_cluster_syncs_later 0\n"), "{metrics}");
    assert!(
        metrics.contains("\ncarnet_cluster_requests_total{kind=\"conditional_write\"} "),
        "{metrics}"
    );
    assert!(!server.log().contains("commitlog_sync"), "{}", server.log());
}

#[test]
fn errors_about_urls_show_no_password() {
    let url = "cassandra://ann:s3cret@127.0.0.1/ks";
    for command in ["serve", "shell"] {
        let error = fail(carnet().args([command, "--store", url]));
        assert!(error.contains("by the options password_file"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    for arguments in [
        &["backup", "--store", url, "--label", "nowhere"][..],
        &["restore", "--store", url, "--label", "nowhere"],
        &["migrate", "--store", url, "--to", "v3"],
        &["stress", "--store", url],
    ] {
        let error = fail(carnet().args(arguments));
        assert!(error.contains("by the options password_file"), "{arguments:?}: {error}");
    }
    let url = "cassandra://ann:s3cret@127.0.0.1/ks.t";
    let error = fail(carnet().args(["import", "--dir", "nowhere", "--from", url]));
    assert!(error.contains("by the options password_file") && !error.contains("s3cret"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    let cluster = "[cluster]\nurl = \"cassandra://ann:s3cret@127.0.0.1/ks?colour=red\"\n";
    std::fs::write(&settings, cluster).unwrap();
    let error = fail(carnet().arg("serve").arg("--config").arg(&settings));
    assert!(error.contains("colour") && !error.contains("s3cret"), "{error}");
    let error = fail(carnet().args(["shell", "--store", "cassandra://127.0.0.1:1/ks", "-e", ""]));
    assert!(error.contains("no cluster answers at 127.0.0.1:1"), "{error}");
}
