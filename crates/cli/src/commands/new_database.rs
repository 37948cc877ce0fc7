//! Whether a path that is no database yet is meant for one.

use std::fs;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

/// File that every database has.
const MANIFEST: &str = "MANIFEST";
/// Directory of a file system's root, which counts as empty.
const LOST_AND_FOUND: &str = "lost+found";

/// Returns a reason to doubt that a new database is wanted at a path, if there is one.
pub(super) fn doubt(path: &Path) -> Option<String> {
    if path.join(MANIFEST).exists() {
        return None;
    }
    if !path.exists() {
        let name = path.to_str().filter(|name| is_like_host(name))?;
        return Some(format!(
            "{name} looks like a host: carnet shell --server {name} connects to a server"
        ));
    }
    let mut others = fs::read_dir(path).ok()?.filter_map(Result::ok).map(|entry| entry.file_name());
    let other = others.find(|name| name != LOST_AND_FOUND)?;
    Some(format!("{} has other files, as {}, and no database", path.display(), other.display()))
}

/// Returns `true` if a name is an address, or has the form of a host's name.
fn is_like_host(name: &str) -> bool {
    if name.contains('/') {
        return false;
    }
    let host = match name.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => return !host.is_empty(),
        _ => name,
    };
    let is_address = host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok();
    let is_domain = host.split('.').count() > 2 && host.split('.').all(|label| !label.is_empty());
    is_address || is_domain || host.eq_ignore_ascii_case("localhost")
}

/// Asks at the terminal whether to make a database.
///
/// # Errors
///
/// If the answer is no, or there is no terminal.
pub(super) fn ask(path: &Path, doubt: &str) -> Result<()> {
    let shown = path.display();
    if !io::stdin().is_terminal() {
        bail!("{doubt}. To make a database in {shown}, add --create");
    }
    eprintln!("{doubt}.");
    let mut editor = DefaultEditor::new().context("cannot use the terminal")?;
    match editor.readline(&format!("Make a new database in {shown}? [y/N] ")) {
        Ok(answer) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        Ok(_) | Err(ReadlineError::Interrupted | ReadlineError::Eof) => bail!("nothing was made"),
        Err(error) => Err(error).context("cannot read the terminal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_recognized() {
        for host in ["127.0.0.1", "::1", "localhost", "db1:9042", "db1.example.com", "[::1]:9042"] {
            assert!(is_like_host(host), "{host}");
        }
        for name in ["data", "./127.0.0.1", "bank.db", "/srv/db1.example.com", "data:x", "..", ":9"]
        {
            assert!(!is_like_host(name), "{name}");
        }
    }

    #[test]
    fn directory_with_other_files_is_doubted() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(doubt(directory.path()), None);
        assert_eq!(doubt(&directory.path().join("new")), None);
        fs::create_dir(directory.path().join(LOST_AND_FOUND)).unwrap();
        assert_eq!(doubt(directory.path()), None);
        fs::write(directory.path().join("thesis.txt"), "").unwrap();
        assert!(doubt(directory.path()).unwrap().contains("thesis.txt"));
        fs::write(directory.path().join(MANIFEST), "").unwrap();
        assert_eq!(doubt(directory.path()), None);
    }
}
