//! A newcomer's first hour, in one go and in the order of README: the shell, a server, the shell and cqlsh on
//! it, the dashboard, and the end of a statement.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Server, carnet, clients, e2e, eventually, spawn, succeed};

/// Sends a request to the dashboard, and returns the head and the body of its answer.
fn send(server: &Server, line: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (host, length) = (server.http, body.len());
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{headers}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn post(server: &Server, path: &str, cookie: Option<&str>, body: &Value) -> (String, Value) {
    let cookie = cookie.map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
    let headers = format!("Content-Type: application/json\r\n{cookie}");
    let (head, body) = send(server, &format!("POST {path}"), &headers, &body.to_string());
    (head, serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[test]
fn first_hour_of_a_newcomer_works() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("carnet-data");
    let example = e2e("../../../../examples/bank.cql");
    // The shell on a new database, twice: the second time it is there.
    let shell = |arguments: &[&str]| succeed(carnet().arg("shell").args(arguments));
    let place = data.to_str().unwrap();
    shell(&[place, "-f", example.to_str().unwrap()]);
    let sum = "SELECT sum(balance) AS sum FROM bank.accounts";
    assert_eq!(shell(&[place, "--csv", "-e", sum]), "sum\n1000\n");

    // A server on the same data, and the shell on the server.
    let server = Server::start(&data, &[]);
    let address = server.cql.to_string();
    let remote = |statement: &str| shell(&["--server", &address, "--csv", "-e", statement]);
    assert_eq!(remote(sum), "sum\n1000\n");
    remote("START TRANSACTION; UPDATE bank.accounts SET balance = 0 WHERE id = 1; ROLLBACK");
    assert_eq!(remote(sum), "sum\n1000\n");

    // cqlsh on the server, if it can be installed here.
    if let Some(python) = clients::python() {
        let mut cqlsh = Command::new(python.with_file_name("cqlsh"));
        cqlsh.args(["--no-color", "127.0.0.1", &server.port(), "-e", sum]);
        assert!(succeed(cqlsh.env("HOME", directory.path())).contains("1000"));
    }

    // The dashboard is open, and its statements are answered.
    let (head, page) = send(&server, "GET /", "", "");
    assert!(head.contains("200 OK") && page.contains("<title>"), "{head}");
    let (head, _) = post(&server, "/api/login", None, &json!({}));
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|line| line.split(';').next()).unwrap_or_else(|| panic!("{head}"));
    let ask = |statement: &str| {
        let body = json!({ "statement": statement, "rows": 100, "console": true });
        post(&server, "/api/query", Some(cookie), &body)
    };
    let (head, answer) = ask(sum);
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {answer}");
    assert!(answer.to_string().contains("1000"), "{answer}");

    // A long statement is found among the running ones, and ended.
    remote("CREATE TABLE bank.many (a int PRIMARY KEY, b text)");
    let rows: String = (0..30_000).map(|row| format!("{row},{}\n", "x".repeat(40))).collect();
    let file = directory.path().join("many.csv");
    std::fs::write(&file, rows).unwrap();
    remote(&format!("COPY bank.many FROM '{}'", file.display()));
    let scans = "SELECT count(*) FROM bank.many WHERE b = 'y' ALLOW FILTERING;".repeat(500);
    let long = {
        let address = address.clone();
        spawn(move || {
            let mut command = carnet();
            command.args(["shell", "--server", &address, "--csv", "-e", &scans]).output().unwrap()
        })
    };
    eventually("a running statement is found and killed", || {
        let (_, running) = ask("SELECT id, statement FROM system_views.queries");
        let rows = running["rows"].as_array().cloned().unwrap_or_default();
        let found = rows.iter().find(|row| row.to_string().contains("bank.many"));
        let Some(id) = found.and_then(|row| row[0].as_str()) else { return false };
        // It may have ended since it was listed.
        ask(&format!("KILL STATEMENT {id}")).1["error"].is_null()
    });
    let ended = long.join().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && error.contains("killed"), "{error}");
    assert_eq!(remote(sum), "sum\n1000\n");
    server.terminate();
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
}
