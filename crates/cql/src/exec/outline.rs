//! Properties of a statement that are known before it runs, for its admission.
//!
//! A prepared statement has its syntax tree. A text is not parsed before its admission: only its
//! first tokens are scanned, which costs less than parsing.

use std::cell::Cell;
use std::time::Duration;

use carnet_admission::Class;
use carnet_data::CqlDuration;

use super::timeout::literal_timeout;
use crate::ast::{
    Attribute, InValues, Name, OpenStatement, Relation, Select, Selection, Statement, Term, Using,
    Write,
};
use crate::compile::is_aggregate;
use crate::duration::timeout;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::system::is_system_keyspace;

/// Maximum number of keys after `IN` in a small statement.
pub(super) const KEYS_SMALL_MAX: usize = 12;
/// Reason for which a statement with more keys is large.
const MANY_KEYS: &str = "it names more than 12 keys";
/// Maximum number of tokens of a text that are scanned.
const TOKENS_MAX: usize = 512;
/// Maximum number of bytes that are scanned: one string may have megabytes.
const BYTES_MAX: usize = 64 << 10;

/// Properties of a statement that are known before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline<'s> {
    /// Class for admission.
    pub class: Class,
    /// Whether it scans a table, filters, aggregates, or names many keys. It is batch work unless
    /// its level sets another workload.
    pub is_large: bool,
    /// Why it is large, of a parsed statement.
    pub why_large: Option<&'static str>,
    /// Whether the timeout of scans applies.
    pub is_scan: bool,
    /// Value of `USING TIMEOUT`, unless it is a bind marker.
    pub timeout: Option<Duration>,
    /// Name after `USING SERVICE LEVEL`.
    pub level: Option<&'s str>,
    /// Whether the end of a long text was not scanned.
    pub is_cut: bool,
}

impl Outline<'_> {
    /// Returns the outline of a statement of which only the class is known.
    #[must_use]
    pub const fn of_class(class: Class) -> Self {
        Self {
            class,
            is_large: false,
            why_large: None,
            is_scan: false,
            timeout: None,
            level: None,
            is_cut: false,
        }
    }
}

impl<'s> Outline<'s> {
    /// Outline of a `COMMIT`: one of many rows takes as long as a scan, and each frees the memory and
    /// the snapshot of its transaction, so it is admitted while writes are refused.
    const COMMIT: Self = Self { is_scan: true, ..Outline::of_class(Class::System) };

    /// Returns the outline of an unparsed statement. An invalid text is cheap, and may get any
    /// class.
    #[must_use]
    pub fn of_text(text: &'s str) -> Self {
        let (whole, text) = (text.len(), &text[..text.floor_char_boundary(BYTES_MAX)]);
        let is_cut = text.len() < whole;
        let mut tokens = Tokens { lexer: Lexer::new(text), text, left: TOKENS_MAX, is_cut };
        let first = tokens.next().map_or("", |token| tokens.text_of(token));
        let is = |word: &str| first.eq_ignore_ascii_case(word);
        let mut outline = if is("SELECT") {
            tokens.select()
        } else if is("INSERT") || is("UPDATE") || is("DELETE") {
            tokens.write()
        } else if is("BEGIN") {
            tokens.batch()
        } else if is("START") {
            Self::of_class(Class::Write)
        } else if is("COMMIT") {
            Self::COMMIT
        } else {
            Self::of_class(Class::System)
        };
        outline.is_cut = tokens.is_cut;
        outline.is_large |= outline.is_cut && is("SELECT");
        outline
    }

    /// Returns the outline of a statement in a keyspace.
    ///
    /// `list_len` returns the number of values that are bound to the marker of this index, if it is
    /// known.
    pub(super) fn of_statement(
        statement: &'s Statement,
        keyspace: Option<&str>,
        list_len: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        match statement {
            Statement::Select(select) => Self::of_select(select, keyspace, list_len),
            Statement::Write(write) => {
                let is_large = keys(filter_of(write), list_len) > KEYS_SMALL_MAX;
                let why_large = is_large.then_some(MANY_KEYS);
                Self { is_large, why_large, ..Self::of_using(write.using()) }
            }
            Statement::Batch(batch) => Self::of_using(&batch.using),
            Statement::Truncate(_, using) => Self { class: Class::System, ..Self::of_using(using) },
            Statement::Transaction(_) | Statement::Open(OpenStatement::Start(_)) => {
                Self::of_class(Class::Write)
            }
            Statement::Open(OpenStatement::Commit(_)) => Self::COMMIT,
            Statement::Open(OpenStatement::Outcome(_) | OpenStatement::Outcomes(_)) => {
                Self::of_class(Class::Read)
            }
            _ => Self::of_class(Class::System),
        }
    }

