//! Parser of `COPY` statements.

use super::options::Options;
use crate::lexer::{Mistake, Token, TokenKind, tokens};

/// Direction of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the table.
    From,
    /// Out of the table.
    To,
}

/// The other end of a `COPY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A CSV file.
    File(String),
    /// Standard input or output.
    Standard,
}

/// `COPY` statement. Names are as written, quotes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) table: String,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) direction: Direction,
    pub(crate) end: End,
    pub(crate) options: Options,
}

impl Copy {
    /// Returns `true` if the rows go to standard output.
    pub(crate) fn writes_to_stdout(&self) -> bool {
        self.direction == Direction::To && self.end == End::Standard
    }
}

/// Parses a `COPY` statement.
///
/// # Errors
///
/// A syntax error, with its position.
pub(crate) fn parse(text: &str) -> Result<Copy, Mistake> {
    let mut reader = TokenReader { tokens: tokens(text)?, next: 0, end: text.len() };
    reader.keyword("COPY")?;
    let mut table = reader.name("a table's name")?;
    if reader.takes_symbol('.') {
        table = format!("{table}.{}", reader.name("a table's name")?);
    }
    let columns = if reader.takes_symbol('(') { Some(reader.columns()?) } else { None };
    let direction = match reader.word().as_deref() {
        Some("FROM") => Direction::From,
        Some("TO") => Direction::To,
        _ => return Err(reader.expected("FROM or TO")),
    };
    reader.next += 1;
    let end = reader.far_end(direction)?;
    let options = reader.options()?;
    reader.finish()?;
    Ok(Copy { table, columns, direction, end, options })
}

struct TokenReader {
    tokens: Vec<Token>,
    next: usize,
    end: usize,
}

impl TokenReader {
    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    /// Returns the next token in upper case if it is a word.
    fn word(&self) -> Option<String> {
        match self.peek() {
            Some(TokenKind::Word(word)) => Some(word.to_ascii_uppercase()),
            _ => None,
        }
    }

    fn expected(&self, what: &str) -> Mistake {
        Mistake::new(self.at(), format!("expected {what}, found {}", self.found()))
    }

    fn found(&self) -> String {
        self.peek().map_or("the end".into(), ToString::to_string)
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), Mistake> {
        if self.word().as_deref() != Some(keyword) {
            return Err(self.expected(keyword));
        }
        self.next += 1;
        Ok(())
    }

    fn takes_symbol(&mut self, symbol: char) -> bool {
        let is_it = self.peek() == Some(&TokenKind::Symbol(symbol));
        self.next += usize::from(is_it);
        is_it
    }

    fn name(&mut self, what: &str) -> Result<String, Mistake> {
        let (Some(TokenKind::Word(name)) | Some(TokenKind::Quoted(name))) = self.peek() else {
            return Err(self.expected(what));
        };
        let name = name.clone();
        self.next += 1;
        Ok(name)
    }

    fn columns(&mut self) -> Result<Vec<String>, Mistake> {
        let mut columns = vec![self.name("a column's name")?];
        while self.takes_symbol(',') {
            columns.push(self.name("a column's name")?);
        }
        if self.takes_symbol(')') { Ok(columns) } else { Err(self.expected(", or )")) }
    }

    fn far_end(&mut self, direction: Direction) -> Result<End, Mistake> {
        let standard = match direction {
            Direction::From => "STDIN",
            Direction::To => "STDOUT",
        };
        let end = match self.peek() {
            Some(TokenKind::Text(path)) if !path.is_empty() => End::File(path.clone()),
            _ if self.word().as_deref() == Some(standard) => End::Standard,
            _ => return Err(self.expected(&format!("a file's path in quotes, or {standard}"))),
        };
        self.next += 1;
        Ok(end)
    }

    fn options(&mut self) -> Result<Options, Mistake> {
        let mut options = Options::default();
        if self.word().as_deref() != Some("WITH") {
            return Ok(options);
        }
        let with_at = self.at();
        self.next += 1;
        loop {
            self.option(&mut options)?;
            if self.word().as_deref() != Some("AND") {
                break;
            }
            self.next += 1;
        }
        options.check().map_err(|message| Mistake::new(with_at, message))?;
        Ok(options)
    }

