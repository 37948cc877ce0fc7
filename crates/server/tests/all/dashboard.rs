//! The dashboard's requests: its session, its statements, and the guards against pages of other sites.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Rng, SeededRng, SystemClock};
use carnet_server::{Dashboard, HttpToken, Limits, Users};

use crate::support::{PASSWORDS, Running, get, http};

const JSON: &str = "Content-Type: application/json";
const TOKEN: &str = "0123456789abcdef";

/// An answer with its head.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the cookie that the answer sets, as a browser sends it back.
    fn cookie(&self) -> String {
        let set = self.header("set-cookie").unwrap();
        format!("Cookie: {}", set.split(';').next().unwrap())
    }
}

/// Sends a request on a new connection.
fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut tcp = TcpStream::connect(address).unwrap();
    send_over(&mut tcp, method, path, &[headers, &["Connection: close"]].concat(), body);
    receive(&mut tcp)
}

fn send_over(tcp: &mut TcpStream, method: &str, path: &str, headers: &[&str], body: &str) {
    let port = tcp.peer_addr().unwrap().port();
    let has_host = headers.iter().any(|header| header.starts_with("Host:"));
    let host = if has_host { String::new() } else { format!("Host: localhost:{port}\r\n") };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let len = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {len}\r\n\r\n{body}");
    tcp.write_all(request.as_bytes()).unwrap();
}

/// Receives an answer, whose length its head has.
fn receive(tcp: &mut TcpStream) -> Answer {
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        read_some(tcp, &mut bytes);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: String::new() };
    let len: usize = answer.header("content-length").unwrap().parse().unwrap();
    while bytes.len() < end + len {
        read_some(tcp, &mut bytes);
    }
    answer.body = String::from_utf8(bytes[end..].to_vec()).unwrap();
    answer
}

fn read_some(tcp: &mut TcpStream, bytes: &mut Vec<u8>) {
    let mut part = [0; 4096];
    let len = tcp.read(&mut part).unwrap();
    assert!(len > 0, "the connection was closed: {}", String::from_utf8_lossy(bytes));
    bytes.extend_from_slice(&part[..len]);
}

fn post(address: SocketAddr, path: &str, headers: &[&str], body: &str) -> Answer {
    send(address, "POST", path, &[headers, &[JSON]].concat(), body)
}

/// Runs a statement of the console.
fn query(address: SocketAddr, cookie: &str, statement: &str) -> Answer {
    let body = serde_json::json!({ "statement": statement, "console": true }).to_string();
    post(address, "/api/query", &[cookie], &body)
}

/// Begins a session on a server without users.
fn begin(server: &Running) -> String {
    post(server.http, "/api/login", &[], "{}").cookie()
}

fn log_in(server: &Running, user: &str, password: &str) -> Answer {
    let body = serde_json::json!({ "user": user, "password": password }).to_string();
    post(server.http, "/api/login", &[], &body)
}

fn with_users() -> Running {
    Running::with(Limits::default(), Some(PASSWORDS))
}

#[test]
fn every_answer_protects_the_browser() {
    let server = Running::start();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/assets/main.js"),
        ("GET", "/assets/none.js"),
        ("GET", "/metrics"),
        ("GET", "/else"),
        ("GET", "/api/session"),
        ("POST", "/api/query"),
        ("DELETE", "/"),
    ] {
        let answer = send(server.http, method, path, &[], "");
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "connect-src 'self';",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
    let page = send(server.http, "GET", "/", &[], "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.body.starts_with("<!doctype html>"));
}

#[test]
fn dashboard_is_reached_by_known_names_only() {
    let server = Running::start();
    for path in ["/", "/assets/main.js", "/api/session"] {
        for host in ["Host: evil.example", "Host: evil.example:9180", "Host: 192.0.2.1"] {
            let answer = send(server.http, "GET", path, &[host], "");
            assert_eq!(answer.status, 421, "{path} {host}");
            assert!(answer.body.contains("server.http_hosts"), "{}", answer.body);
        }
        assert_eq!(send(server.http, "GET", path, &["Host: 127.0.0.1:1"], "").status, 200);
    }
    let rebound = post(server.http, "/api/login", &["Host: evil.example"], "{}");
    assert_eq!((rebound.status, rebound.header("set-cookie")), (421, None));
    assert_eq!(http(server.http, "GET / HTTP/1.0\r\n\r\n").0, "HTTP/1.0 421 Misdirected Request");
}

#[test]
fn settings_name_more_hosts() {
    let server = Running::with_http_host("db1.example.com");
    let get = |host| send(server.http, "GET", "/", &[host], "").status;
    assert_eq!(get("Host: db1.example.com:443"), 200);
    assert_eq!(get("Host: db2.example.com"), 421);
}

#[test]
fn dashboard_can_be_off() {
    let server = Running::with_dashboard(Dashboard::Off);
    for path in ["/", "/assets/main.js", "/api/session"] {
        let answer = send(server.http, "GET", path, &[], "");
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.contains("server.http_dashboard = false"), "{}", answer.body);
    }
    assert_eq!(post(server.http, "/api/login", &[], "{}").status, 404);
    assert_eq!(query(server.http, "X: y", "whoami").status, 404);
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(get(server.http, path).0, "HTTP/1.1 200 OK", "{path}");
    }
}

