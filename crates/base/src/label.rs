//! Labels of backups: lines of text that people can read, ended by their checksum.
//!
//! ```text
//! carnet backup 2                      the kind of label, and the version of its format
//! commit 12345                         fields: a name and a value
//! note                                 a field with an empty value
//! end 7d0e2a11                         the CRC32C of every byte before this line
//! ```

use std::fmt::{self, Write};
use std::str::{FromStr, Lines};

use crate::{Error, Result, Timestamp};

/// Writes a label.
#[derive(Debug)]
pub struct LabelWriter(String);

impl LabelWriter {
    /// Begins a label of a kind, such as `carnet backup`.
    #[must_use]
    pub fn new(kind: &str, version: &str) -> Self {
        Self(format!("{kind} {version}\n"))
    }

    /// Adds a field. Line breaks in its value become spaces.
    pub fn field(&mut self, name: &str, value: impl fmt::Display) {
        let line = format!("{name} {value}").replace(['\n', '\r'], " ");
        let _ = writeln!(self.0, "{line}");
    }

    /// Adds a field whose value is a list.
    pub fn list(&mut self, name: &str, values: impl IntoIterator<Item: fmt::Display>) {
        self.0.push_str(name);
        for value in values {
            let _ = write!(self.0, " {value}");
        }
        self.0.push('\n');
    }

    /// Returns the text with its checksum.
    #[must_use]
    pub fn finish(mut self) -> String {
        let crc = crc32c::crc32c(self.0.as_bytes());
        let _ = writeln!(self.0, "end {crc:08x}");
        self.0
    }
}

/// The fields of a label, in order.
#[derive(Debug)]
pub struct LabelFields<'a> {
    version: &'a str,
    lines: Lines<'a>,
}

impl<'a> LabelFields<'a> {
    /// Checks the first and the last line of a label of a kind.
    ///
    /// # Errors
    ///
    /// `Unsupported` if its version is not one of `versions`; `Corrupted` if it is damaged, or no
    /// label of this kind.
    pub fn open(bytes: &'a [u8], kind: &str, versions: &[&str]) -> Result<Self> {
        let text = str::from_utf8(bytes).map_err(|_| damaged())?;
        let first = text.lines().next().and_then(|line| line.strip_prefix(kind));
        let version = first.and_then(|rest| rest.strip_prefix(' ')).ok_or_else(damaged)?;
        if !versions.contains(&version) {
            return Err(Error::unsupported(format!(
                "the label `{kind} {version}` needs a newer program; this one reads version {}",
                versions.join(" and ")
            )));
        }
        let (body, _) =
            text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n')).ok_or_else(damaged)?;
        let (body, end) = text.split_at(body.len() + 1);
        if end != format!("end {:08x}\n", crc32c::crc32c(body.as_bytes())) {
            return Err(damaged());
        }
        let mut lines = body.lines();
        lines.next();
        Ok(Self { version, lines })
    }

    /// Returns the version of the label's format.
    #[must_use]
    pub const fn version(&self) -> &'a str {
        self.version
    }

    /// Reads the value of the next field, which must have this name.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it has another name, or if there is none.
    pub fn field(&mut self, name: &str) -> Result<&'a str> {
        match self.next() {
            Some((found, value)) if found == name => Ok(value),
            _ => Err(damaged()),
        }
    }

    /// Like [`LabelFields::field`], but parses the value.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it has another name, or another kind of value, or if there is none.
    pub fn parsed<T: FromStr>(&mut self, name: &str) -> Result<T> {
        self.field(name)?.parse().map_err(|_| damaged())
    }

    /// Like [`LabelFields::field`], but parses a timestamp.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it has another name, or another kind of value, or if there is none.
    pub fn timestamp(&mut self, name: &str) -> Result<Timestamp> {
        Timestamp::new(self.parsed(name)?).ok_or_else(damaged)
    }

    /// Like [`LabelFields::field`], but parses the elements of a list.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it has another name, or another kind of elements, or if there is none.
    pub fn parsed_list<T: FromStr>(&mut self, name: &str) -> Result<Vec<T>> {
        let values = self.field(name)?.split(' ').filter(|value| !value.is_empty());
        values.map(|value| value.parse().map_err(|_| damaged())).collect()
    }
}

impl<'a> Iterator for LabelFields<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        Some(line.split_once(' ').unwrap_or((line, "")))
    }
}

/// Returns the error of a label whose content is not one that the program writes.
#[must_use]
pub fn damaged() -> Error {
    Error::corrupted("the label of a backup is damaged, or is not a label")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const KIND: &str = "carnet backup";

    fn written() -> String {
        let mut label = LabelWriter::new(KIND, "2");
        label.field("commit", 12_345);
        label.field("note", "a\nb");
        label.list("tables", [1, 2]);
        label.list("tables", [0; 0]);
        label.finish()
    }

    #[test]
    fn fields_are_read_in_order() {
        let text = written();
        assert!(text.starts_with("carnet backup 2\ncommit 12345\nnote a b\ntables 1 2\ntables\n"));
        let mut fields = LabelFields::open(text.as_bytes(), KIND, &["1", "2"]).unwrap();
        assert_eq!(fields.version(), "2");
        assert_eq!(fields.timestamp("commit").unwrap().get(), 12_345);
        assert_eq!(fields.field("note").unwrap(), "a b");
        assert_eq!(fields.parsed_list::<u32>("tables").unwrap(), [1, 2]);
        assert_eq!(fields.parsed_list::<u32>("tables").unwrap(), [0; 0]);
        assert!(fields.field("tables").is_err());
        let mut fields = LabelFields::open(text.as_bytes(), KIND, &["2"]).unwrap();
        assert!(fields.field("note").is_err());
    }

    #[test]
    fn other_kinds_versions_and_bytes_are_refused() {
        let text = written();
        let kind = |kind, versions: &[&str]| {
            LabelFields::open(text.as_bytes(), kind, versions).unwrap_err().kind()
        };
        assert_eq!(kind("carnet cluster backup", &["2"]), ErrorKind::Corrupted);
        assert_eq!(kind(KIND, &["1"]), ErrorKind::Unsupported);
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            assert!(LabelFields::open(&bytes, KIND, &["2"]).is_err(), "{place}");
            assert!(LabelFields::open(&bytes[..place], KIND, &["2"]).is_err(), "{place}");
        }
    }
}
