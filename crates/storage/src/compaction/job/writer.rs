//! Output of a job: writes cells and range tombstones to files.

use std::iter::Peekable;
use std::vec;

use bytes::Bytes;
use carnet_base::Result;

use super::super::cut::Cutter;
use super::super::merge::{Cell, Fragment, Sink};
use super::tables::{Output, Outputs, Written};
use crate::manifest::{TableMeta, Tally, VersionKind};

/// Writes the output of a merge.
///
/// `fragments` holds pending range tombstones. A fragment is written when the keys have passed its
/// upper bound. If a file ends within a fragment, the part before the end is written, and the rest
/// stays pending.
pub(super) struct Writer<O: Outputs> {
    outputs: O,
    /// The current file.
    file: Option<(O::Output, Tally)>,
    cutter: Cutter,
    level: u8,
    fragments: Peekable<vec::IntoIter<Fragment>>,
    finished: Vec<TableMeta>,
}

impl<O: Outputs> Writer<O> {
    pub(super) fn new(outputs: O, fragments: Vec<Fragment>, cutter: Cutter, level: u8) -> Self {
        let fragments = fragments.into_iter().peekable();
        Self { outputs, file: None, cutter, level, fragments, finished: Vec::new() }
    }

    /// Writes the remaining range tombstones and finishes the last file.
    pub(super) fn end(&mut self) -> Result<()> {
        while let Some(fragment) = self.fragments.next() {
            self.write_fragment(&fragment)?;
        }
        self.finish_file()
    }

    pub(super) fn take_finished(&mut self) -> Vec<TableMeta> {
        std::mem::take(&mut self.finished)
    }

    fn file(&mut self) -> Result<&mut (O::Output, Tally)> {
        if self.file.is_none() {
            self.cutter.begin_file();
            self.file = Some((self.outputs.begin()?, Tally::default()));
        }
        Ok(self.file.as_mut().expect("the file was created above"))
    }

    fn ends_before(&mut self, key: &[u8]) -> bool {
        let bytes = self.file.as_ref().map_or(0, |(output, _)| output.estimated_bytes());
        self.cutter.ends_before(key, bytes)
    }

    /// Writes a whole fragment; to a new file if the current one is large enough and has no cells
    /// after the fragment's lower bound.
    fn write_fragment(&mut self, fragment: &Fragment) -> Result<()> {
        let before = |(_, tally): &(O::Output, Tally)| tally.last_key() < &fragment.lower[..];
        if self.file.as_ref().is_some_and(before) && self.ends_before(&fragment.lower) {
            self.finish_file()?;
        }
        self.put_fragment(fragment)
    }

    fn put_fragment(&mut self, fragment: &Fragment) -> Result<()> {
        let Fragment { lower, upper, versions } = fragment;
        let (output, tally) = self.file()?;
        output.push_range_tombstone(lower, upper, versions)?;
        for version in versions {
            tally.range_tombstone(lower, upper, version.commit);
        }
        Ok(())
    }

    /// Ends the file before a key, and splits the range tombstone over the key.
    fn cut(&mut self, key: &[u8]) -> Result<()> {
        if let Some(open) = self.fragments.peek_mut().filter(|next| next.lower < *key) {
            let at = Bytes::copy_from_slice(key);
            let ended = Fragment { upper: at.clone(), ..open.clone() };
            open.lower = at;
            self.put_fragment(&ended)?;
        }
        self.finish_file()
    }

    fn finish_file(&mut self) -> Result<()> {
        if let Some((output, tally)) = self.file.take() {
            let Written { number, bytes } = output.finish()?;
            self.finished.extend(tally.finish(number, self.level, bytes));
        }
        Ok(())
    }
}

impl<O: Outputs> Sink for Writer<O> {
    fn begin_key(&mut self, key: &[u8]) -> Result<()> {
        // `next_if` would remove and reinsert the fragment for each key.
        while self.fragments.peek().is_some_and(|next| next.upper <= *key)
            && let Some(fragment) = self.fragments.next()
        {
            self.write_fragment(&fragment)?;
        }
        if self.ends_before(key) { self.cut(key) } else { Ok(()) }
    }

    fn push(&mut self, key: &[u8], cell: Cell<'_>, kind: VersionKind) -> Result<()> {
        let (output, tally) = self.file()?;
        output.push(key, cell)?;
        tally.cell(key, cell.commit, cell.expiry, kind);
        Ok(())
    }

    fn will_pass(&mut self, keeps_newest: bool) {
        if let Some((_, tally)) = &mut self.file {
            tally.will_pass(keeps_newest);
        }
    }
}