/// A client that says that a statement is of a page runs no other statements.
#[test]
fn console_can_be_off() {
    let server = Running::with_dashboard(Dashboard::WithoutConsole);
    let cookie = begin(&server);
    let session = send(server.http, "GET", "/api/session", &[&cookie], "").body;
    assert!(session.contains("\"console\":false"), "{session}");
    let run = |statement: &str, console: bool| {
        let body = serde_json::json!({ "statement": statement, "console": console }).to_string();
        post(server.http, "/api/query", &[&cookie], &body)
    };
    let of_page = "SELECT name, value FROM system_views.settings";
    for (statement, console) in [("whoami", true), ("whoami", false), (of_page, true)] {
        let refused = run(statement, console);
        assert_eq!(refused.status, 403, "{statement} {console}");
        assert!(refused.body.contains("server.http_console = false"), "{}", refused.body);
    }
    assert_eq!(run(of_page, false).status, 200);
    let full = Running::start();
    let session = send(full.http, "GET", "/api/session", &[], "").body;
    assert!(session.contains("\"console\":true"), "{session}");
}

#[test]
fn session_ends_with_its_user() {
    let users = Arc::new(Users::parse(PASSWORDS).unwrap());
    let server = Running::with_users(&users, HttpToken::new(TOKEN).unwrap());
    let cookie = log_in(&server, "ann", "one").cookie();
    let is_open = || send(server.http, "GET", "/metrics", &[&cookie], "").status == 200;
    assert!(is_open());
    let again = PASSWORDS.replace("c29tZXNhbHQ", "b3RoZXJzYWx0");
    users.replace(&Users::parse(&again).unwrap());
    assert!(!is_open(), "the password has changed");
    assert_eq!(query(server.http, &cookie, "whoami").status, 401);
    users.replace(&Users::parse(PASSWORDS).unwrap());
    assert!(!is_open(), "it does not come back");
}

#[test]
fn posts_of_other_sites_do_nothing() {
    let server = Running::start();
    let cookie = begin(&server);
    let body = r#"{"statement": "warn"}"#;
    let refused = |headers: &[&str]| {
        let headers = [headers, &[&cookie]].concat();
        let answer = send(server.http, "POST", "/api/query", &headers, body);
        assert_eq!(answer.status, 403, "{headers:?}: {}", answer.body);
    };
    refused(&[JSON, "Origin: http://evil.example"]);
    refused(&[JSON, "Origin: null"]);
    refused(&[JSON, "Sec-Fetch-Site: cross-site"]);
    refused(&[JSON, "Sec-Fetch-Site: same-site"]);
    refused(&["Content-Type: text/plain"]);
    refused(&["Content-Type: application/x-www-form-urlencoded"]);
    refused(&[]);
    let preflight =
        send(server.http, "OPTIONS", "/api/query", &["Origin: http://evil.example"], "");
    assert_eq!(preflight.status, 405);
    assert_eq!(preflight.header("access-control-allow-origin"), None);
    let origin = format!("Origin: http://localhost:{}", server.http.port());
    let own = [&*cookie, &*origin, "Sec-Fetch-Site: same-origin"];
    assert_eq!(post(server.http, "/api/query", &own, body).status, 200);
    assert_eq!(send(server.http, "GET", "/api/query", &[&cookie], "").status, 405);
}

