//! The first superuser of `carnet serve --roles`: its password in a file of its owner.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Result;
use carnet::{Db, Error, block_on};
use carnet_server::make_first_superuser;

use crate::place::Place;

/// Name of the file in the database's directory.
const FILE: &str = "first-superuser";

/// Makes a superuser if no role that can log in is one. Its name and password are written to a file
/// that only the owner of the process can read; over a cluster, which has no directory, they are
/// printed.
///
/// # Errors
///
/// The file cannot be written, or the roles cannot be changed.
pub(crate) fn make(db: &Db, place: &Place) -> Result<()> {
    let path = place.directory().ok().map(|directory| directory.join(FILE));
    let made = block_on(make_first_superuser(db, |name, password| {
        let Some(path) = &path else {
            // Not to the log, which may be collected.
            let _ = writeln!(io::stdout(), "first superuser: {name}, password {password}");
            return Ok(());
        };
        write(path, name, password).map_err(|error| {
            Error::unavailable(format!("cannot write {}: {error}", path.display()))
        })
    }))?;
    let Some(name) = made else { return Ok(()) };
    let place = path.map_or("printed above".to_owned(), |path| format!("in {}", path.display()));
    tracing::warn!(
        "made the superuser {name}, because no role with superuser status can log in; its password is \
         {place}: log in, change it by ALTER ROLE {name} WITH PASSWORD = '…', and delete it there"
    );
    Ok(())
}

/// Writes the name and the password to a new file, in place of one of an earlier start.
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn write(path: &Path, name: &str, password: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{name}:{password}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_the_owner_can_read_the_password() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        for password in ["one", "two"] {
            write(&path, "admin", password).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("admin:{password}\n"));
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        }
    }
}
