//! Parser of statements about service levels.

use super::{OPTIONS_MAX, Parse, Parser};
use crate::ast::{LevelOptions, LevelStatement, Literal, Name};
use crate::error::Failure;
use crate::lexer::TokenKind;
use crate::position::Position;

impl Parser<'_> {
    /// Parses a statement about service levels, if the next one is.
    pub(super) fn eat_level_statement(&mut self) -> Parse<Option<LevelStatement>> {
        let verbs = ["CREATE", "ALTER", "DROP", "ATTACH", "DETACH"];
        let Some(verb) = verbs.into_iter().find(|verb| self.is_word(verb)) else {
            return self.eat_list_levels();
        };
        if self.service_level_at(1).is_none() {
            return Ok(None);
        }
        self.advance();
        self.expect_service_level()?;
        Ok(Some(match verb {
            "CREATE" => {
                let if_not_exists = self.eat_if_not_exists()?;
                let name = self.level_name()?;
                LevelStatement::Create { if_not_exists, name, options: self.level_options(false)? }
            }
            "ALTER" => {
                let name = self.level_name()?;
                LevelStatement::Alter { name, options: self.level_options(true)? }
            }
            "DROP" => {
                let if_exists = self.eat_if_exists()?;
                LevelStatement::Drop { if_exists, name: self.level_name()? }
            }
            "ATTACH" => {
                let name = self.level_name()?;
                self.expect_word("TO")?;
                LevelStatement::Attach { name, user: self.user_name()? }
            }
            _ => {
                self.expect_word("FROM")?;
                LevelStatement::Detach { user: self.user_name()? }
            }
        }))
    }

    fn eat_list_levels(&mut self) -> Parse<Option<LevelStatement>> {
        if !self.is_word("LIST") {
            return Ok(None);
        }
        if self.is_words(&["LIST", "ALL", "SERVICE"])
            || self.is_words(&["LIST", "ALL", "SERVICE_LEVELS"])
        {
            self.next += 2;
            self.expect_service_levels()?;
            return Ok(Some(LevelStatement::List(None)));
        }
        if self.eat_words(&["LIST", "ALL", "ATTACHED"]) {
            self.expect_service_levels()?;
            return Ok(Some(LevelStatement::ListAttached(None)));
        }
        if self.service_level_at(1).is_some() {
            self.advance();
            self.expect_service_level()?;
            return self.level_name().map(|name| Some(LevelStatement::List(Some(name))));
        }
        let is_effective = self.is_word_at(1, "EFFECTIVE");
        if !is_effective && !self.is_word_at(1, "ATTACHED") {
            return Ok(None);
        }
        self.next += 2;
        self.expect_service_level()?;
        self.expect_word("OF")?;
        let user = self.user_name()?;
        Ok(Some(if is_effective {
            LevelStatement::ListEffective(user)
        } else {
            LevelStatement::ListAttached(Some(user))
        }))
    }

    /// Returns the number of words of `SERVICE LEVEL` or `SERVICE_LEVEL` at `ahead`, if they are
    /// there.
    fn service_level_at(&self, ahead: usize) -> Option<usize> {
        if self.is_word_at(ahead, "SERVICE_LEVEL") {
            return Some(1);
        }
        (self.is_word_at(ahead, "SERVICE") && self.is_word_at(ahead + 1, "LEVEL")).then_some(2)
    }

    /// Consumes `SERVICE LEVEL` or `SERVICE_LEVEL`, if it is next.
    pub(super) fn eat_service_level(&mut self) -> bool {
        let words = self.service_level_at(0);
        self.next += words.unwrap_or(0);
        words.is_some()
    }

    fn expect_service_level(&mut self) -> Parse<()> {
        if self.eat_service_level() { Ok(()) } else { Err(self.expected("SERVICE LEVEL")) }
    }

    fn expect_service_levels(&mut self) -> Parse<()> {
        if self.eat_words(&["SERVICE", "LEVELS"]) || self.eat_word("SERVICE_LEVELS") {
            return Ok(());
        }
        Err(self.expected("SERVICE LEVELS"))
    }

    pub(super) fn level_name(&mut self) -> Parse<Name> {
        self.name_or_string("a service level")
    }

    fn user_name(&mut self) -> Parse<Name> {
        self.name_or_string("a user")
    }

    /// Parses a name, which may also be in single quotes.
    pub(super) fn name_or_string(&mut self, what: &str) -> Parse<Name> {
        let token = self.peek();
        if token.kind != TokenKind::String {
            return self.name(what);
        }
        match self.constant(token)? {
            Some(Literal::String(text)) if !text.is_empty() => {
                self.advance();
                Ok(Name { text, at: Position(token.start) })
            }
            _ => Err(Failure::syntax(token.start, "a name cannot be empty")),
        }
    }

    /// Parses `WITH option = value AND …`.
    fn level_options(&mut self, required: bool) -> Parse<LevelOptions> {
        let mut options = LevelOptions::new();
        if !required && !self.is_word("WITH") {
            return Ok(options);
        }
        self.expect_word("WITH")?;
        loop {
            let name = self.name("an option")?;
            if options.iter().any(|(known, _)| *known == name) {
                return Err(Failure::invalid(name.at.0, format!("option {name} is given twice")));
            }
            self.expect_symbol("=")?;
            let value = if self.eat_word("NULL") { Literal::Null } else { self.option_constant()? };
            self.push(&mut options, (name, value), OPTIONS_MAX, "options")?;
            if !self.eat_word("AND") {
                return Ok(options);
            }
        }
    }
}
