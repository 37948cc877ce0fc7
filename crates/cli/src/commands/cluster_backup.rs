//! `carnet backup --store` and `carnet restore --store`: the steps before and after a copy of a
//! cluster's tables.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carnet::cluster::ClusterUrl;
use carnet::cluster::backup::{self, ClusterBackup, Label, RENEW_EVERY, RestoreProgress};
use carnet::{Db, ErrorKind, block_on};
use carnet_base::{Clock, SystemClock};

use crate::bar::{Bar, Extent};
use crate::place::{Place, refuse_secret};
use crate::private::write_private;

/// Interval at which the command's end is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Failure of the command that copies, with its exit status.
#[derive(Debug)]
pub(crate) struct CommandFailed {
    status: ExitStatus,
}

impl CommandFailed {
    /// Returns the command's exit code, 1 if a signal ended it.
    pub(crate) fn code(&self) -> u8 {
        self.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }
}

impl fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no backup was made: the copy command ended with {}", self.status)
    }
}

impl std::error::Error for CommandFailed {}

/// Takes a backup: runs `command` between the steps that precede and follow the copy.
pub(super) fn take(store: &str, label: &Path, command: &[OsString]) -> Result<()> {
    let url = parse(store)?;
    let Some((program, arguments)) = command.split_first() else {
        bail!("give the command that copies the tables of {url} behind `--`: see docs/backup.md");
    };
    if label.exists() {
        bail!("{} exists already; give the label another name", label.display());
    }
    let directory = directory_of(label);
    if !directory.is_dir() {
        bail!("{} is not a directory", directory.display());
    }
    let place = Place::Cluster(Box::new(url.clone()));
    // The servers know the retention; this process does not.
    let db = place.open(Db::builder().retention(Duration::MAX))?;
    let begun = db.begin_cluster_backup();
    // If this process leads, it gives the lease up: servers need not wait for it.
    block_on(db.leave());
    let backup = begun?;
    let mut copy = Command::new(program);
    copy.args(arguments);
    copy.env("CARNET_BACKUP", backup.commit().to_string());
    copy.env("CARNET_KEYSPACE", &url.cql.keyspace);
    let ended = copy
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))
        .and_then(|mut child| wait(&backup, &mut child));
    let status = match ended {
        Ok(status) => status,
        Err(error) => {
            backup.give_up();
            return Err(error);
        }
    };
    if !status.success() {
        backup.give_up();
        return Err(CommandFailed { status }.into());
    }
    let made = backup.finish(&url.to_string())?;
    let text = made.encode();
    if let Err(error) = write_whole(label, text.as_bytes()) {
        // The copy is complete and garbage collection resumes: this is the last chance to save the
        // label.
        eprintln!("{text}");
        return Err(error).with_context(|| {
            let label = label.display();
            format!(
                "cannot write {label}: put the lines above into it, as they are, each with its end"
            )
        });
    }
    println!("{}", label.display());
    println!("every commit up to {}", made.commit);
    Ok(())
}

/// Waits for the command, and renews the backup's hold meanwhile.
#[expect(clippy::disallowed_methods, reason = "a command line waits for a process")]
fn wait(backup: &ClusterBackup, child: &mut Child) -> Result<ExitStatus> {
    let (mut renewed, mut is_lost) = (SystemClock.now(), false);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK_EVERY);
        if is_lost || SystemClock.now().since(renewed) < RENEW_EVERY {
            continue;
        }
        renewed = SystemClock.now();
        match backup.renew() {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Conflict) => {
                // The command may need to clean up, so it is left to end by itself.
                is_lost = true;
                eprintln!("this backup will fail: {error}");
            }
            Err(error) => eprintln!("trying again in {RENEW_EVERY:?}: {error}"),
        }
    }
}

/// Restores a copy after its tables were put back.
pub(super) fn restore(store: &str, label: &Path) -> Result<()> {
    let url = parse(store)?;
    let text = read_label(label).with_context(|| label.display().to_string())?;
    let label = Label::decode(&text).with_context(|| label.display().to_string())?;
    let bar = Bar::new(Extent::Part);
    let restored = backup::restore(&url, &label, |RestoreProgress { rows, rows_total, .. }| {
        let part = rows as f64 / rows_total.max(1) as f64;
        bar.set_part(part, &format!("{rows} of {rows_total} rows"));
    });
    drop(bar);
    let restored = restored?;
    println!("{url}: every commit up to {}", restored.commit);
    println!(
        "{} commits after it were aborted, of {} entries; the database goes on at {}",
        restored.aborted, restored.entries, restored.first
    );
    Ok(())
}

/// Reads a label. Of a longer file it reads only enough to see that it is no label.
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn read_label(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(Label::BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Writes a new file completely or not at all, also across a power cut.
#[expect(clippy::disallowed_methods, reason = "a file that is no database's")]
fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    // Another backup may be writing a label of the same name.
    name.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&name);
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => write_private(part, bytes)?,
    }
    // Unlike a rename, a link replaces no label that was written meanwhile.
    match fs::hard_link(part, file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(part, file)?,
        linked => {
            fs::remove_file(part)?;
            linked?;
        }
    }
    File::open(directory_of(file))?.sync_all()
}

/// Parses the URL of a command line.
fn parse(store: &str) -> Result<ClusterUrl> {
    refuse_secret(store)?;
    Ok(ClusterUrl::parse(store)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_of_another_backup_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let label = directory.path().join("label");
        write_whole(&label, b"first").unwrap();
        let error = write_whole(&label, b"second").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read_label(&label).unwrap(), b"first");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
