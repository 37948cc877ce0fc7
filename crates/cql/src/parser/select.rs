//! Parser of `SELECT`.

use super::{Names, Parse, Parser};
use crate::ast::{Attribute, Near, Ordering, Select, SelectItem, Selection, Using};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parse<Select> {
        self.expect_word("SELECT")?;
        let json = self.is_prefix("JSON");
        if json {
            self.advance();
        }
        let (distinct, selection) = self.select_clause()?;
        Ok(Select { json, ..self.select_from(distinct, selection)? })
    }

    /// Parses the clause between `SELECT` and `FROM`.
    pub(super) fn select_clause(&mut self) -> Parse<(bool, Selection)> {
        if self.is_prefix("JSON") {
            return Err(self.unsupported("SELECT JSON in such a place"));
        }
        let distinct = self.is_prefix("DISTINCT");
        if distinct {
            self.advance();
        }
        let selection = if self.eat_symbol("*") {
            Selection::All
        } else {
            Selection::Items(self.comma_separated(Self::select_item)?)
        };
        Ok((distinct, selection))
    }

    /// Returns `true` for the keyword in `DISTINCT a`, not for a column's name as in `distinct AS
    /// a`.
    fn is_prefix(&self, word: &str) -> bool {
        let is_name = match self.peek_at(1).kind {
            TokenKind::Word => self.is_word_at(1, "FROM") || self.is_word_at(1, "AS"),
            TokenKind::Symbol(symbol) => matches!(symbol, "," | "." | ")" | "+" | "/" | "%" | ";"),
            TokenKind::End => true,
            _ => false,
        };
        self.is_word(word) && !is_name
    }

    fn select_item(&mut self) -> Parse<SelectItem> {
        let term = self.with_names(Names::Allowed, Self::term)?;
        let alias = if self.eat_word("AS") { Some(self.name("an alias")?) } else { None };
        Ok(SelectItem { term, alias })
    }

    /// Parses a `SELECT` from its `FROM` on.
    pub(super) fn select_from(&mut self, distinct: bool, selection: Selection) -> Parse<Select> {
        self.expect_word("FROM")?;
        let from = self.table_name("a table")?;
        let filter = self.filter()?;
        let mut group_by = Vec::new();
        if self.eat_words(&["GROUP", "BY"]) {
            let column = |parser: &mut Self| parser.with_names(Names::Allowed, Self::term);
            group_by = self.comma_separated(column)?;
        }
        let (mut order_by, mut near) = (Vec::new(), None);
        if self.eat_words(&["ORDER", "BY"]) {
            near = self.near()?;
            if near.is_none() {
                order_by = self.comma_separated(Self::select_ordering)?;
            }
        }
        let mut per_partition_limit = None;
        if self.eat_words(&["PER", "PARTITION"]) {
            self.expect_word("LIMIT")?;
            per_partition_limit = Some(self.integer_or_marker("a number of rows")?);
        }
        let mut limit = None;
        if self.eat_word("LIMIT") {
            limit = Some(self.integer_or_marker("a number of rows")?);
        }
        let allow_filtering = self.eat_word("ALLOW");
        if allow_filtering {
            self.expect_word("FILTERING")?;
        }
        let bypass_cache = self.eat_words(&["BYPASS", "CACHE"]);
        let as_of = if self.eat_words(&["AS", "OF"]) { Some(self.term()?) } else { None };
        let using = self.select_using()?;
        Ok(Select {
            json: false,
            distinct,
            selection,
            from,
            filter,
            group_by,
            order_by,
            near,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            as_of,
            using,
        })
    }

    /// Parses `USING TIMEOUT … AND TRANSACTION … AND SERVICE LEVEL …` in any order, if it is next.
    fn select_using(&mut self) -> Parse<Using> {
        self.using_of(&[Attribute::Timeout, Attribute::Transaction])
    }

    /// Parses `column ANN OF vector`, if it is next.
    fn near(&mut self) -> Parse<Option<Near>> {
        if !(self.is_word_at(1, "ANN") && self.is_word_at(2, "OF")) {
            return Ok(None);
        }
        let column = self.name("a column")?;
        self.expect_words(&["ANN", "OF"])?;
        let vector = self.term()?;
        if self.is_symbol(",") {
            return Err(self.only_near());
        }
        Ok(Some(Near { column, vector }))
    }

    fn only_near(&self) -> Failure {
        Failure::invalid(self.at(), "ANN ordering does not support any other ordering")
    }

    fn select_ordering(&mut self) -> Parse<Ordering> {
        let column = self.name("a column")?;
        if self.is_words(&["ANN", "OF"]) {
            return Err(self.only_near());
        }
        let descending = self.eat_word("DESC");
        if !descending {
            self.eat_word("ASC");
        }
        Ok(Ordering { column, descending })
    }
}
