//! `carnet serve`: ports, passwords, and draining.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;

use crate::support;
use crate::support::{Server, carnet, clients, e2e, eventually, fail, pause, succeed, text};

#[test]
fn http_endpoints_answer() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.get("/livez"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(server.get("/readyz").0, "HTTP/1.1 200 OK");
    assert_eq!(server.get("/nothing").0, "HTTP/1.1 404 Not Found");
    let (status, metrics) = server.get("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for name in ["carnet_server_connections", "carnet_published_timestamp", "carnet_storage_"] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} in:\n{metrics}");
    }
}

/// A directory in place of the manifest's next version makes its write fail.
#[test]
fn stopped_store_is_not_ready_and_fails_at_exit() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\ncarnet_storage_stopped 0\n"), "{metrics}");
    std::fs::create_dir(directory.path().join("MANIFEST.tmp")).unwrap();
    fail(carnet().arg("migrate").arg(directory.path()).args(["--to", "v3"]));
    let (status, why) = server.get("/readyz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(why.contains("has stopped writing") && why.contains("MANIFEST.tmp"), "{why}");
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\ncarnet_storage_stopped 1\n"), "{metrics}");
    server.terminate();
    let (status, said) = server.wait();
    assert_eq!((status.code(), said.as_str()), (Some(1), ""));
}

/// The rest of the database is served, and the file is named from the first read that fails.
#[test]
fn damaged_table_is_named_and_the_rest_is_served() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let mut script = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                      'replication_factor': 1}; CREATE TABLE k.t (a int PRIMARY KEY, b text);\n"
        .to_owned();
    for row in 0..500 {
        let text = format!("{row:04}").repeat(100);
        writeln!(script, "INSERT INTO k.t (a, b) VALUES ({row}, '{text}');").unwrap();
    }
    let file = root.path().join("rows.cql");
    std::fs::write(&file, script).unwrap();
    succeed(carnet().arg("shell").arg(&path).arg("-f").arg(&file));
    succeed(carnet().arg("compact").arg(&path));
    let tables = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let mut tables = tables.filter(|path| path.extension().is_some_and(|sst| sst == "sst"));
    let (table, None) = (tables.next().unwrap(), tables.next()) else { panic!("one table") };
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();

    let server = Server::start(&path, &[]);
    assert_eq!(server.get("/readyz"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let session = SessionBuilder::new().known_node(server.cql.to_string());
    let session = runtime.block_on(session.build()).unwrap();
    let read = |row: i32| {
        let text = format!("SELECT b FROM k.t WHERE a = {row}");
        runtime.block_on(session.query_unpaged(text, ())).is_ok()
    };
    let served = (0..500).filter(|row| read(*row)).count();
    assert!((1..500).contains(&served), "{served}");
    let (status, what) = server.get("/readyz");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(status == "HTTP/1.1 200 OK" && what.contains(name), "{status}: {what}");
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\ncarnet_storage_tables_damaged 1\n"), "{metrics}");
}

#[test]
fn idle_server_ends_at_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    server.terminate();
    let (status, said) = server.wait();
    assert!(status.success(), "{status}");
    assert_eq!(said, "stopped\n");
}

/// Sends a request of version 4, and returns the opcode and the body of its answer.
fn ask(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> (u8, Vec<u8>) {
    send(stream, opcode, body);
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[5..].try_into().unwrap());
    let mut body = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut body).unwrap();
    let payload = if head[1] & 4 == 0 { 0 } else { payload_len(&body) };
    (head[4], body.split_off(payload))
}

/// Returns the length of the custom payload at the begin of a body: a `[bytes map]`.
fn payload_len(body: &[u8]) -> usize {
    let short = |at: usize| usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    let mut end = 2;
    for _ in 0..short(0) {
        end += 2 + short(end);
        let value = u32::from_be_bytes(body[end..end + 4].try_into().unwrap());
        end += 4 + usize::try_from(value).unwrap();
    }
    end
}

fn send(stream: &mut TcpStream, opcode: u8, body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    stream.write_all(&[&[4, 0, 0, 1, opcode], &length[..], body].concat()).unwrap();
}

/// Returns the body of a QUERY.
fn query(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&length[..], text.as_bytes(), &[0, 1, 0]].concat()
}