    fn of_select(
        select: &'s Select,
        keyspace: Option<&str>,
        list_len: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let named = select.from.keyspace.as_ref().map(Name::as_str).or(keyspace);
        let is_filtered = select.allow_filtering || aggregates(select);
        let is_token = |relation: &Relation| matches!(relation, Relation::Token { .. });
        let is_whole = select.limit.is_none() && select.filter.iter().all(is_token);
        let why_large = if select.allow_filtering {
            Some("ALLOW FILTERING")
        } else if is_filtered {
            Some("it aggregates")
        } else if is_whole {
            Some("it reads the whole table, without LIMIT")
        } else {
            (keys(&select.filter, list_len) > KEYS_SMALL_MAX).then_some(MANY_KEYS)
        };
        let class = class_of_query(named.unwrap_or_default());
        Self {
            is_large: why_large.is_some(),
            why_large,
            is_scan: class != Class::System && (is_filtered || select.filter.is_empty()),
            timeout: select.using.get(Attribute::Timeout).and_then(literal_timeout),
            level: select.using.level(),
            ..Self::of_class(class)
        }
    }

    fn of_using(using: &'s Using) -> Self {
        Self {
            timeout: using.get(Attribute::Timeout).and_then(literal_timeout),
            level: using.level(),
            ..Self::of_class(Class::Write)
        }
    }
}

/// Outline of a prepared statement without its level, made once; `None` if it depends on the lengths of
/// bound lists.
pub(super) struct KeptOutline(Option<Outline<'static>>);

impl KeptOutline {
    pub(super) fn new(statement: &Statement, keyspace: Option<&str>) -> Self {
        let has_lists = Cell::new(false);
        let list_len = |_| {
            has_lists.set(true);
            None
        };
        let outline = Outline::of_statement(statement, keyspace, list_len);
        Self((!has_lists.get()).then_some(Outline { level: None, ..outline }))
    }

    /// Returns the outline of the statement in its keyspace. `list_len` returns the number of values
    /// that are bound to the marker of this index, if it is known.
    pub(super) fn of<'s>(
        &self,
        statement: &'s Statement,
        keyspace: Option<&str>,
        list_len: impl Fn(usize) -> Option<usize>,
    ) -> Outline<'s> {
        match &self.0 {
            Some(outline) => Outline { level: statement.level(), ..outline.clone() },
            None => Outline::of_statement(statement, keyspace, list_len),
        }
    }
}

/// Returns the class of a query of a table in a keyspace.
fn class_of_query(keyspace: &str) -> Class {
    if is_system_keyspace(keyspace) { Class::System } else { Class::Read }
}

fn aggregates(select: &Select) -> bool {
    if !select.group_by.is_empty() {
        return true;
    }
    let Selection::Items(items) = &select.selection else { return false };
    items.iter().any(|item| has_aggregate(&item.term))
}

fn has_aggregate(term: &Term) -> bool {
    let is_one = matches!(term, Term::Call(call) if is_aggregate(call.function.name.as_str()));
    is_one || term.children().into_iter().any(has_aggregate)
}

const fn filter_of(write: &Write) -> &[Relation] {
    match write {
        Write::Insert(_) => &[],
        Write::Update(update) => update.filter.as_slice(),
        Write::Delete(delete) => delete.filter.as_slice(),
    }
}

/// Returns the number of keys that the lists of several `IN`s select together. A bound list of
/// unknown length counts as one key.
fn keys(filter: &[Relation], list_len: impl Fn(usize) -> Option<usize>) -> usize {
    let lists = filter.iter().filter_map(|relation| match relation {
        Relation::In { values, .. } | Relation::InTuple { values, .. } => match values {
            InValues::List(terms) => Some(terms.len()),
            InValues::Marker(marker) => list_len(usize::from(marker.index)),
        },
        _ => None,
    });
    lists.fold(1, |keys, len| keys.saturating_mul(len.max(1)))
}

/// First tokens of a text.
struct Tokens<'s> {
    lexer: Lexer<'s>,
    text: &'s str,
    left: usize,
    is_cut: bool,
}

impl<'s> Tokens<'s> {
    fn next(&mut self) -> Option<Token> {
        let token = self.lexer.next().ok().filter(|token| token.kind != TokenKind::End)?;
        if self.left == 0 {
            self.is_cut = true;
            return None;
        }
        self.left -= 1;
        Some(token)
    }

