//! Parser of `DESCRIBE`.

use super::{Parse, Parser};
use crate::ast::{Describe, DescribeTarget};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses `DESCRIBE` after this word.
    pub(super) fn describe(&mut self) -> Parse<Describe> {
        let target = self.describe_target()?;
        let internals = self.eat_word("WITH");
        if internals {
            self.expect_word("INTERNALS")?;
        }
        Ok(Describe { target, internals })
    }

    fn describe_target(&mut self) -> Parse<DescribeTarget> {
        // A plural is a name if a dot follows it.
        let is_alone = !self.is_symbol_at(1, ".");
        let plurals = [
            (&["CLUSTER"][..], DescribeTarget::Cluster),
            (&["KEYSPACES"], DescribeTarget::Keyspaces),
            (&["TABLES"], DescribeTarget::Tables),
            (&["COLUMNFAMILIES"], DescribeTarget::Tables),
            (&["TYPES"], DescribeTarget::Types),
            (&["FUNCTIONS"], DescribeTarget::Functions),
            (&["AGGREGATES"], DescribeTarget::Aggregates),
            (&["SCHEMA"], DescribeTarget::Schema { full: false }),
            (&["FULL", "SCHEMA"], DescribeTarget::Schema { full: true }),
            (&["SCHEMA", "FULL"], DescribeTarget::Schema { full: true }),
        ];
        // The longest match is the last one.
        let found = plurals.into_iter().rfind(|(words, _)| is_alone && self.is_words(words));
        if let Some((words, target)) = found {
            self.next += words.len();
            return Ok(target);
        }
        let only = is_alone && self.is_words(&["ONLY", "KEYSPACE"]);
        if only {
            self.advance();
        }
        if self.eat_word("KEYSPACE") {
            let is_named = matches!(self.peek().kind, TokenKind::Word | TokenKind::QuotedName)
                && !self.is_word("WITH");
            let name = if is_named { Some(self.name("a keyspace")?) } else { None };
            return Ok(DescribeTarget::Keyspace { only, name });
        }
        self.described_by_name()
    }

    fn described_by_name(&mut self) -> Parse<DescribeTarget> {
        let name = "a name";
        if self.eat_word("TABLE") || self.eat_word("COLUMNFAMILY") {
            self.table_name(name).map(DescribeTarget::Table)
        } else if self.eat_word("INDEX") {
            self.table_name(name).map(DescribeTarget::Index)
        } else if self.eat_words(&["MATERIALIZED", "VIEW"]) {
            self.table_name(name).map(DescribeTarget::View)
        } else if self.eat_singular("TYPE") {
            self.table_name(name).map(DescribeTarget::Type)
        } else if self.eat_singular("FUNCTION") {
            self.table_name(name).map(DescribeTarget::Function)
        } else if self.eat_singular("AGGREGATE") {
            self.table_name(name).map(DescribeTarget::Aggregate)
        } else {
            self.table_name("what to describe").map(DescribeTarget::Any)
        }
    }

    /// Consumes a keyword, which is a name unless a name follows it.
    fn eat_singular(&mut self, word: &str) -> bool {
        let is_followed = match self.peek_at(1).kind {
            TokenKind::Word => !self.is_word_at(1, "WITH"),
            kind => kind == TokenKind::QuotedName,
        };
        is_followed && self.eat_word(word)
    }
}