/// A statement that calculates for a minute ends at its deadline, and SIGTERM ends the server while it
/// runs, after the time that a setting says.
#[test]
fn statement_ends_at_its_deadline_and_at_sigterm() {
    const ERROR: u8 = 0;
    const STARTUP: u8 = 1;
    const QUERY: u8 = 7;
    const RESULT: u8 = 8;
    const READ_TIMEOUT: [u8; 4] = [0, 0, 0x12, 0];
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    std::fs::write(&settings, "[server]\nshutdown_timeout = \"1s\"\n").unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &["--config", settings.to_str().unwrap()]);
    let mut stream = TcpStream::connect(server.cql).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    ask(&mut stream, STARTUP, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
    let run = |stream: &mut TcpStream, text: &str| {
        let (opcode, body) = ask(stream, QUERY, &query(text));
        assert_eq!(opcode, RESULT, "{}", String::from_utf8_lossy(&body));
    };
    run(&mut stream, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    run(&mut stream, "CREATE TABLE ks.t (k int, c int, a int, PRIMARY KEY (k, c))");
    for k in 0..100 {
        let inserts: Vec<String> =
            (0..100).map(|c| format!("INSERT INTO ks.t (k, c, a) VALUES ({k}, {c}, 3);")).collect();
        run(&mut stream, &format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.concat()));
    }
    let nested = format!("SELECT {}k{} FROM ks.t LIMIT 1", "abs(k+".repeat(60), ")".repeat(60));
    run(&mut stream, &nested);
    let long = format!("SELECT {} FROM ks.t", vec!["a * a % 7"; 30_000].join(" + "));
    let (opcode, body) = ask(&mut stream, QUERY, &query(&format!("{long} USING TIMEOUT 300ms")));
    assert_eq!((opcode, &body[..4]), (ERROR, &READ_TIMEOUT[..]), "{}", text(&body[6..]));
    send(&mut stream, QUERY, &query(&long));
    while !server.get("/metrics").1.contains("\ncarnet_server_requests_in_flight 1\n") {
        pause(Duration::from_millis(10));
    }
    server.terminate();
    let (status, said) = server.wait();
    // The database is closed cleanly, and the exit code says that the statement was cut off.
    assert_eq!((status.code(), &*said), (Some(3), "stopped\n"));
}

#[test]
fn drain_answers_all_requests() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = std::process::Command::new(python);
    command.arg(e2e("drain.py")).args([server.port(), server.process.id().to_string()]);
    let said = succeed(&mut command);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
    // Answered writes are present after the database is opened again.
    let acknowledged: Vec<&str> = said.trim().split(' ').collect();
    let rows = support::rows(directory.path(), "SELECT id FROM drain.t");
    for id in &acknowledged {
        assert!(rows.lines().any(|row| row == format!("{{\"id\":{id}}}")), "{id} in:\n{rows}");
    }
    // And there are no others: every completed write was answered.
    assert_eq!(rows.lines().count(), acknowledged.len());
    assert!(acknowledged.len() > 100, "{said}");
}

#[test]
fn malformed_frame_ends_only_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut stream = TcpStream::connect(server.cql).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Version 4, OPTIONS, and a body of 2 GiB.
    stream.write_all(&[0x04, 0, 0, 0, 0x05, 0x7f, 0xff, 0xff, 0xff]).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // ERROR, with the code for protocol errors.
    assert_eq!((answer[0] & 0x80, answer[4]), (0x80, 0x00));
    assert_eq!(answer[9..13], [0, 0, 0, 0x0a]);
    assert_eq!(server.get("/readyz").0, "HTTP/1.1 200 OK");
}

#[test]
fn address_beyond_loopback_requires_users() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = carnet();
    command.arg("serve").arg(directory.path());
    let error = fail(command.args(["--listen", "0.0.0.0:0", "--http", "off"]));
    assert!(error.contains("refusing to listen"), "{error}");
    assert!(error.contains("password"), "{error}");
}

#[test]
fn service_levels_hold_for_stock_drivers() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    let line = |user| hash_password(user, "correct horse");
    std::fs::write(&users, format!("{}\n{}", line("ann").trim_end(), line("bob"))).unwrap();
    set_mode(&users, 0o600);
    let users = users.to_str().unwrap();
    let server = Server::start(&directory.path().join("data"), &["--users", users]);
    let mut command = std::process::Command::new(python);
    succeed(command.arg(e2e("service_levels.py")).arg(server.port()));
}

