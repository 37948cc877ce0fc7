//! Label of a backup: the database it was taken of, and the checksums of its files.
//!
//! The label is text, so that users can read it and `crc32c` tools can check it:
//!
//! ```text
//! carnet backup 3                      the format; 1: blocks were not verified
//! database 5f0c…                       the identity, 32 hexadecimal digits
//! commit 12345                         B
//! swept 11000                          GC watermark
//! incarnation 9d20…                    opening of the database; not in formats 1 and 2
//! wall-micros 1790000000000000         time of the backup, since 1970
//! program 0.1.0
//! note encodings v2 from 0             informative, any number of lines
//! file MANIFEST 412 0c5d1e2f 1790…     length, CRC32C, time of its last check
//! file sst-00000001.sst 52344 99ab01cd 1790…
//! end 7d0e2a11                         CRC32C of every byte before this line
//! ```

use std::io;

use carnet_base::label::damaged;
use carnet_base::{Error, LabelFields, LabelWriter, Result, Timestamp, WallTime};

use crate::disk::{self, Disk, During};
use crate::manifest::{self, Identity};
use crate::marks::BACKUP;
use crate::sstable;

const KIND: &str = "carnet backup";
const VERSION: &str = "3";
/// Version without the incarnation and without times of checks.
const VERSION_2: &str = "2";
/// Version of labels of backups whose blocks were not verified.
const VERSION_1: &str = "1";

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledFile {
    /// Name in the backup's directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// CRC32C of the whole file.
    pub crc: u32,
    /// When all its bytes were last read for a backup; 1970 in formats without that time.
    pub checked: WallTime,
}

/// Label of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Identity of the database that the backup was taken of.
    pub identity: Identity,
    /// B: the backup has every commit up to it and none after.
    pub commit: Timestamp,
    /// GC watermark: snapshots below it may have lost versions.
    pub swept: Timestamp,
    /// Incarnation of the database in which the backup was taken; `None` in earlier formats.
    pub incarnation: Option<Identity>,
    /// Time of the backup.
    pub wall: WallTime,
    /// Version of the program that took it.
    pub program: String,
    /// Informative notes of the layer above.
    pub notes: Vec<String>,
    /// Whether every block of every table was verified before the label was written.
    pub verified: bool,
    /// All files except the label; the manifest is the first.
    pub files: Vec<LabelledFile>,
}

impl Label {
    /// Reads a directory's label; `None` if there is none, so the directory is no backup.
    ///
    /// # Errors
    ///
    /// `Corrupted` if it is damaged, `Unsupported` if a newer program wrote it, `Unavailable` if it
    /// cannot be read.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let file = match disk.open(BACKUP) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.during("open", disk, BACKUP)?,
        };
        let bytes = disk::read_all(disk, &*file, BACKUP)?;
        Self::decode(&bytes)
            .map(Some)
            .map_err(|error| Error::new(error.kind(), disk.path(BACKUP)).with_source(error))
    }

    pub(super) fn store(&self, disk: &dyn Disk) -> Result<()> {
        disk::replace(disk, BACKUP, self.encode().as_bytes())
    }

    /// Returns the total size of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn file(&self, name: &str) -> Option<&LabelledFile> {
        self.files.iter().find(|file| file.name == name)
    }

    fn encode(&self) -> String {
        let Self { identity, commit, swept, incarnation, wall, program, notes, verified, files } =
            self;
        let version = match (verified, incarnation) {
            (false, _) => VERSION_1,
            (true, None) => VERSION_2,
            (true, Some(_)) => VERSION,
        };
        let mut label = LabelWriter::new(KIND, version);
        label.field("database", identity);
        label.field("commit", commit);
        label.field("swept", swept);
        if let (VERSION, Some(incarnation)) = (version, incarnation) {
            label.field("incarnation", incarnation);
        }
        label.field("wall-micros", wall.0);
        label.field("program", program);
        for note in notes {
            label.field("note", note);
        }
        for LabelledFile { name, bytes, crc, checked } in files {
            if version == VERSION {
                label.field("file", format_args!("{name} {bytes} {crc:08x} {}", checked.0));
            } else {
                label.field("file", format_args!("{name} {bytes} {crc:08x}"));
            }
        }
        label.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = LabelFields::open(bytes, KIND, &[VERSION_1, VERSION_2, VERSION])?;
        let is_new = fields.version() == VERSION;
        let mut label = Self {
            identity: identity(fields.field("database")?)?,
            commit: fields.timestamp("commit")?,
            swept: fields.timestamp("swept")?,
            incarnation: is_new.then(|| identity(fields.field("incarnation")?)).transpose()?,
            wall: WallTime(fields.parsed("wall-micros")?),
            program: fields.field("program")?.to_owned(),
            notes: Vec::new(),
            verified: fields.version() != VERSION_1,
            files: Vec::new(),
        };
        for field in fields {
            match field {
                ("note", note) => label.notes.push(note.to_owned()),
                ("file", file) => {
                    label.files.push(Self::file_of(file, is_new).ok_or_else(damaged)?);
                }
                _ => return Err(damaged()),
            }
        }
        Ok(label)
    }

    /// Parses a file's line. Names of other files are refused, because they could refer to any
    /// path.
    fn file_of(line: &str, has_checked: bool) -> Option<LabelledFile> {
        let mut words = line.split(' ');
        let (name, bytes, crc) = (words.next()?, words.next()?, words.next()?);
        let is_ours = name == manifest::FILE_NAME
            || sstable::number_in(name).is_some_and(|number| sstable::file_name(number) == name);
        let file = LabelledFile {
            name: name.to_owned(),
            bytes: bytes.parse().ok()?,
            crc: u32::from_str_radix(crc, 16).ok()?,
            checked: WallTime(if has_checked { words.next()?.parse().ok()? } else { 0 }),
        };
        (is_ours && words.next().is_none()).then_some(file)
    }
}