#[test]
fn statements_need_a_session() {
    let server = with_users();
    let address = server.http;
    assert_eq!(query(address, "X: y", "whoami").status, 401);
    assert_eq!(query(address, "Cookie: carnet_1=0123", "whoami").status, 401);
    assert_eq!(post(address, "/api/login", &[], "{}").status, 400, "there are users");
    for (user, password) in [("ann", "two"), ("bob", "one"), ("ann", "")] {
        let wrong = log_in(&server, user, password);
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
        assert!(wrong.body.contains("the user or the password is wrong"), "{}", wrong.body);
    }
    assert_eq!(server.metrics.logins_refused.get(), 3);
    let right = log_in(&server, "ann", "one");
    let cookie = right.cookie();
    let set = right.header("set-cookie").unwrap();
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
    let answer = query(address, &cookie, "whoami");
    assert!(answer.status == 200 && answer.body.contains("ann"), "{}", answer.body);
    let session = send(address, "GET", "/api/session", &[&cookie], "").body;
    assert!(session.contains("\"user\":\"ann\"") && session.contains("\"access\":\"login\""));
    assert_eq!(post(address, "/api/logout", &[&cookie], "{}").status, 200);
    assert_eq!(query(address, &cookie, "whoami").status, 401);
}

#[test]
fn sessions_count_as_connections_of_their_user() {
    let limits = Limits { connections_per_user_max: Some(1), ..Limits::default() };
    let server = Running::with(limits, Some(PASSWORDS));
    let cookie = log_in(&server, "ann", "one").cookie();
    let second = log_in(&server, "ann", "one");
    assert_eq!(second.status, 503);
    assert!(second.body.contains("too many connections"), "{}", second.body);
    post(server.http, "/api/logout", &[&cookie], "{}");
    assert_eq!(log_in(&server, "ann", "one").status, 200);
}

#[test]
fn requests_keep_to_the_rate_of_their_user() {
    let limits = Limits { requests_per_client_max: Some(4), ..Limits::default() };
    let server = Running::with(limits, None);
    let cookie = begin(&server);
    let begun = SystemClock.now();
    for _ in 0..7 {
        assert_eq!(query(server.http, &cookie, "whoami").status, 200);
    }
    // Four are a burst of a second; each further one waits for a quarter.
    assert!(SystemClock.now().since(begun) >= Duration::from_millis(500));
}

#[test]
fn sessions_are_listed_as_clients() {
    let server = with_users();
    let cookie = log_in(&server, "ann", "one").cookie();
    query(server.http, &cookie, "warn");
    let clients = carnet_cql::system::ClientList::clients(&server.clients);
    let [client] = &clients[..] else { panic!("{clients:?}") };
    assert_eq!(client.username.as_deref(), Some("ann"));
    assert_eq!(client.options["DRIVER_NAME"], "Carnet dashboard");
    assert_eq!(client.request_count, 1);
    post(server.http, "/api/logout", &[&cookie], "{}");
    assert!(carnet_cql::system::ClientList::clients(&server.clients).is_empty());
}

#[test]
fn session_replaces_the_token_for_metrics_only() {
    let server = Running::with_http_token(HttpToken::new(TOKEN).unwrap(), Some(PASSWORDS));
    assert_eq!(get(server.http, "/metrics").0, "HTTP/1.1 401 Unauthorized");
    let cookie = log_in(&server, "ann", "one").cookie();
    assert_eq!(send(server.http, "GET", "/metrics", &[&cookie], "").status, 200);
    assert_eq!(send(server.http, "GET", "/readyz", &[&cookie], "").status, 401);
    let token = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(send(server.http, "GET", "/metrics", &[&token], "").status, 200);
    assert_eq!(query(server.http, &token, "warn").status, 401, "a monitor runs no statement");
}

/// A proxy that shows the token makes the port known to other machines.
#[test]
fn token_without_users_closes_the_dashboard() {
    let server = Running::with_http_token(HttpToken::new(TOKEN).unwrap(), None);
    let session = send(server.http, "GET", "/api/session", &[], "").body;
    assert!(session.contains("\"access\":\"closed\"") && session.contains("--users"), "{session}");
    let refused = post(server.http, "/api/login", &[], "{}");
    assert_eq!(refused.status, 403, "{}", refused.body);
}

