//! The dashboard in headless Chromium, on the real server under load. The tests of the pages are in
//! `tests/e2e/dashboard`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support;
use crate::support::clients::Browser;
use crate::support::{Server, carnet, clients, e2e, eventually, succeed};

const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.sales (id bigint PRIMARY KEY, amount int, at timestamp)",
    "CREATE INDEX sales_by_amount ON shop.sales (amount)",
];

/// A server with a table, its clients, and a load that runs until it is stopped.
struct Shop {
    runtime: Runtime,
    session: Arc<Session>,
    server: Server,
    load: Option<JoinHandle<()>>,
    stops: Arc<AtomicBool>,
    directory: tempfile::TempDir,
}

impl Shop {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(&directory.path().join("data"), &[]);
        let runtime = Runtime::new().unwrap();
        let address = server.cql.to_string();
        let session = runtime.block_on(SessionBuilder::new().known_node(address).build()).unwrap();
        for statement in SCHEMA {
            runtime.block_on(session.query_unpaged(statement, ())).unwrap();
        }
        let (session, stops) = (Arc::new(session), Arc::default());
        Self { runtime, session, server, load: None, stops, directory }
    }

    /// Begins to write and read sales.
    fn with_load(mut self) -> Self {
        let (session, stops) = (Arc::clone(&self.session), Arc::clone(&self.stops));
        self.load = Some(self.runtime.spawn(async move {
            let insert =
                "INSERT INTO shop.sales (id, amount, at) VALUES (?, ?, toTimestamp(now()))";
            let insert = session.prepare(insert).await.unwrap();
            let select =
                session.prepare("SELECT amount FROM shop.sales WHERE id = ?").await.unwrap();
            let mut id = 0_i64;
            while !stops.load(Ordering::Relaxed) {
                let amount = i32::try_from(id % 100).unwrap();
                session.execute_unpaged(&insert, (id % 500, amount)).await.unwrap();
                session.execute_unpaged(&select, (id % 500,)).await.unwrap();
                id += 1;
            }
        }));
        self
    }

    /// Ends the load, and waits for its last answers.
    fn end_load(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(load) = self.load.take() {
            self.runtime.block_on(load).unwrap();
        }
    }
}

/// Runs a test of the pages, which must succeed.
fn run(browser: &Browser, test: &str, server: &Server, arguments: &[&str]) {
    let mut command = Command::new("node");
    command.env("NODE_PATH", &browser.modules).env("CHROMIUM", &browser.chromium);
    command.arg(e2e("dashboard/dashboard.js")).arg(test).arg(format!("http://{}", server.http));
    succeed(command.args(arguments));
}

#[test]
fn pages_are_shown_under_load() {
    let Some(browser) = clients::browser() else { return };
    let shop = Shop::open().with_load();
    run(&browser, "pages", &shop.server, &[]);
}

#[test]
fn figures_are_those_of_the_metrics() {
    let Some(browser) = clients::browser() else { return };
    let mut shop = Shop::open().with_load();
    run(&browser, "rates", &shop.server, &[]);
    shop.end_load();
    let place = |name| shop.directory.path().join(name);
    succeed(carnet().arg("backup").arg(place("data")).arg(place("backups")));
    run(&browser, "figures", &shop.server, &[]);
}

/// Rates, percentiles and texts of numbers, without a server.
#[test]
fn figures_are_computed_from_samples() {
    let Some(node) = clients::javascript() else { return };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/dashboard");
    succeed(Command::new(node).arg(e2e("dashboard/figures.mjs")).arg(scripts));
}

#[test]
fn console_is_off_by_a_setting() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("carnet.toml");
    std::fs::write(&config, "[server]\nhttp_console = false\n").unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let server = Server::start(&directory.path().join("data"), &arguments);
    run(&browser, "consoleless", &server, &[]);
}

