//! Parser of relations in `WHERE` and in a single statement's `IF`.

use super::{IN_VALUES_MAX, Parse, Parser};
use crate::ast::{CompareOp, InValues, Name, Relation, Term};
use crate::error::Failure;
use crate::lexer::TokenKind;

const OPS: [CompareOp; 6] = [
    CompareOp::Equal,
    CompareOp::NotEqual,
    CompareOp::Less,
    CompareOp::LessOrEqual,
    CompareOp::Greater,
    CompareOp::GreaterOrEqual,
];

impl Parser<'_> {
    /// Parses `WHERE relation AND …` if it is next.
    pub(super) fn filter(&mut self) -> Parse<Vec<Relation>> {
        if !self.eat_word("WHERE") {
            return Ok(Vec::new());
        }
        self.relations(Self::relation)
    }

    /// Parses `WHERE relation AND …`, which is required.
    pub(super) fn required_filter(&mut self) -> Parse<Vec<Relation>> {
        if self.is_word("WHERE") { self.filter() } else { Err(self.expected("WHERE")) }
    }

    pub(super) fn relations(
        &mut self,
        one: fn(&mut Self) -> Parse<Relation>,
    ) -> Parse<Vec<Relation>> {
        let mut relations = vec![one(self)?];
        while self.eat_word("AND") {
            relations.push(one(self)?);
        }
        if self.is_word("OR") {
            return Err(self.unsupported("OR between relations"));
        }
        Ok(relations)
    }

    pub(super) fn compare_op(&mut self) -> Parse<CompareOp> {
        match self.eat_compare_op() {
            Some(op) => Ok(op),
            None => Err(self.expected("a comparison (=, !=, <, <=, >, >=)")),
        }
    }

    pub(super) fn eat_compare_op(&mut self) -> Option<CompareOp> {
        let op = OPS.into_iter().find(|op| self.is_symbol(op.symbol()))?;
        self.advance();
        Some(op)
    }

    fn relation(&mut self) -> Parse<Relation> {
        if self.is_word("TOKEN") && self.is_symbol_at(1, "(") {
            return self.token_relation();
        }
        if self.is_word("expr") && self.is_symbol_at(1, "(") {
            return Err(self.unsupported("expr(…), an index's own expressions"));
        }
        if !self.eat_symbol("(") {
            return self.column_relation();
        }
        let is_name = matches!(self.peek().kind, TokenKind::Word | TokenKind::QuotedName);
        if is_name && (self.is_symbol_at(1, ",") || self.is_symbol_at(1, ")")) {
            return self.tuple_relation();
        }
        let relation = self.nested(Self::relation)?;
        self.expect_symbol(")")?;
        Ok(relation)
    }

    fn token_relation(&mut self) -> Parse<Relation> {
        self.expect_word("TOKEN")?;
        self.expect_symbol("(")?;
        let columns = self.column_names()?;
        self.refuse_between()?;
        let op = self.compare_op()?;
        let value = self.term()?;
        Ok(Relation::Token { columns, op, value })
    }

    /// Parses `(column, …) op …` after its opening parenthesis.
    fn tuple_relation(&mut self) -> Parse<Relation> {
        let columns = self.column_names()?;
        self.refuse_between()?;
        if self.eat_word("IN") {
            let values = self.in_values(Self::tuple_or_marker)?;
            return Ok(Relation::InTuple { columns, values });
        }
        let op = self.compare_op()?;
        let value = self.tuple_or_marker()?;
        Ok(Relation::CompareTuple { columns, op, value })
    }

    fn tuple_or_marker(&mut self) -> Parse<Term> {
        match self.peek().kind {
            TokenKind::Symbol("?" | ":") => self.marker().map(Term::Marker),
            TokenKind::Symbol("(") => self.nested(Self::tuple),
            _ => Err(self.expected("a tuple as (1, 2), or a bind marker")),
        }
    }

    /// Parses the values after `IN`.
    pub(super) fn in_values(&mut self, one: fn(&mut Self) -> Parse<Term>) -> Parse<InValues> {
        match self.peek().kind {
            TokenKind::Symbol("?" | ":") => self.marker().map(InValues::Marker),
            TokenKind::Symbol("(") => {
                self.advance();
                self.in_list(one).map(InValues::List)
            }
            _ => Err(self.expected("values as (1, 2), or a bind marker")),
        }
    }

    /// Parses the values of a list after its opening parenthesis.
    fn in_list(&mut self, one: fn(&mut Self) -> Parse<Term>) -> Parse<Vec<Term>> {
        let mut count = 0;
        self.comma_separated_until(")", |parser| {
            count += 1;
            if count > IN_VALUES_MAX {
                let count = IN_VALUES_MAX + parser.items_ahead();
                let message = format!(
                    "the list behind IN has {count} values, more than the {IN_VALUES_MAX} that are \
                     allowed; ask for them in several statements"
                );
                return Err(Failure::invalid(parser.at(), message));
            }
            one(parser)
        })
    }

    /// Counts the items from the next token to the end of a list in parentheses.
    fn items_ahead(&self) -> usize {
        let (mut open, mut items) = (0_usize, 1);
        for token in &self.tokens[self.next..] {
            match token.kind {
                TokenKind::Symbol("(" | "[" | "{") => open += 1,
                TokenKind::Symbol(")" | "]" | "}") if open == 0 => break,
                TokenKind::Symbol(")" | "]" | "}") => open -= 1,
                TokenKind::Symbol(",") if open == 0 => items += 1,
                _ => {}
            }
        }
        items
    }

    fn column_relation(&mut self) -> Parse<Relation> {
        let column = self.name("a column")?;
        if let Some(op) = self.eat_compare_op() {
            let value = self.term()?;
            return Ok(Relation::Compare { column, op, value });
        }
        self.refuse_between()?;
        if self.eat_word("IN") {
            let values = self.in_values(Self::term)?;
            Ok(Relation::In { column, values })
        } else if self.is_words(&["IS", "NULL"]) {
            Err(self.unsupported("IS NULL in WHERE"))
        } else if self.eat_word("IS") {
            self.expect_words(&["NOT", "NULL"])?;
            Ok(Relation::IsNotNull(column))
        } else if self.eat_word("CONTAINS") {
            let key = self.eat_word("KEY");
            Ok(Relation::Contains { column, key, value: self.term()? })
        } else if self.eat_word("LIKE") {
            Ok(Relation::Like { column, pattern: self.term()? })
        } else if self.eat_symbol("[") {
            self.element_relation(column)
        } else if self.eat_symbol(".") {
            self.field_relation(column)
        } else {
            Err(self
                .expected("a comparison (=, !=, <, <=, >, >=), IN, CONTAINS, LIKE or IS NOT NULL"))
        }
    }

    /// Parses `column[element] op value` after the opening bracket.
    fn element_relation(&mut self, column: Name) -> Parse<Relation> {
        let element = self.term()?;
        self.expect_symbol("]")?;
        if self.eat_word("IN") {
            let values = self.in_values(Self::term)?;
            return Ok(Relation::ElementIn { column, element, values });
        }
        let op = self.compare_op()?;
        let value = self.term()?;
        Ok(Relation::Element { column, element, op, value })
    }

    /// Parses `column.field op value` after the dot.
    fn field_relation(&mut self, column: Name) -> Parse<Relation> {
        let field = self.name("a field")?;
        if self.eat_word("IN") {
            let values = self.in_values(Self::term)?;
            return Ok(Relation::FieldIn { column, field, values });
        }
        let op = self.compare_op()?;
        let value = self.term()?;
        Ok(Relation::Field { column, field, op, value })
    }

    fn refuse_between(&self) -> Parse<()> {
        let newer = [&["BETWEEN"][..], &["NOT", "IN"], &["NOT", "CONTAINS"]];
        match newer.into_iter().find(|words| self.is_words(words)) {
            Some(words) => Err(self.unsupported(&words.join(" "))),
            None => Ok(()),
        }
    }

    /// Parses one condition of a single statement's `IF`.
    pub(super) fn column_condition(&mut self) -> Parse<Relation> {
        match self.column_relation()? {
            Relation::IsNotNull(column) => {
                let message = format!("IF has no IS NOT NULL here; write {column} != null");
                Err(Failure::syntax(column.at.0, message))
            }
            relation => Ok(relation),
        }
    }
}