/// Clients that keep their connections leave places to monitors.
#[test]
fn many_connections_are_not_kept() {
    let server = Running::start();
    let ask = || {
        let mut tcp = TcpStream::connect(server.http).unwrap();
        tcp.write_all(b"GET /api/session HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let mut answer = [0; 1_024];
        let len = tcp.read(&mut answer).unwrap();
        (String::from_utf8_lossy(&answer[..len]).to_lowercase(), tcp)
    };
    let asked: Vec<_> = (0..20).map(|_| ask()).collect();
    for (answer, _) in asked.iter().take(12) {
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    let (answer, _) = asked.last().unwrap();
    assert!(answer.starts_with("http/1.1 200") && answer.contains("connection: close"), "{answer}");
}

#[test]
fn statements_of_a_session_are_limited() {
    let server = Running::start();
    let (address, cookie) = (server.http, begin(&server));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| query(address, &cookie, "sleep 2000"));
        }
        server.eventually("they run", |metrics| metrics.requests_in_flight.get() == 8);
        let refused = query(address, &cookie, "whoami");
        assert_eq!(refused.status, 429, "{}", refused.body);
    });
    assert_eq!(query(address, &cookie, "whoami").status, 200);
}

#[test]
fn log_ins_are_short() {
    let server = with_users();
    let refused = log_in(&server, "ann", &"x".repeat(5_000));
    assert_eq!(refused.status, 413, "{}", refused.body);
    assert!(refused.body.contains("4096 bytes"), "{}", refused.body);
}

#[test]
fn results_are_json() {
    let server = Running::start();
    let cookie = begin(&server);
    let rows = query(server.http, &cookie, "whoami").body;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows["kind"], "rows");
    assert_eq!(rows["columns"][0]["type"], "text");
    let warned = query(server.http, &cookie, "warn").body;
    assert!(warned.contains("\"warnings\":[\""), "{warned}");
    let wrong = query(server.http, &cookie, "what");
    assert_eq!(wrong.status, 200);
    let error: serde_json::Value = serde_json::from_str(&wrong.body).unwrap();
    assert_eq!(error["error"]["kind"], "syntax");
    let (_, figures) = get(server.http, "/metrics");
    assert!(figures.contains("\ncarnet_server_errors_total{code=\"syntax\"} 1\n"), "{figures}");
    assert!(figures.contains("\ncarnet_server_requests_total{opcode=\"query\"} 3\n"));
    for wrong in ["", "{", "[]", r#"{"statement": 1}"#, r#"{"statement": "warn", "x": 1}"#] {
        assert_eq!(post(server.http, "/api/query", &[&cookie], wrong).status, 400, "{wrong}");
    }
    let next = r#"{"statement": "warn", "next": "0g"}"#;
    assert_eq!(post(server.http, "/api/query", &[&cookie], next).status, 400);
}

/// The dashboard's figures show the load of clients, without its own requests.
#[test]
fn statements_of_pages_are_counted_apart() {
    let server = Running::start();
    let cookie = begin(&server);
    let of_a_page = |statement| {
        let body = serde_json::json!({ "statement": statement }).to_string();
        assert_eq!(post(server.http, "/api/query", &[&cookie], &body).status, 200);
    };
    of_a_page("SELECT * FROM system_views.clients");
    of_a_page("SHOW BOTTLENECK");
    // No page sends this one, whatever the client says.
    of_a_page("whoami");
    let (_, figures) = get(server.http, "/metrics");
    for line in [
        "carnet_server_requests_total{opcode=\"query\"} 1",
        "carnet_server_request_duration_seconds_count{opcode=\"query\"} 1",
        "carnet_server_errors_total{code=\"syntax\"} 0",
        "carnet_server_dashboard_requests_total 2",
    ] {
        assert!(figures.contains(&format!("\n{line}\n")), "{line}: {figures}");
    }
}

#[test]
fn long_request_is_refused_and_memory_given_back() {
    let server = Running::start();
    let cookie = begin(&server);
    let long = format!("{{\"statement\": \"warn{}\"}}", " ".repeat(1 << 20));
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let head = format!(
        "POST /api/query HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nCookie: {}\r\nContent-Length: {}\r\n\r\n",
        cookie
            .replace(&format!("carnet_{}", server.http.port()), "carnet_0")
            .trim_start_matches("Cookie: "),
        long.len()
    );
    tcp.write_all(head.as_bytes()).unwrap();
    assert_eq!(receive(&mut tcp).status, 413, "it is refused before it arrives");
    let short = format!("{{\"statement\": \"warn{}\"}}", " ".repeat(1 << 19));
    assert_eq!(post(server.http, "/api/query", &[&cookie], &short).status, 200);
    for owner in ["requests", "answers"] {
        let line = format!("carnet_memory_bytes{{owner=\"{owner}\"}} 0\n");
        server
            .eventually("memory is given back", |_| get(server.http, "/metrics").1.contains(&line));
    }
}