#[test]
fn click_kills_a_transaction() {
    let Some(browser) = clients::browser() else { return };
    let shop = Shop::open();
    let query = |statement: String| {
        let answer = shop.runtime.block_on(shop.session.query_unpaged(statement, ()));
        answer.map_err(|error| error.to_string())
    };
    let started = query("START DETACHED TRANSACTION".to_owned()).unwrap();
    let (id,) = started.into_rows_result().unwrap().single_row::<(Uuid,)>().unwrap();
    query(format!("INSERT INTO shop.sales (id, amount) VALUES (1, 1) USING TRANSACTION {id}"))
        .unwrap();
    run(&browser, "kill", &shop.server, &[&id.to_string()]);
    let error = query(format!("COMMIT TRANSACTION {id}")).unwrap_err();
    assert!(error.contains("rolled back by KILL TRANSACTION"), "{error}");
    let (_, figures) = shop.server.get("/metrics");
    assert!(figures.contains("carnet_open_transactions_ended_total{end=\"killed\"} 1\n"));
}

#[test]
fn users_log_in() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let users = users_file(directory.path());
    let audit = directory.path().join("audit.log");
    let config = directory.path().join("carnet.toml");
    std::fs::write(&config, format!("[audit]\nlog = {:?}\n", audit.to_str().unwrap())).unwrap();
    let arguments = ["--users", &users, "--config", config.to_str().unwrap()];
    let server = Server::start(&directory.path().join("data"), &arguments);
    run(&browser, "login", &server, &[]);
    let lines = || std::fs::read_to_string(&audit).unwrap_or_default();
    eventually("the log-ins and the change are in the audit log", || {
        let lines = lines();
        let login = |outcome: &str| {
            let outcome = format!("\"outcome\":\"{outcome}\"");
            lines.lines().any(|line| line.contains("\"LOGIN\"") && line.contains(&outcome))
        };
        let is_change =
            |line: &str| line.contains("CREATE KEYSPACE") && line.contains("\"user\":\"ann\"");
        login("ok") && login("error") && lines.lines().any(is_change)
    });
}

#[test]
fn token_hides_figures_until_the_log_in() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let users = users_file(directory.path());
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    let arguments = ["--users", &users, "--http-token-file", token.to_str().unwrap()];
    let server = Server::start(&directory.path().join("data"), &arguments);
    run(&browser, "token", &server, &[]);
}

#[test]
fn roles_have_their_permissions() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let users = users_file(directory.path());
    let server = Server::start(&directory.path().join("data"), &["--users", &users]);
    let runtime = Runtime::new().unwrap();
    let session = SessionBuilder::new().known_node(server.cql.to_string());
    let session = runtime.block_on(session.user("ann", "correct horse").build()).unwrap();
    let more = [
        "INSERT INTO shop.sales (id, amount) VALUES (1, 1)",
        "CREATE ROLE reader WITH LOGIN = true AND PASSWORD = 'secret'",
        "GRANT SELECT ON shop.sales TO reader",
    ];
    for statement in SCHEMA.iter().chain(&more) {
        runtime.block_on(session.query_unpaged(*statement, ())).unwrap();
    }
    run(&browser, "role", &server, &[]);
}

#[test]
fn console_runs_statements() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    run(&browser, "console", &server, &[]);
}

#[test]
fn keyboard_reaches_everything() {
    let Some(browser) = clients::browser() else { return };
    let shop = Shop::open();
    run(&browser, "keyboard", &shop.server, &[]);
}

#[test]
fn hidden_tab_asks_nothing() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    run(&browser, "hidden", &server, &[]);
}

#[test]
fn page_says_that_the_server_is_gone() {
    let Some(browser) = clients::browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(&directory.path().join("data"), &[]);
    let flag = directory.path().join("kill");
    let url = format!("http://{}", server.http);
    let path = flag.to_str().unwrap().to_owned();
    let page = support::spawn(move || {
        let mut command = Command::new("node");
        command.env("NODE_PATH", &browser.modules).env("CHROMIUM", &browser.chromium);
        succeed(command.arg(e2e("dashboard/dashboard.js")).args(["gone", &url, &path]));
    });
    eventually("the page has figures", || flag.exists() || page.is_finished());
    server.process.kill();
    page.join().unwrap();
}

/// Writes a users file with the user `ann`, and returns its path.
fn users_file(directory: &Path) -> String {
    let users = directory.join("users");
    let mut command = carnet();
    command.args(["hash-password", "ann"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "correct horse").unwrap();
    std::fs::write(&users, child.wait_with_output().unwrap().stdout).unwrap();
    succeed(Command::new("chmod").arg("600").arg(&users));
    users.to_str().unwrap().to_owned()
}
