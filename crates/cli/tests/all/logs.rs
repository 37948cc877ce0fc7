//! The log of `carnet serve`.

use std::process::Command;

use crate::support::{Server, carnet, eventually, succeed};

fn hang_up(server: &Server) {
    succeed(Command::new("kill").args(["-HUP", &server.process.id().to_string()]));
}

#[test]
fn levels_of_the_environment_come_before_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    std::fs::write(&settings, "[log]\nlevels = \"error\"\n").unwrap();
    let arguments = ["--config", settings.to_str().unwrap()];
    let data = directory.path().join("data");
    let server = Server::start_with_levels(&data, "info,carnet_server=debug", &arguments);
    assert!(server.log().contains(" INFO "), "{}", server.log());
    hang_up(&server);
    let told = "the levels of the log stay: RUST_LOG sets them";
    eventually("the log says what sets its levels", || server.log().contains(told));
    assert!(!server.log().contains("are loaded again"), "{}", server.log());
    let shown =
        run(&server, "SELECT value FROM system_views.settings WHERE name = 'log.levels'", &[]);
    assert!(shown.contains("info,carnet_server=debug"), "those in effect: {shown}");
}

#[test]
fn sighup_without_files_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    hang_up(&server);
    let told = "the levels of the log stay: there is no settings file";
    eventually("the log says that there are no levels", || server.log().contains(told));
    for told in ["there are no TLS certificates", "there is no users file"] {
        assert!(server.log().contains(told), "{}", server.log());
    }
}

/// Runs statements through a server.
fn run(server: &Server, cql: &str, arguments: &[&str]) -> String {
    let mut command = carnet();
    command.args(["shell", "--server", &server.cql.to_string(), "-e", cql]).args(arguments);
    succeed(&mut command)
}

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";

/// The log names version, settings, recovery and addresses.
#[test]
fn start_and_recovery_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let settings = directory.path().join("carnet.toml");
    std::fs::write(&settings, "[limits]\nscan_timeout = \"70s\"\n[database]\nmemory = \"64MiB\"\n")
        .unwrap();
    let arguments = ["--config", settings.to_str().unwrap(), "--durability", "none"];
    let mut server = Server::start(&data, &arguments);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("carnet serve starts")).unwrap();
    for part in [
        format!("version=\"{}\"", env!("CARGO_PKG_VERSION")),
        "limits.scan_timeout=70s".to_owned(),
        "database.durability=none".to_owned(),
        data.display().to_string(),
        format!("file=\"{}\"", settings.display()),
    ] {
        assert!(line.contains(&part), "{part:?} in {line}");
    }
    eventually("the log has the addresses", || {
        let addresses = [format!("cql={}", server.cql), format!("http=\"{}\"", server.http)];
        addresses.iter().all(|address| server.log().contains(address))
    });
    run(&server, &format!("{KEYSPACE} CREATE TABLE k.t (a int PRIMARY KEY)"), &[]);
    server.process.kill();
    let again = Server::start(&data, &[]);
    let log = again.log();
    let line = log.lines().find(|line| line.contains("its log was read")).unwrap();
    assert!(!line.contains("records=0 "), "{line}");
}

#[test]
fn slow_statements_are_told_unless_that_is_off() {
    for (slow, is_told) in [("1ms", true), ("off", false)] {
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("carnet.toml");
        std::fs::write(&settings, format!("[log]\nslow = \"{slow}\"\n")).unwrap();
        let arguments = ["--config", settings.to_str().unwrap()];
        let server = Server::start(&directory.path().join("data"), &arguments);
        run(&server, &format!("{KEYSPACE} CREATE TABLE k.t (a int PRIMARY KEY, b text)"), &[]);
        let rows = directory.path().join("rows.csv");
        let lines: String = (0..20_000).map(|row| format!("{row},geheim\n")).collect();
        std::fs::write(&rows, lines).unwrap();
        // A batch of rows, and a scan of all of them, take longer than a millisecond.
        let copy = format!("COPY k.t FROM '{}'; SELECT count(*) FROM k.t", rows.display());
        run(&server, &copy, &[]);
        let log = server.log();
        let slow: Vec<_> =
            log.lines().filter(|line| line.contains("a statement was slow")).collect();
        assert_eq!(!slow.is_empty(), is_told, "{log}");
        assert!(!log.contains("geheim"), "{log}");
        let scan = slow.iter().find(|line| line.contains("FROM k.t"));
        assert!(scan.is_none_or(|line| line.contains("client=\"127.0.0.1:")), "{scan:?}");
    }
}

/// Changes of the schema, of roles and of the server are told although there is no audit log.
#[test]
fn administration_is_told_without_an_audit_log() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &["--roles"]);
    let first = std::fs::read_to_string(data.join("first-superuser")).unwrap();
    let (user, password) = first.trim().split_once(':').unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, password).unwrap();
    let statements = format!(
        "{KEYSPACE} CREATE TABLE k.t (a int PRIMARY KEY); CREATE ROLE ann WITH PASSWORD = 'geheim'; \
         GRANT SELECT ON k.t TO ann; CREATE SERVICE LEVEL gold; LIST ROLES; INSERT INTO k.t (a) VALUES (1); \
         KILL STATEMENT 77; TRUNCATE k.t"
    );
    let mut command = carnet();
    command.args(["shell", "--server", &server.cql.to_string(), "--keep-going", "-e", &statements]);
    command.args(["--user", user, "--password-file"]).arg(&secret).output().unwrap();
    let log = server.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("administration: ")).collect();
    for operation in [
        "CREATE KEYSPACE",
        "CREATE TABLE",
        "CREATE ROLE",
        "GRANT",
        "CREATE SERVICE LEVEL",
        "KILL STATEMENT",
        "TRUNCATE",
    ] {
        let part = format!("administration: {operation} ");
        let line = lines.iter().find(|line| line.contains(&part));
        let line = line.unwrap_or_else(|| panic!("{part:?} in {log}"));
        assert!(line.contains(" INFO ") && line.contains("client=\"127.0.0.1:"), "{line}");
        assert!(line.contains(&format!("user={user:?}")), "{line}");
        assert_eq!(line.contains("error="), operation == "KILL STATEMENT", "{line}");
    }
    assert_eq!(lines.len(), 7, "{lines:#?}");
    assert!(!log.contains("geheim"), "{log}");
}

/// Operators read the values that are in effect, without a shell on the machine.
#[test]
fn settings_in_effect_can_be_queried() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    std::fs::write(&settings, "[server]\nmemory = \"512MiB\"\n[limits]\nscan_timeout = \"70s\"\n")
        .unwrap();
    let arguments = ["--config", settings.to_str().unwrap(), "--durability", "interval:5"];
    let server = Server::start(&directory.path().join("data"), &arguments);
    let said = run(&server, "SELECT name, value FROM system_views.settings", &["--csv"]);
    for row in [
        format!("server.listen,{}", server.cql),
        "server.memory,512MiB".to_owned(),
        "database.memory,256MiB".to_owned(),
        "database.durability,interval:5".to_owned(),
        "limits.scan_timeout,70s".to_owned(),
        "log.slow,500ms".to_owned(),
        "server.http_console,true".to_owned(),
        "range_request_timeout,70000ms".to_owned(),
    ] {
        assert!(said.lines().any(|line| line == row), "{row:?} in {said}");
    }
}