#[test]
fn body_that_does_not_arrive_is_given_up() {
    let server = Running::start();
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let head = format!(
        "POST /api/login HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: 9\r\n\r\n{{"
    );
    tcp.write_all(head.as_bytes()).unwrap();
    assert_eq!(receive(&mut tcp).status, 408);
}

#[test]
fn connection_serves_one_request_after_another() {
    let server = Running::start();
    let mut tcp = TcpStream::connect(server.http).unwrap();
    send_over(&mut tcp, "POST", "/api/login", &[JSON], "{}");
    let cookie = receive(&mut tcp).cookie();
    for path in ["/", "/metrics", "/api/session"] {
        send_over(&mut tcp, "GET", path, &[&cookie], "");
        assert_eq!(receive(&mut tcp).status, 200, "{path}");
    }
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(tcp.read(&mut [0]).unwrap(), 0, "an idle connection is closed");
}

#[test]
fn statement_ends_with_its_client() {
    let server = Running::start();
    let cookie = begin(&server);
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let body = r#"{"statement": "sleep 60000", "console": true}"#;
    send_over(&mut tcp, "POST", "/api/query", &[JSON, &cookie], body);
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    drop(tcp);
    server.eventually("it ends", |metrics| metrics.requests_in_flight.get() == 0);
}

#[test]
fn drain_answers_the_statement_of_a_dashboard() {
    let mut server = Running::start();
    let cookie = begin(&server);
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let body = r#"{"statement": "sleep 500", "console": true}"#;
    send_over(&mut tcp, "POST", "/api/query", &[JSON, &cookie], body);
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    server.shut_down();
    assert_eq!(receive(&mut tcp).status, 200);
    server.join();
}

/// The statement keeps its thread, which must not be the one that answers monitors.
#[test]
fn metrics_are_answered_beside_statements() {
    let server = Running::start();
    let cookie = begin(&server);
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let body = r#"{"statement": "hog 4000", "console": true}"#;
    send_over(&mut tcp, "POST", "/api/query", &[JSON, &cookie], body);
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() == 1);
    assert_eq!(get(server.http, "/livez").0, "HTTP/1.1 200 OK");
    assert_eq!(server.metrics.requests_in_flight.get(), 1, "the statement has ended");
    assert_eq!(receive(&mut tcp).status, 200);
}

/// Announced bytes are no memory: many clients that send nothing would take it from others.
#[test]
fn body_is_charged_as_it_arrives() {
    let server = Running::start();
    let cookie = begin(&server);
    let mut tcp = TcpStream::connect(server.http).unwrap();
    let head = format!("POST /api/query HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\n{}", {
        let port = format!("carnet_{}", server.http.port());
        cookie.replace(&port, "carnet_0")
    });
    let (begun, rest) = (format!("{head}\r\nContent-Length: 900000\r\n\r\n"), " ".repeat(1_000));
    tcp.write_all(begun.as_bytes()).unwrap();
    tcp.write_all(rest.as_bytes()).unwrap();
    server.eventually("a part has arrived", |_| {
        get(server.http, "/metrics").1.contains("carnet_memory_bytes{owner=\"requests\"} 1000\n")
    });
}

/// A text of control characters is six times as long in JSON.
#[test]
fn text_of_an_answer_is_limited() {
    let server = Running::start();
    let cookie = begin(&server);
    let long = query(server.http, &cookie, "blob 3000000");
    let error: serde_json::Value = serde_json::from_str(&long.body).unwrap();
    assert_eq!(error["error"]["kind"], "invalid", "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("that of an answer to the dashboard"), "{message}");
    assert_eq!(query(server.http, &cookie, "blob 1000").status, 200);
}

/// Any answer is valid for arbitrary bytes; a server that does not answer others afterwards is not.
#[test]
fn arbitrary_requests_do_no_harm() {
    let server = Running::start();
    let request =
        b"POST /api/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Content-Length: 2\r\nCookie: carnet_0=00\r\nConnection: close\r\n\r\n{}";
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let mut bytes = request.to_vec();
        for _ in 0..=rng.below(6) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] = rng.next_u64().to_be_bytes()[0];
        }
        let mut tcp = TcpStream::connect(server.http).unwrap();
        tcp.write_all(&bytes).unwrap();
        tcp.shutdown(std::net::Shutdown::Write).unwrap();
        // The server may close a connection with bytes that it has not read.
        let _ = tcp.read_to_end(&mut Vec::new());
    }
    assert_eq!(get(server.http, "/livez").0, "HTTP/1.1 200 OK");
    assert!(server.metrics.requests_in_flight.get() == 0);
}
