//! Position of a key in a table's data, to tell how many bytes a range of keys takes.

use carnet_base::{Result, Timestamp};

use super::links::Named;
use super::options::ReadOptions;
use super::table::{Table, slot_of};

impl Table {
    /// Returns the part of the data before a key, from 0 to 1: exact up to the compression of a
    /// block. Reads at most an index page and a block.
    ///
    /// # Errors
    ///
    /// Like [`Table::get`].
    #[expect(clippy::cast_precision_loss, reason = "a part is rounded")]
    pub async fn part_before(&self, key: &[u8]) -> Result<f64> {
        let (statistics, reads) = (self.statistics(), ReadOptions::default());
        let Some(top) = &self.top else { return Ok(0.0) };
        if key <= &statistics.first[..] {
            return Ok(0.0);
        }
        if key > &statistics.last[..] {
            return Ok(1.0);
        }
        let newest = Timestamp::MAX;
        let index = self.load(Named::page(top, slot_of(top, key, newest)), reads).await?;
        let named = Named::block(&index, slot_of(&index, key, newest));
        let place = named.place();
        let block = self.load(named, reads).await?;
        let within = block.seek(key, newest) as f64 / block.len().max(1) as f64;
        let before = place.offset as f64 + f64::from(place.len) * within;
        Ok(before / self.footer.index.max(1) as f64)
    }
}
