//! Parser of statements about secondary indexes.

use super::{Parse, Parser};
use crate::ast::{CreateIndex, DropIndex, IndexTarget, Literal, Statement, TargetPart};
use crate::lexer::TokenKind;

/// Words that name a part of a column.
const PARTS: [(&str, TargetPart); 4] = [
    ("KEYS", TargetPart::Keys),
    ("VALUES", TargetPart::Values),
    ("ENTRIES", TargetPart::Entries),
    ("FULL", TargetPart::Full),
];

impl Parser<'_> {
    /// Parses `CREATE [CUSTOM] INDEX` or `DROP INDEX`, if it is next.
    pub(super) fn eat_index_statement(&mut self) -> Parse<Option<Statement>> {
        if self.eat_words(&["CREATE", "CUSTOM", "INDEX"]) {
            return self.create_index(true).map(Some);
        }
        if self.eat_words(&["CREATE", "INDEX"]) {
            return self.create_index(false).map(Some);
        }
        if self.eat_words(&["DROP", "INDEX"]) {
            let if_exists = self.eat_if_exists()?;
            let name = self.table_name("an index")?;
            return Ok(Some(Statement::DropIndex(DropIndex { if_exists, name })));
        }
        Ok(None)
    }

    fn create_index(&mut self, is_custom: bool) -> Parse<Statement> {
        let if_not_exists = self.eat_if_not_exists()?;
        let name = if self.is_word("ON") { None } else { Some(self.name("an index or ON")?) };
        self.expect_word("ON")?;
        let table = self.table_name("a table")?;
        self.expect_symbol("(")?;
        let mut local = None;
        if self.eat_symbol("(") {
            local = Some(self.column_names()?);
            self.expect_symbol(",")?;
        }
        let targets = self.comma_separated_until(")", Self::index_target)?;
        let class = match self.eat_word("USING") {
            true => Some(self.string("a class, as in 'sai'")?),
            false => None,
        };
        let mut options = Vec::new();
        if self.eat_words(&["WITH", "OPTIONS"]) {
            self.expect_symbol("=")?;
            self.expect_symbol("{")?;
            options = self.comma_separated_until("}", |parser| {
                let key = parser.option_constant()?;
                parser.expect_symbol(":")?;
                Ok((key, parser.option_constant()?))
            })?;
        }
        Ok(Statement::CreateIndex(CreateIndex {
            is_custom,
            if_not_exists,
            name,
            table,
            local,
            targets,
            class,
            options,
        }))
    }

    fn index_target(&mut self) -> Parse<IndexTarget> {
        let part =
            PARTS.into_iter().find(|(word, _)| self.is_word(word) && self.is_symbol_at(1, "("));
        let Some((_, part)) = part else {
            return Ok(IndexTarget { part: TargetPart::Plain, column: self.name("a column")? });
        };
        self.advance();
        self.expect_symbol("(")?;
        let column = self.name("a column")?;
        self.expect_symbol(")")?;
        Ok(IndexTarget { part, column })
    }

    fn string(&mut self, what: &str) -> Parse<String> {
        let token = self.peek();
        match self.constant(token)? {
            Some(Literal::String(text)) if token.kind != TokenKind::Word => {
                self.advance();
                Ok(text)
            }
            _ => Err(self.expected(what)),
        }
    }
}
