//! Records that `COPY … FROM` passes over, kept for a repair.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Error, Result};

use super::options::Options;
use crate::sentence;

/// Number of reasons that are printed.
const PRINTED_MAX: u64 = 10;

/// What refused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field is no value of its column's type, or the record is malformed.
    Parse,
    /// The table refused the row.
    Insert,
}

/// The records passed over, and the file that takes them.
pub(super) struct Rejects {
    parse_max: Option<u64>,
    insert_max: Option<u64>,
    parse: u64,
    insert: u64,
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Rejects {
    /// Prepares for the records that `options` allow to pass over.
    ///
    /// # Errors
    ///
    /// If there is a file at `path` and one may be needed.
    pub(super) fn new(options: &Options, path: PathBuf) -> Result<Self> {
        let Options { parse_errors_max: parse_max, insert_errors_max: insert_max, .. } = *options;
        let rejects = Self { parse_max, insert_max, parse: 0, insert: 0, path, file: None };
        let may_write = parse_max != Some(0) || insert_max != Some(0);
        if may_write && rejects.path.exists() {
            anyhow::bail!(
                "the file {} of an earlier COPY exists; move it away, or choose another with \
                 ERRFILE",
                rejects.path.display()
            );
        }
        Ok(rejects)
    }

    /// Passes over a record.
    ///
    /// # Errors
    ///
    /// `error`, if no more of this step may be passed over.
    pub(super) fn take(&mut self, step: Step, raw: &[u8], error: Error) -> Result<()> {
        let (count, max) = match step {
            Step::Parse => (&mut self.parse, self.parse_max),
            Step::Insert => (&mut self.insert, self.insert_max),
        };
        if max.is_some_and(|max| *count >= max) {
            return Err(error);
        }
        *count += 1;
        let written = self.write(raw);
        written.with_context(|| format!("cannot write {}", self.path.display()))?;
        match self.count() {
            ..=PRINTED_MAX => eprintln!("{}", sentence(&error)),
            count if count == PRINTED_MAX + 1 => eprintln!("Further refused rows are not printed."),
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, raw: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(File::create_new(&self.path)?)),
        };
        file.write_all(raw)?;
        if raw.ends_with(b"\n") { Ok(()) } else { file.write_all(b"\n") }
    }

    fn count(&self) -> u64 {
        self.parse + self.insert
    }

    /// Completes the file, and returns what a report says of it: nothing, or text behind a comma.
    pub(super) fn finish(&mut self) -> Result<String> {
        let shown = self.path.display().to_string();
        if let Some(file) = &mut self.file {
            let written = file.flush().and_then(|()| file.get_ref().sync_all());
            written.with_context(|| format!("cannot write {shown}"))?;
        }
        Ok(match self.count() {
            0 => String::new(),
            count => format!(", {count} refused and written to {shown}"),
        })
    }
}