    fn option(&mut self, options: &mut Options) -> Result<(), Mistake> {
        let name = self.word().ok_or_else(|| self.expected("an option of COPY"))?;
        let at = self.at();
        Options::check_name(&name).map_err(|message| Mistake::new(at, message))?;
        self.next += 1;
        if !self.takes_symbol('=') {
            return Err(self.expected("="));
        }
        let (value_at, found) = (self.at(), self.found());
        let value = self.value().ok_or_else(|| self.expected("a value in quotes or a number"))?;
        let refused = |expected| format!("expected {expected}, found {found}");
        options.set(&name, &value).map_err(|expected| Mistake::new(value_at, refused(expected)))
    }

    /// Consumes a value, quoted or not.
    fn value(&mut self) -> Option<String> {
        let is_negative = self.takes_symbol('-');
        let value = match self.peek()? {
            TokenKind::Word(value) | TokenKind::Text(value) => value.clone(),
            _ => return None,
        };
        self.next += 1;
        Some(if is_negative { format!("-{value}") } else { value })
    }

    fn finish(&self) -> Result<(), Mistake> {
        if self.next == self.tokens.len() { Ok(()) } else { Err(self.expected("the end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::*;

    fn mistake(text: &str) -> (usize, String) {
        let mistake = parse(text).unwrap_err();
        (mistake.at, mistake.message)
    }

    #[test]
    fn complete_statement_is_parsed() {
        let copy = parse(
            "copy ks.\"T\" (id, \"a b\") from 'x.csv' with header = true AND delimiter='\\t' \
             and null='-' AND quote='|' AND CHUNKSIZE = 7 AND MAXERRORS = -1 AND numprocesses = 4",
        );
        let options = Options {
            header: true,
            dialect: Dialect {
                delimiter: b'\t',
                quote: b'|',
                null: "-".into(),
                ..Dialect::default()
            },
            chunk_rows: 7,
            parse_errors_max: None,
            insert_errors_max: None,
            without_effect: vec!["NUMPROCESSES"],
            ..Options::default()
        };
        let expected = Copy {
            table: "ks.\"T\"".into(),
            columns: Some(vec!["id".into(), "\"a b\"".into()]),
            direction: Direction::From,
            end: End::File("x.csv".into()),
            options,
        };
        assert_eq!(copy, Ok(expected));
        assert!(parse("COPY t TO STDOUT").unwrap().writes_to_stdout());
    }

    #[test]
    fn mistakes_have_positions() {
        assert_eq!(mistake("COPY t FROM STDOUT").0, 12);
        assert_eq!(mistake("COPY t (a b) TO 'x'"), (10, "expected , or ), found b".into()));
        assert_eq!(mistake("COPY t FROM ''").0, 12);
        assert_eq!(mistake("COPY t INTO 'x'"), (7, "expected FROM or TO, found INTO".into()));
        assert_eq!(
            mistake("COPY t TO"),
            (9, { "expected a file's path in quotes, or STDOUT, found the end".to_owned() })
        );
        assert_eq!(mistake("COPY t TO 'x' WITH HEADER = 1").0, 28);
        assert_eq!(mistake("COPY t TO 'x' WITH CHUNKSIZE = 0").0, 31);
        assert_eq!(mistake("COPY t TO 'x' WITH DELIMITER = 'ab'").0, 31);
        assert_eq!(mistake("COPY t TO 'x' HEADER = true").0, 14);
        assert_eq!(mistake("COPY t TO 'x' WITH NULL = 'a,b' AND HEADER = true").0, 14);
        let unsupported = mistake("COPY t TO 'x' WITH MAXROWS = 1").1;
        assert_eq!(unsupported, "not supported yet: COPY's option MAXROWS");
        assert!(mistake("COPY t TO 'x' WITH HEADERS = 1").1.contains("HEADER, DELIMITER"));
    }
}