    fn text_of(&self, token: Token) -> &'s str {
        &self.text[token.start..token.end]
    }

    /// Returns the next token and its text, in upper case for a word.
    fn word(&mut self) -> Option<(String, Token)> {
        let token = self.next()?;
        let text = self.text_of(token);
        let is_word = token.kind == TokenKind::Word;
        Some((if is_word { text.to_ascii_uppercase() } else { text.to_owned() }, token))
    }

    fn select(&mut self) -> Outline<'s> {
        let mut aggregates = false;
        let mut last = String::new();
        loop {
            let Some((word, token)) = self.word() else { return Outline::of_class(Class::Read) };
            if token.kind == TokenKind::Word && word == "FROM" {
                break;
            }
            aggregates |= word == "(" && is_aggregate(&last.to_ascii_lowercase());
            last = word;
        }
        let table = self.word().map_or_else(String::new, |(table, _)| table.to_ascii_lowercase());
        let class = class_of_query(&table);
        let mut rest = Rest::default();
        self.rest(&mut rest);
        let is_filtered = aggregates || rest.allows_filtering;
        let is_whole = !rest.is_limited && rest.relations == 0;
        Outline {
            is_large: is_filtered || is_whole || rest.keys() > KEYS_SMALL_MAX,
            is_scan: class != Class::System && (is_filtered || !rest.has_filter),
            timeout: rest.timeout,
            level: rest.level,
            ..Outline::of_class(class)
        }
    }

    fn write(&mut self) -> Outline<'s> {
        let mut rest = Rest::default();
        self.rest(&mut rest);
        let is_large = rest.keys() > KEYS_SMALL_MAX;
        let Rest { timeout, level, .. } = rest;
        Outline { is_large, timeout, level, ..Outline::of_class(Class::Write) }
    }

    /// Scans after `BEGIN`: only a `USING` of the batch itself counts.
    fn batch(&mut self) -> Outline<'s> {
        let mut rest = Rest::default();
        while let Some((word, _)) = self.word() {
            match word.as_str() {
                "UNLOGGED" | "LOGGED" | "COUNTER" | "BATCH" => {}
                "USING" => {
                    self.using(&mut rest);
                    break;
                }
                _ => break,
            }
        }
        let Rest { timeout, level, .. } = rest;
        Outline { timeout, level, ..Outline::of_class(Class::Write) }
    }

    /// Scans the text after the table.
    fn rest(&mut self, rest: &mut Rest<'s>) {
        let (mut depth, mut last, mut pending) = (0_usize, String::new(), None);
        while let Some(next) = pending.take().or_else(|| self.word()) {
            let (word, token) = next;
            let begins_relation = depth == 0 && matches!(last.as_str(), "WHERE" | "AND");
            rest.relations += usize::from(begins_relation && word != "TOKEN");
            match (word.as_str(), depth, last.as_str()) {
                ("(", 0, "IN") => self.list(rest),
                ("(" | "[" | "{", ..) => depth += 1,
                (")" | "]" | "}", ..) => depth = depth.saturating_sub(1),
                ("WHERE", 0, _) => rest.has_filter = true,
                ("LIMIT", 0, before) => rest.is_limited |= before != "PARTITION",
                ("FILTERING", 0, "ALLOW") => rest.allows_filtering = true,
                ("USING", 0, _) if token.kind == TokenKind::Word => pending = self.using(rest),
                _ => {}
            }
            last = word;
        }
    }

    /// Counts the values of a list after its parenthesis.
    fn list(&mut self, rest: &mut Rest<'s>) {
        let (mut depth, mut count) = (1_usize, 1_usize);
        while depth > 0 {
            let Some(token) = self.next() else { break };
            match self.text_of(token) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "," if depth == 1 => count += 1,
                _ => {}
            }
        }
        rest.keys = rest.keys().saturating_mul(count);
    }

    /// Scans the attributes after `USING`; returns the next word.
    fn using(&mut self, rest: &mut Rest<'s>) -> Option<(String, Token)> {
        loop {
            let (mut attribute, token) = self.word()?;
            if attribute == "SERVICE" {
                self.next()?;
                "SERVICE_LEVEL".clone_into(&mut attribute);
            }
            let value = self.next()?;
            match attribute.as_str() {
                "SERVICE_LEVEL" => rest.level = plain(self.text_of(value), value.kind),
                "TIMEOUT" => {
                    let given = CqlDuration::parse(self.text_of(value));
                    rest.timeout = given.and_then(|given| timeout(given, "Timeout").ok());
                }
                "TIMESTAMP" | "TTL" | "TRANSACTION" => {}
                _ => return Some((attribute, token)),
            }
            // The name of a marker, or the number after a sign.
            if matches!(self.text_of(value), ":" | "-") {
                self.next()?;
            }
            let behind = self.word()?;
            if behind.0 != "AND" {
                return Some(behind);
            }
        }
    }
}

/// Returns a name if the text contains it unchanged. Other names are found by the parser.
fn plain(text: &str, kind: TokenKind) -> Option<&str> {
    match kind {
        TokenKind::Word => (!text.bytes().any(|byte| byte.is_ascii_uppercase())).then_some(text),
        TokenKind::QuotedName | TokenKind::String => {
            let inside = text.get(1..text.len().checked_sub(1)?)?;
            (!inside.contains(['"', '\''])).then_some(inside)
        }
        _ => None,
    }
}

/// Properties found after the table.
#[derive(Default)]
struct Rest<'s> {
    has_filter: bool,
    /// Number of relations, except those of tokens.
    relations: usize,
    is_limited: bool,
    allows_filtering: bool,
    /// Product of the lists' lengths; 0 without a list.
    keys: usize,
    timeout: Option<Duration>,
    level: Option<&'s str>,
}

impl Rest<'_> {
    fn keys(&self) -> usize {
        self.keys.max(1)
    }
}

#[cfg(test)]
mod tests;