#[test]
fn users_have_to_log_in() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    std::fs::write(&users, hash_password("ann", "correct horse")).unwrap();
    set_mode(&users, 0o600);
    let users = users.to_str().unwrap();
    let server = Server::start(&directory.path().join("data"), &["--users", users]);
    let mut command = std::process::Command::new(python);
    succeed(command.arg(e2e("auth.py")).arg(server.port()));
    let log = server.log();
    assert!(log.contains("log-in refused: the user or the password is wrong"), "{log}");
    assert!(log.contains("peer=127.0.0.1:") && log.contains("user=\"ann\""), "{log}");
}

#[test]
fn changed_users_file_is_loaded_at_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    let write = |name: &str| {
        std::fs::write(&users, hash_password(name, "correct horse")).unwrap();
        set_mode(&users, 0o600);
    };
    write("ann");
    let arguments = ["--users", users.to_str().unwrap()];
    let server = Server::start(&directory.path().join("data"), &arguments);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connect = |name: &str| {
        let session = SessionBuilder::new().known_node(server.cql.to_string());
        let session = runtime.block_on(session.user(name, "correct horse").build());
        session.map_err(|error| error.to_string())
    };
    let ann = connect("ann").unwrap();
    let ask = || {
        let answer = runtime.block_on(ann.query_unpaged("SELECT key FROM system.local", &[]));
        answer.map_err(|error| error.to_string())
    };
    ask().unwrap();
    write("bob");
    succeed(std::process::Command::new("kill").args(["-HUP", &server.process.id().to_string()]));
    eventually("statements of ann's open connections are refused", || ask().is_err());
    let refusal = ask().unwrap_err();
    assert!(refusal.contains("user ann was removed from the users file"), "{refusal}");
    assert!(connect("ann").is_err());
    connect("bob").unwrap();
    let log = server.log();
    let told = |words| log.find(words).unwrap_or_else(|| panic!("{words:?} in {log}"));
    assert!(
        told("SIGHUP: loading the certificates, the users file")
            < told("the users file has changed"),
        "{log}"
    );
}

#[test]
fn levels_of_the_log_are_loaded_at_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    let write = |levels: &str| {
        let text = format!("[log]\nformat = \"json\"\nlevels = \"{levels}\"\n");
        std::fs::write(&settings, text).unwrap();
    };
    write("warn");
    let arguments = ["--config", settings.to_str().unwrap()];
    let server = Server::start(&directory.path().join("data"), &arguments);
    assert!(!server.log().contains("\"level\":\"INFO\""), "{}", server.log());
    write("info");
    let hang_up = || {
        succeed(std::process::Command::new("kill").args(["-HUP", &server.process.id().to_string()]))
    };
    hang_up();
    let told = "the levels of the log are loaded again";
    eventually("the log has lines of the level info", || server.log().contains(told));
    let shown = || {
        let query = "SELECT value FROM system_views.settings WHERE name = 'log.levels'";
        let mut command = carnet();
        succeed(command.args(["shell", "--server", &server.cql.to_string(), "--csv", "-e", query]))
    };
    assert!(shown().contains("info"), "{}", shown());
    write("loud");
    hang_up();
    eventually("wrong levels are reported", || server.log().contains("expected a level"));
    assert!(shown().contains("info"), "the old ones stay: {}", shown());
    for line in server.log().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}

#[test]
fn audit_log_has_log_ins_and_statements() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("users"), hash_password("ann", "correct horse")).unwrap();
    set_mode(&path("users"), 0o600);
    let settings = "[server]\nusers = \"users\"\n[audit]\nlog = \"audit.log\"\n";
    std::fs::write(path("carnet.toml"), settings).unwrap();
    let arguments = ["--config", path("carnet.toml").to_str().unwrap()].map(str::to_owned);
    let server = Server::start(&path("data"), &arguments.each_ref().map(String::as_str));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connect = |password: &str| {
        let session = SessionBuilder::new().known_node(server.cql.to_string());
        let session = runtime.block_on(session.user("ann", password).build());
        session.map_err(|error| error.to_string())
    };
    assert!(connect("wrong").is_err());
    let session = connect("correct horse").unwrap();
    let create = "CREATE ROLE bob WITH PASSWORD = 'battery staple'";
    runtime.block_on(session.query_unpaged(create, &[])).unwrap();
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains("\ncarnet_audit_lost_total 0\n"), "{metrics}");
    server.terminate();
    let (status, _) = server.wait();
    assert!(status.success());
    let log = std::fs::read_to_string(path("audit.log")).unwrap();
    assert!(!log.contains("horse") && !log.contains("staple") && !log.contains("SELECT"), "{log}");
    let has = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    let login = "\"category\":\"login\",\"operation\":\"LOGIN\",\"user\":\"ann\"";
    assert!(has(&[login, "\"outcome\":\"error\"", "the user or the password is wrong"]), "{log}");
    assert!(has(&[login, "\"outcome\":\"ok\""]), "{log}");
    assert!(has(&["\"category\":\"dcl\"", "CREATE ROLE bob WITH PASSWORD = '***'"]), "{log}");
}

