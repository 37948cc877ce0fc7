//! Parser of `INSERT`, `UPDATE` and `DELETE`.

use super::{Names, Parse, Parser};
use crate::ast::{
    ArithmeticOp, Assignment, Attribute, Delete, Deletion, Guard, Insert, JsonRow, Name, Reference,
    TableName, Term, Update, Using, Write,
};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Returns `true` if a statement that writes is next.
    pub(super) fn is_write(&self) -> bool {
        ["INSERT", "UPDATE", "DELETE"].iter().any(|word| self.is_word(word))
    }

    pub(super) fn write(&mut self) -> Parse<Write> {
        if self.is_word("INSERT") {
            self.insert().map(Write::Insert)
        } else if self.is_word("UPDATE") {
            self.update().map(Write::Update)
        } else if self.is_word("DELETE") {
            self.delete().map(Write::Delete)
        } else {
            Err(self.expected("INSERT, UPDATE or DELETE"))
        }
    }

    fn insert(&mut self) -> Parse<Insert> {
        self.expect_words(&["INSERT", "INTO"])?;
        let table = self.table_name("a table")?;
        if self.eat_word("JSON") {
            return self.insert_json(table);
        }
        self.expect_symbol("(")?;
        let columns = self.column_names()?;
        self.expect_word("VALUES")?;
        let at = self.at();
        self.expect_symbol("(")?;
        let values = self.comma_separated(Self::term)?;
        self.expect_symbol(")")?;
        if columns.len() != values.len() {
            let (columns, values) = (columns.len(), values.len());
            let message = format!("each column needs a value: columns {columns}, values {values}");
            return Err(Failure::invalid(at, message));
        }
        let if_not_exists = self.eat_if_not_exists()?;
        let using = self.using()?;
        Ok(Insert { table, columns, values, json: None, if_not_exists, using })
    }

    /// Parses `INSERT INTO table JSON` after these words.
    fn insert_json(&mut self, table: TableName) -> Parse<Insert> {
        let value = match self.peek().kind {
            TokenKind::String | TokenKind::DollarString | TokenKind::Symbol("?" | ":") => {
                self.term()?
            }
            _ => return Err(self.expected("a string or a bind marker")),
        };
        let mut default_unset = false;
        if self.eat_word("DEFAULT") {
            default_unset = self.eat_word("UNSET");
            if !default_unset {
                self.expect_word("NULL")?;
            }
        }
        let json = Some(JsonRow { value, default_unset });
        let if_not_exists = self.eat_if_not_exists()?;
        let using = self.using()?;
        let (columns, values) = (Vec::new(), Vec::new());
        Ok(Insert { table, columns, values, json, if_not_exists, using })
    }

    fn update(&mut self) -> Parse<Update> {
        self.expect_word("UPDATE")?;
        let table = self.table_name("a table")?;
        let using = self.using()?;
        self.expect_word("SET")?;
        let assignments = self.comma_separated(Self::assignment)?;
        let filter = self.required_filter()?;
        let guard = self.guard()?;
        Ok(Update { table, using, assignments, filter, guard })
    }

    fn assignment(&mut self) -> Parse<Assignment> {
        let column = self.name("a column")?;
        let value = |parser: &mut Self| parser.with_names(Names::Allowed, Self::term);
        if self.eat_symbol("[") {
            let element = self.term()?;
            self.expect_symbol("]")?;
            self.expect_symbol("=")?;
            return Ok(Assignment::Element(column, element, value(self)?));
        }
        if self.eat_symbol(".") {
            let field = self.name("a field")?;
            self.expect_symbol("=")?;
            return Ok(Assignment::Field(column, field, value(self)?));
        }
        for (symbol, op) in [("+=", ArithmeticOp::Add), ("-=", ArithmeticOp::Subtract)] {
            if self.eat_symbol(symbol) {
                let operand = value(self)?;
                return Ok(step(column, op, operand));
            }
        }
        self.expect_symbol("=")?;
        Ok(Assignment::Column(column, value(self)?))
    }

    fn delete(&mut self) -> Parse<Delete> {
        self.expect_word("DELETE")?;
        let mut deletions = Vec::new();
        if !self.is_word("FROM") {
            deletions = self.comma_separated(|parser| {
                let column = parser.name("a column or FROM")?;
                if parser.eat_symbol(".") {
                    return Ok(Deletion::Field(column, parser.name("a field")?));
                }
                if !parser.eat_symbol("[") {
                    return Ok(Deletion::Column(column));
                }
                let element = parser.term()?;
                parser.expect_symbol("]")?;
                Ok(Deletion::Element(column, element))
            })?;
        }
        self.expect_word("FROM")?;
        let table = self.table_name("a table")?;
        let using = self.using()?;
        if using.get(Attribute::Ttl).is_some() {
            return Err(Failure::invalid(table.table.at.0, "DELETE has no USING TTL"));
        }
        let filter = self.required_filter()?;
        let guard = self.guard()?;
        Ok(Delete { deletions, table, using, filter, guard })
    }

    /// Parses `USING …` if it is next.
    pub(super) fn using(&mut self) -> Parse<Using> {
        self.using_of(&Attribute::ALL)
    }

    /// Parses `USING …` with some of these attributes, if it is next.
    pub(super) fn using_of(&mut self, attributes: &[Attribute]) -> Parse<Using> {
        let mut using = Using::default();
        if !self.eat_word("USING") {
            return Ok(using);
        }
        loop {
            let at = self.at();
            if self.eat_service_level() {
                if using.level.is_some() {
                    return Err(Failure::invalid(at, "SERVICE LEVEL is given twice"));
                }
                using.level = Some(self.level_name()?);
                if self.eat_word("AND") {
                    continue;
                }
                return Ok(using);
            }
            let found = attributes.iter().find(|given| self.eat_word(given.keyword()));
            let attribute = *found.ok_or_else(|| {
                let keywords: Vec<_> = attributes.iter().map(|given| given.keyword()).collect();
                self.expected(&format!("{} or SERVICE LEVEL", keywords.join(", ")))
            })?;
            if using.get(attribute).is_some() {
                let message = format!("{} is given twice", attribute.keyword());
                return Err(Failure::invalid(at, message));
            }
            let term = match attribute {
                Attribute::Timestamp => self.integer_or_marker("microseconds")?,
                Attribute::Ttl => self.integer_or_marker("seconds")?,
                Attribute::Timeout => self.duration_or_marker()?,
                Attribute::Transaction => self.transaction_id()?,
            };
            using.attributes.push((attribute, term));
            if !self.eat_word("AND") {
                return Ok(using);
            }
        }
    }

    /// Parses `IF EXISTS` or `IF column = … AND …` if it is next.
    fn guard(&mut self) -> Parse<Guard> {
        if !self.eat_word("IF") {
            return Ok(Guard::Always);
        }
        if self.is_word("EXISTS") && !self.is_comparison_ahead() {
            self.advance();
            return Ok(Guard::Exists);
        }
        if self.is_words(&["NOT", "EXISTS"]) {
            let message = "IF NOT EXISTS belongs to INSERT; UPDATE and DELETE have IF EXISTS";
            return Err(Failure::syntax(self.at(), message));
        }
        self.relations(Self::column_condition).map(Guard::Columns)
    }

    /// Returns `true` if the next word is a column in a comparison, even if it is also a keyword.
    fn is_comparison_ahead(&self) -> bool {
        let symbols = ["=", "!=", "<", "<=", ">", ">="];
        symbols.iter().any(|symbol| self.is_symbol_at(1, symbol)) || self.is_word_at(1, "IN")
    }
}

/// Returns `column = column op operand` for `column op= operand`.
fn step(column: Name, op: ArithmeticOp, operand: Term) -> Assignment {
    let itself = Term::Reference(Reference { name: column.clone(), field: None });
    let value = Term::Arithmetic { first: Box::new(itself), rest: vec![(op, operand)] };
    Assignment::Column(column, value)
}