fn identity(text: &str) -> Result<Identity> {
    let identity = u128::from_str_radix(text, 16).map_err(|_| damaged())?;
    Ok(Identity(identity.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;

    fn label() -> Label {
        let at = |number| Timestamp::new(number).unwrap();
        let checked = WallTime(1_790_000_000_000_001);
        let file =
            |name: &str, bytes, crc| LabelledFile { name: name.to_owned(), bytes, crc, checked };
        Label {
            identity: Identity(*b"sixteen of bytes"),
            commit: at(12_345),
            swept: at(11_000),
            incarnation: Some(Identity(*b"the last opening")),
            wall: WallTime(1_790_000_000_000_000),
            program: "0.1.0".to_owned(),
            notes: vec!["encodings v2 from 0".to_owned()],
            verified: true,
            files: vec![file("MANIFEST", 412, 0x0c5d_1e2f), file("sst-00000001.sst", 52_344, 9)],
        }
    }

    #[test]
    fn label_round_trips() {
        let text = label().encode();
        assert_eq!(Label::decode(text.as_bytes()).unwrap(), label());
        assert!(text.starts_with("carnet backup 3\ndatabase 7369"), "{text}");
        let mut old = Label { incarnation: None, ..label() };
        old.files.iter_mut().for_each(|file| file.checked = WallTime(0));
        for (verified, first) in [(true, "carnet backup 2\n"), (false, "carnet backup 1\n")] {
            let old = Label { verified, ..old.clone() };
            assert!(old.encode().starts_with(first));
            assert_eq!(Label::decode(old.encode().as_bytes()).unwrap(), old);
        }
        let newer = text.replacen("backup 3", "backup 4", 1);
        assert_eq!(Label::decode(newer.as_bytes()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn lines_are_those_of_the_page() {
        const PAGE: &str = include_str!("../../../../docs/backup.md");
        // The first word of a line, and the number of fields of a file.
        let shape = |text: &str| -> Vec<(String, usize)> {
            let of_line = |line: &str| {
                let (shown, _comment) = line.split_once("    ").unwrap_or((line, ""));
                let words: Vec<&str> = shown.split(' ').collect();
                let is_file = words[0] == "file";
                (words[0].to_owned(), if is_file { words.len() } else { 0 })
            };
            text.lines().map(of_line).collect()
        };
        let (_, block) = PAGE.split_once("\ncarnet backup 3\n").unwrap();
        let (block, _) = block.split_once("\n```").unwrap();
        assert_eq!(shape(block), shape(&label().encode())[1..]);
    }

    #[test]
    fn label_refuses_foreign_file_names() {
        for name in ["../etc/passwd", "/sst-00000001.sst", "LOCK", "sst-1.sst", "wal-00000001.log"]
        {
            let mut wrong = label();
            wrong.files[1].name = name.to_owned();
            assert!(Label::decode(wrong.encode().as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn damaged_label_is_refused() {
        let good = label().encode().into_bytes();
        for seed in 0..10_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.clone();
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                match rng.below(3) {
                    0 => bytes[at] ^= 1 << rng.below(8),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, rng.next_u64().to_le_bytes()[0]),
                }
            }
            if let Ok(read) = Label::decode(&bytes) {
                assert_eq!(read, label(), "seed {seed}");
            }
            // Any body with a valid checksum.
            bytes.truncate(bytes.len().saturating_sub(13));
            let sum = crc32c::crc32c(&bytes);
            bytes.extend(format!("end {sum:08x}\n").bytes());
            let _ = Label::decode(&bytes);
        }
    }
}
