//! SimDiskState of files and names after a power failure.

use std::collections::BTreeMap;

use carnet_base::Rng;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) current: Vec<u8>,
    pub(super) synced: Vec<u8>,
    pub(super) unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
pub(super) enum NameChange {
    Create { name: String, file: usize },
    Rename { from: String, to: String, file: usize },
    Remove { name: String },
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.current.len()
    }

    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    pub(super) fn crash(&self, rng: &mut dyn Rng) -> Self {
        let mut bytes = self.synced.clone();
        // Drawn once per file: mostly lost, mixed, or mostly kept.
        let survival = [50, 500, 950][usize::try_from(rng.below(3)).unwrap_or(0)];
        for change in &self.unsynced {
            change.apply_in_part(&mut bytes, survival, rng);
        }
        if bytes.len() < self.current.len() && rng.chance(300) {
            let missing = (self.current.len() - bytes.len()) as u64;
            let grown = bytes.len() + usize::try_from(rng.below(missing + 1)).unwrap_or(0);
            bytes.resize(grown, 0);
        }
        Self { current: bytes.clone(), synced: bytes, unsynced: Vec::new() }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(content, *offset, bytes),
            Self::Truncate(len) => content.resize(*len, 0),
        }
    }

    /// Applies any subset of the pages; a page may be torn at a sector.
    fn apply_in_part(&self, content: &mut Vec<u8>, survival: u64, rng: &mut dyn Rng) {
        match self {
            Self::Truncate(_) if !rng.chance(survival) => {}
            Self::Truncate(len) => content.resize(*len, 0),
            Self::Write { offset, bytes } => {
                let mut at = 0;
                while at < bytes.len() {
                    let end = (at + PAGE - (offset + at) % PAGE).min(bytes.len());
                    if rng.chance(survival) {
                        let torn = rng.chance(100);
                        let keep = if torn { (end - at) / 2 / SECTOR * SECTOR } else { end - at };
                        write(content, offset + at, &bytes[at..at + keep]);
                    }
                    at = end;
                }
            }
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
