//! Parser of `BEGIN BATCH … APPLY BATCH`.

use super::{Parse, Parser};
use crate::ast::{Attribute, Batch, BatchKind};
use crate::error::Failure;

impl Parser<'_> {
    pub(super) fn batch(&mut self) -> Parse<Batch> {
        self.expect_word("BEGIN")?;
        let kind = if self.eat_word("UNLOGGED") {
            BatchKind::Unlogged
        } else if self.eat_word("COUNTER") {
            BatchKind::Counter
        } else {
            self.eat_word("LOGGED");
            BatchKind::Logged
        };
        if !self.eat_word("BATCH") {
            return Err(
                self.expected("TRANSACTION, or BATCH, or UNLOGGED, LOGGED or COUNTER BATCH")
            );
        }
        let at = self.at();
        let using = self.using()?;
        if using.get(Attribute::Ttl).is_some() {
            return Err(Failure::invalid(at, "a batch has no USING TTL, its statements have"));
        }
        let mut writes = Vec::new();
        while !self.is_word("APPLY") {
            if !self.is_write() {
                return Err(self.expected("INSERT, UPDATE, DELETE or APPLY BATCH"));
            }
            writes.push(self.write()?);
            self.eat_symbol(";");
        }
        self.expect_words(&["APPLY", "BATCH"])?;
        Ok(Batch { kind, using, writes })
    }
}
