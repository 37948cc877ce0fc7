//! Parser of `COPY` statements.

use crate::shell::lexer::{Mistake, Token, TokenKind, tokens};

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

/// Options of the CSV format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    /// Text for null.
    pub(crate) null: String,
    /// Rows per transaction or page.
    pub(crate) chunk_rows: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { header: false, delimiter: b',', quote: b'"', null: String::new(), chunk_rows: 500 }
    }
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

/// Maximum number of rows per chunk.
const CHUNK_ROWS_MAX: usize = 10_000;

/// Options of cqlsh's `COPY` that this one does not support.
const OF_CQLSH: [&str; 25] = [
    "BEGINTOKEN",
    "BOOLSTYLE",
    "CONFIGFILE",
    "DATETIMEFORMAT",
    "DECIMALSEP",
    "ENCODING",
    "ENDTOKEN",
    "ERRFILE",
    "ESCAPE",
    "FLOATPRECISION",
    "DOUBLEPRECISION",
    "INGESTRATE",
    "MAXATTEMPTS",
    "MAXBATCHSIZE",
    "MAXINSERTERRORS",
    "MAXOUTPUTSIZE",
    "MAXPARSEERRORS",
    "MAXREQUESTS",
    "MAXROWS",
    "MINBATCHSIZE",
    "NUMPROCESSES",
    "PAGESIZE",
    "PAGETIMEOUT",
    "SKIPCOLS",
    "SKIPROWS",
];

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
        let found = self.peek().map_or("the end".into(), ToString::to_string);
        Mistake::new(self.at(), format!("expected {what}, found {found}"))
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
        self.next += 1;
        loop {
            self.option(&mut options)?;
            if self.word().as_deref() != Some("AND") {
                return Ok(options);
            }
            self.next += 1;
        }
    }

    fn option(&mut self, options: &mut Options) -> Result<(), Mistake> {
        const KNOWN: &str = "HEADER, DELIMITER, QUOTE, NULL or CHUNKSIZE";
        let name = self.word().ok_or_else(|| self.expected(KNOWN))?;
        let at = self.at();
        if OF_CQLSH.contains(&name.as_str()) {
            return Err(Mistake::new(at, format!("not supported yet: COPY's option {name}")));
        }
        self.next += 1;
        if !self.takes_symbol('=') {
            return Err(self.expected("="));
        }
        match name.as_str() {
            "HEADER" => options.header = self.boolean()?,
            "DELIMITER" => options.delimiter = self.byte()?,
            "QUOTE" => options.quote = self.byte()?,
            "NULL" => options.null = self.text()?,
            "CHUNKSIZE" => options.chunk_rows = self.rows()?,
            _ => return Err(Mistake::new(at, format!("expected {KNOWN}, found {name}"))),
        }
        if options.delimiter == options.quote {
            return Err(Mistake::new(at, "DELIMITER and QUOTE have to differ"));
        }
        Ok(())
    }

    /// Consumes a value, quoted or not.
    fn value(&mut self) -> Option<String> {
        let value = match self.peek()? {
            TokenKind::Word(value) | TokenKind::Text(value) => value.clone(),
            _ => return None,
        };
        self.next += 1;
        Some(value)
    }

    fn boolean(&mut self) -> Result<bool, Mistake> {
        let mistake = self.expected("true or false");
        match self.value().map(|value| value.to_ascii_lowercase()).as_deref() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(mistake),
        }
    }

    fn byte(&mut self) -> Result<u8, Mistake> {
        let mistake = self.expected("one ASCII character in quotes");
        match self.value().as_deref() {
            Some("\\t") => Ok(b'\t'),
            Some(text) if text.len() == 1 && !"\r\n".contains(text) => Ok(text.as_bytes()[0]),
            _ => Err(mistake),
        }
    }

    fn text(&mut self) -> Result<String, Mistake> {
        let mistake = self.expected("a text in quotes");
        self.value().ok_or(mistake)
    }

    fn rows(&mut self) -> Result<usize, Mistake> {
        let mistake = self.expected(&format!("a number from 1 to {CHUNK_ROWS_MAX}"));
        let rows = self.value().and_then(|value| value.parse().ok());
        rows.filter(|rows| (1..=CHUNK_ROWS_MAX).contains(rows)).ok_or(mistake)
    }

    fn finish(&self) -> Result<(), Mistake> {
        if self.next == self.tokens.len() { Ok(()) } else { Err(self.expected("the end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> (usize, String) {
        let mistake = parse(text).unwrap_err();
        (mistake.at, mistake.message)
    }

    #[test]
    fn complete_statement_is_parsed() {
        let copy = parse(
            "copy ks.\"T\" (id, \"a b\") from 'x.csv' with header = true AND delimiter='\\t' \
             and null='-' AND quote='|' AND CHUNKSIZE = 7",
        );
        let options = Options {
            header: true,
            delimiter: b'\t',
            quote: b'|',
            null: "-".into(),
            chunk_rows: 7,
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
        let unsupported = mistake("COPY t TO 'x' WITH MAXROWS = 1").1;
        assert_eq!(unsupported, "not supported yet: COPY's option MAXROWS");
    }
}
