//! `carnet serve` over TLS: stock drivers, the commands that connect to a server, and reloads.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Server, carnet, clients, e2e, eventually, fail, succeed};

/// Password of the user `ann`.
pub(crate) const PASSWORD: &str = "correct horse";

/// A server over TLS whose drivers show certificates, and the directory of the files.
pub(crate) struct Secured {
    pub(crate) server: Server,
    pub(crate) files: PathBuf,
    root: TempDir,
}

impl Secured {
    /// With the user `ann`.
    pub(crate) fn with_users() -> Self {
        let root = tempfile::tempdir().unwrap();
        let users = root.path().join("users");
        let mut command = carnet();
        command.args(["hash-password", "ann"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
        std::fs::write(&users, child.wait_with_output().unwrap().stdout).unwrap();
        succeed(Command::new("chmod").arg("600").arg(&users));
        Self::start(root, &["--users", users.to_str().unwrap()])
    }

    fn without_users() -> Self {
        Self::start(tempfile::tempdir().unwrap(), &[])
    }

    fn start(root: TempDir, arguments: &[&str]) -> Self {
        let files = root.path().join("tls");
        tls_init(&files);
        let file = |name: &str| files.join(name).to_str().unwrap().to_owned();
        let (cert, key, ca) = (file("server.crt"), file("server.key"), file("ca.crt"));
        let tls = ["--tls-cert", &*cert, "--tls-key", &*key, "--tls-client-ca", &*ca];
        let arguments = [&tls[..], arguments].concat();
        let server = Server::start(&root.path().join("data"), &arguments);
        Self { server, files, root }
    }

    /// Adds the port and the directory to the arguments of a client, which must succeed.
    fn run(&self, command: &mut Command) {
        // cqlsh stores a history and a configuration in the user's home directory.
        command.env("HOME", self.root.path());
        succeed(command.arg(self.server.port()).arg(&self.files));
    }

    /// Returns a command with the options for a client's certificate.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = carnet();
        command.args(arguments).arg("--tls-ca").arg(self.files.join("ca.crt"));
        command.arg("--tls-cert").arg(self.files.join("client.crt"));
        command.arg("--tls-key").arg(self.files.join("client.key"));
        command
    }

    fn signal(&self, name: &str) {
        let id = self.server.process.id().to_string();
        succeed(Command::new("kill").args([name, &id]));
    }
}

fn tls_init(directory: &Path) {
    succeed(carnet().args(["config", "tls-init"]).arg(directory));
}

/// Waits for a line of the server's log.
fn wait_for_log(server: &Server, words: &str) {
    eventually(&format!("a line of the log with {words:?}"), || server.log().contains(words));
}

#[test]
fn python_driver_and_cqlsh_connect_over_tls() {
    let Some(python) = clients::python() else { return };
    Secured::with_users().run(Command::new(python).arg(e2e("tls.py")));
}

#[test]
fn node_driver_connects_over_tls() {
    let Some(node) = clients::node() else { return };
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules")).arg(e2e("tls.js"));
    Secured::with_users().run(&mut command);
}

#[test]
fn java_driver_connects_over_tls() {
    let Some(jars) = clients::java() else { return };
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(e2e("Tls.java"));
    Secured::with_users().run(&mut command);
}

#[test]
fn go_driver_connects_over_tls() {
    let Some(program) = clients::go_program(&e2e("tls.go"), "github.com/gocql/gocql v1.7.0") else {
        return;
    };
    Secured::with_users().run(&mut Command::new(program));
}

#[test]
fn renegotiation_is_refused() {
    // Any Node.js: the script needs no driver.
    if clients::node().is_none() {
        return;
    }
    Secured::without_users().run(Command::new("node").arg(e2e("renegotiate.js")));
}

#[test]
fn certificate_logs_in_without_a_password() {
    let Some(python) = clients::python() else { return };
    let secured = Secured::start(tempfile::tempdir().unwrap(), &["--roles"]);
    let first = secured.root.path().join("data/first-superuser");
    let mut command = Command::new(python);
    command.arg(e2e("identity.py")).arg(secured.server.port()).arg(&secured.files).arg(first);
    succeed(&mut command);
}

#[test]
fn commands_connect_over_tls() {
    let secured = Secured::without_users();
    let address = secured.server.cql.to_string();
    succeed(&mut secured.command(&["bottleneck", "--at", &address]));
    let hello = ["shell", "--server", &address, "-e", "SELECT cluster_name FROM system.local"];
    assert!(succeed(&mut secured.command(&hello)).contains("Carnet"));
    let stress = ["stress", "--server", &address, "--seconds", "1", "--clients", "2"];
    succeed(&mut secured.command(&stress));
    let error = fail(carnet().args(["bottleneck", "--at", &address]));
    assert!(error.contains("requires TLS"), "{error}");
}

#[test]
fn missing_tls_is_explained_in_the_log() {
    let secured = Secured::without_users();
    let mut stream = TcpStream::connect(secured.server.cql).unwrap();
    stream.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]).unwrap();
    wait_for_log(&secured.server, "connection refused: the client speaks no TLS");
    drop(stream);

    let directory = tempfile::tempdir().unwrap();
    let plain = Server::start(directory.path(), &[]);
    let address = plain.cql.to_string();
    fail(&mut secured.command(&["bottleneck", "--at", &address]));
    wait_for_log(&plain, "connection refused: the client speaks TLS, and this port does not");
}

#[test]
fn sighup_loads_certificates_and_does_not_end_the_server() {
    let secured = Secured::without_users();
    let address = secured.server.cql.to_string();
    let mut ask = secured.command(&["bottleneck", "--at", &address]);
    succeed(&mut ask);
    let key = secured.files.join("server.key");
    let before = std::fs::read(&key).unwrap();
    std::fs::write(&key, "no key").unwrap();
    secured.signal("-HUP");
    wait_for_log(&secured.server, "SIGHUP: the TLS certificates cannot be loaded again");
    succeed(&mut ask);
    std::fs::write(&key, before).unwrap();
    secured.signal("-HUP");
    wait_for_log(&secured.server, "SIGHUP: the TLS certificates are loaded again");
    succeed(&mut ask);

    let directory = tempfile::tempdir().unwrap();
    let plain = Server::start(directory.path(), &[]);
    succeed(Command::new("kill").args(["-HUP", &plain.process.id().to_string()]));
    wait_for_log(&plain, "SIGHUP: there are no TLS certificates");
    assert_eq!(plain.get("/livez").0, "HTTP/1.1 200 OK");
}

#[test]
fn monitors_show_the_token() {
    let root = tempfile::tempdir().unwrap();
    let token = root.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let arguments = ["--http-token-file", token.to_str().unwrap()];
    let server = Server::start(&root.path().join("data"), &arguments);
    assert_eq!(server.get("/metrics").0, "HTTP/1.1 401 Unauthorized");
    let head = "/livez HTTP/1.1\r\nAuthorization: Bearer ";
    assert_eq!(
        server.get(&format!("{head}0123456789abcdeg\r\nX: ")).0,
        "HTTP/1.1 401 Unauthorized"
    );
    assert_eq!(server.get(&format!("{head}0123456789abcdef\r\nX: ")).0, "HTTP/1.1 200 OK");
}
