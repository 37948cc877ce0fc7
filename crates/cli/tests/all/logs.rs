//! The log of `carnet serve`.

use std::process::Command;

use crate::support::{Server, eventually, succeed};

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