#[test]
fn roles_log_in_and_are_checked() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let first = data.join("first-superuser");
    let server = Server::start(&data, &["--roles"]);
    let mut command = std::process::Command::new(python);
    succeed(command.arg(e2e("roles.py")).arg(server.port()).arg(&first));
    let log = server.log();
    assert!(log.contains("first-superuser") && !log.contains("correct horse"), "{log}");
    let password = std::fs::read_to_string(&first).unwrap();
    assert!(!log.contains(password.trim().split_once(':').unwrap().1), "{log}");
}

fn hash_password(name: &str, password: &str) -> String {
    let mut command = carnet();
    command.args(["hash-password", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(!text(&output.stdout).contains(password));
    text(&output.stdout).to_owned()
}

#[test]
fn command_line_overrides_the_settings_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("carnet.toml");
    let name = file.to_str().unwrap();
    succeed(carnet().args(["config", "init", name]));
    assert_eq!(
        succeed(carnet().args(["config", "check", name])),
        format!("{name}: serves carnet-data on 127.0.0.1:9042\n")
    );
    let again = fail(carnet().args(["config", "init", name]));
    assert!(again.contains("exists already"), "{again}");

    let settings = "[server]\nlisten = \"127.0.0.1:1\"\n[database]\ndirectory = \"bank\"\n";
    std::fs::write(&file, settings).unwrap();
    // The server's own arguments: a port, and a directory of the test.
    let server = Server::start(&directory.path().join("other"), &["--config", name]);
    assert_ne!(server.port(), "1");
    assert!(directory.path().join("other").exists() && !directory.path().join("bank").exists());
    let said = succeed(carnet().args(["config", "check", name]));
    let bank = directory.path().join("bank");
    assert!(said.contains(&format!("serves {} on 127.0.0.1:1", bank.display())), "{said}");

    std::fs::write(&file, format!("{settings}colour = \"red\"\n")).unwrap();
    for command in [&["config", "check", name][..], &["serve", "--config", name]] {
        let error = fail(carnet().args(command));
        assert!(
            error.contains(&format!("{name}, line 5: [database] has no setting colour")),
            "{error}"
        );
    }
}

/// Drivers and schemas use the name of the data centre.
#[test]
fn data_center_has_the_name_of_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("carnet.toml");
    std::fs::write(&file, "[server]\ndata_center = \"eu-1\"\n").unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &["--config", file.to_str().unwrap()]);
    let address = format!("127.0.0.1:{}", server.port());
    let create =
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'eu-1': 3}";
    let statements = format!("{create}; SELECT data_center FROM system.local; DESCRIBE KEYSPACE k");
    let said = succeed(carnet().args(["shell", "--server", &address, "--csv", "-e", &statements]));
    assert!(said.contains("data_center\neu-1\n") && said.contains("'eu-1': '3'"), "{said}");
    server.terminate();
    server.wait();

    let path = data.to_str().unwrap();
    let alter =
        "ALTER KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'eu-1': 1}";
    succeed(carnet().args(["shell", path, "--data-center", "eu-1", "-e", alter]));
    let refused = fail(carnet().args(["shell", path, "-e", alter]));
    assert!(refused.contains("use 'datacenter1'"), "{refused}");

    let script = directory.path().join("schema.cql");
    std::fs::write(&script, create).unwrap();
    let script = script.to_str().unwrap();
    succeed(carnet().args(["check", script, "--data-center", "eu-1"]));
    fail(carnet().args(["check", script]));
}

/// `config check` refuses a file exactly if `serve` does, with the same reason.
#[test]
fn config_check_refuses_what_serve_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("carnet.toml");
    let name = file.to_str().unwrap();
    std::fs::write(directory.path().join("short"), "12345\n").unwrap();
    let users = directory.path().join("users");
    std::fs::write(&users, hash_password("ann", "correct horse")).unwrap();
    set_mode(&users, 0o600);
    let cluster = "[cluster]\nurl = \"cassandra://127.0.0.1:1/k\"\nlisten = \"127.0.0.1:0\"\n";
    for (settings, reason) in [
        ("[server]\nlisten = \"0.0.0.0:0\"\n".to_owned(), "without passwords"),
        ("[server]\nusers = \"missing\"\n".to_owned(), "cannot read the users in"),
        (
            "[server]\nhttp = \"0.0.0.0:0\"\n".to_owned(),
            "refusing to listen for HTTP on 0.0.0.0:0 without a token",
        ),
        (
            "[server]\nlisten = \"0.0.0.0:0\"\nusers = \"users\"\n".to_owned(),
            "refusing to listen on 0.0.0.0:0 without TLS",
        ),
        ("[server]\nhttp_token_file = \"short\"\n".to_owned(), "16 ASCII characters"),
        ("[tls]\ncert = \"c\"\n".to_owned(), "needs its private key"),
        ("[tls]\ncert = \"c\"\nkey = \"k\"\n".to_owned(), "cannot read"),
        (format!("{cluster}secret_file = \"missing\"\n"), "cannot read the secret in"),
        (format!("{cluster}secret_file = \"short\"\n"), "secret"),
        (format!("{cluster}secret = \"12345\"\n"), "secret"),
        (format!("{cluster}peer_cert = \"c\"\npeer_key = \"k\"\npeer_ca = \"a\"\n"), "cannot read"),
        (
            "[server]\nmemory = \"256MiB\"\nrequest_memory = \"1GiB\"\n".to_owned(),
            "server.request_memory of 1024 MiB is too much",
        ),
        ("[server]\nmemory = \"256MiB\"\n[database]\nmemory = \"1GiB\"\n".to_owned(), "too little"),
    ] {
        std::fs::write(&file, &settings).unwrap();
        set_mode(&file, 0o600);
        let checked = fail(carnet().args(["config", "check", name]));
        assert!(checked.contains(reason), "{settings}: {checked}");
        let served = fail(carnet().args(["serve", "--config", name]));
        assert!(served.contains(checked.trim_end()), "{settings}: {served} and {checked}");
        assert!(!directory.path().join("carnet-data").exists(), "{settings}");
    }
}

#[test]
fn invalid_users_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    std::fs::write(&users, "ann:secret\n").unwrap();
    set_mode(&users, 0o600);
    let mut command = carnet();
    command.arg("serve").arg(directory.path().join("data")).arg("--users").arg(&users);
    let error = fail(&mut command);
    assert!(error.contains(users.to_str().unwrap()) && error.contains("line 1"), "{error}");
}

#[test]
fn taken_port_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("a"), &[]);
    let mut command = carnet();
    command.arg("serve").arg(directory.path().join("b"));
    let error = fail(command.args(["--listen", &server.cql.to_string(), "--http", "off"]));
    assert!(error.contains(&server.cql.to_string()), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "an operator deletes a file of the database")]
fn second_server_is_refused_without_the_lock_file() {
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), &[]);
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    let mut command = carnet();
    command.arg("serve").arg(directory.path());
    let error = fail(command.args(["--listen", "127.0.0.1:0", "--http", "off"]));
    assert!(error.contains("is in use by another process"), "{error}");
}

#[test]
fn users_file_that_others_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    std::fs::write(&users, hash_password("ann", "correct horse")).unwrap();
    set_mode(&users, 0o666);
    let mut command = carnet();
    command.arg("serve").arg(directory.path().join("data")).arg("--users").arg(&users);
    let error = fail(command.args(["--listen", "127.0.0.1:0", "--http", "off"]));
    assert!(error.contains("mode 666") && error.contains("chmod 600"), "{error}");
    // A file that others can only read makes a warning; its invalid line then ends the server.
    set_mode(&users, 0o644);
    std::fs::write(&users, "ann:secret\n").unwrap();
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = text(&stderr);
    assert!(
        !status.success() && stderr.contains("WARN") && stderr.contains("mode 644"),
        "{stderr}"
    );
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
