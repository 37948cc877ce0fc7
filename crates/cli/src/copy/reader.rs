//! Reads records of CSV.

use std::io::{self, BufRead};

use super::dialect::{Dialect, Field};

/// Maximum bytes of a record; beyond it a quote is assumed to be unclosed.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;

/// Record of a file.
#[derive(Debug)]
pub(super) struct Record {
    /// Number of its first line, from 1.
    pub(super) line: u64,
    /// Its fields, or the reason why they cannot be read.
    pub(super) fields: Result<Vec<Field>, String>,
    /// Its bytes, with the line break.
    pub(super) raw: Vec<u8>,
}

impl Record {
    /// Returns `true` if the record ends as cqlsh ends its lines on every system.
    pub(super) fn ends_like_cqlsh(&self) -> bool {
        self.raw.ends_with(b"\r\n")
    }
}

/// Position within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// Behind the closing quote of a field.
    Closed,
}

/// Reader of records. Lines without a byte are skipped.
pub(super) struct Reader<R> {
    input: R,
    dialect: Dialect,
    /// Number of the next line.
    line: u64,
    read_bytes: u64,
    raw: Vec<u8>,
    has_ended: bool,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(input: R, dialect: Dialect) -> Self {
        Self { input, dialect, line: 1, read_bytes: 0, raw: Vec::new(), has_ended: false }
    }

    /// Returns the number of bytes that were read as records.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the number of the next line.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next record. `None` at the end.
    ///
    /// # Errors
    ///
    /// The input's, and `InvalidData` if the record is too long.
    pub(super) fn read(&mut self) -> io::Result<Option<Record>> {
        self.skip_mark()?;
        while let Some(line_break @ (b'\r' | b'\n')) = self.peek()? {
            self.take(line_break);
            self.line += 1;
            if line_break == b'\r' && self.peek()? == Some(b'\n') {
                self.take(b'\n');
            }
        }
        self.raw.clear();
        if self.peek()?.is_none() {
            return Ok(None);
        }
        let line = self.line;
        let fields = self.fields()?;
        Ok(Some(Record { line, fields, raw: std::mem::take(&mut self.raw) }))
    }

    /// Skips the byte order mark that some programs put at the beginning of a file.
    fn skip_mark(&mut self) -> io::Result<()> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.read_bytes == 0 && self.input.fill_buf()?.starts_with(MARK) {
            self.input.consume(MARK.len());
            self.read_bytes = MARK.len() as u64;
        }
        Ok(())
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        // A terminal goes on after the end that its user has typed.
        if self.has_ended {
            return Ok(None);
        }
        let next = self.input.fill_buf()?.first().copied();
        self.has_ended = next.is_none();
        Ok(next)
    }

    /// Consumes the byte that was peeked.
    fn take(&mut self, byte: u8) {
        self.input.consume(1);
        self.read_bytes += 1;
        self.raw.push(byte);
    }

    fn next(&mut self) -> io::Result<Option<u8>> {
        if self.raw.len() > RECORD_BYTES_MAX {
            let mib = RECORD_BYTES_MAX >> 20;
            let message = format!("a record is longer than {mib} MiB: is a quote not closed?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let next = self.peek()?;
        if let Some(byte) = next {
            self.take(byte);
            self.line += u64::from(byte == b'\n');
        }
        Ok(next)
    }

    /// Reads to the end of the record, also after a mistake.
    fn fields(&mut self) -> io::Result<Result<Vec<Field>, String>> {
        let mut fields = Fields::default();
        let mut state = State::FieldStart;
        loop {
            let Some(byte) = self.next()? else {
                if state == State::Quoted {
                    fields.refuse("a quote is not closed");
                }
                break;
            };
            let is_escape = self.dialect.escape == Some(byte) && state != State::Closed;
            state = match state {
                _ if is_escape => {
                    self.escaped(&mut fields)?;
                    if state == State::Quoted { State::Quoted } else { State::Plain }
                }
                State::Quoted if byte != self.dialect.quote => {
                    fields.bytes.push(byte);
                    State::Quoted
                }
                State::Quoted if self.peek()? == Some(byte) => {
                    self.take(byte);
                    fields.bytes.push(byte);
                    State::Quoted
                }
                State::Quoted => State::Closed,
                _ if byte == self.dialect.delimiter => {
                    fields.end_field();
                    State::FieldStart
                }
                _ if matches!(byte, b'\r' | b'\n') => {
                    if byte == b'\r' && self.next_is_line_feed()? {
                        self.take(b'\n');
                    }
                    self.line += u64::from(byte == b'\r');
                    break;
                }
                State::FieldStart if byte == self.dialect.quote => {
                    fields.is_quoted = true;
                    State::Quoted
                }
                State::Closed => {
                    fields
                        .refuse("after a closing quote comes neither a delimiter nor a line break");
                    State::Plain
                }
                State::FieldStart | State::Plain => {
                    fields.bytes.push(byte);
                    State::Plain
                }
            };
        }
        fields.end_field();
        Ok(fields.finish())
    }

    fn next_is_line_feed(&mut self) -> io::Result<bool> {
        Ok(self.peek()? == Some(b'\n'))
    }

    /// Reads the byte behind an escape.
    fn escaped(&mut self, fields: &mut Fields) -> io::Result<()> {
        let next = self.next()?;
        match next {
            Some(byte) if self.dialect.is_special(byte) || self.dialect.escape == Some(byte) => {
                fields.bytes.push(byte);
            }
            _ => {
                let escape = char::from(self.dialect.escape.unwrap_or_default());
                let found = next.map_or_else(|| "the end".into(), |b| b.escape_ascii().to_string());
                fields.refuse(&format!(
                    "{escape} before {found}: it escapes itself, the quote and the delimiter only. \
                     If {escape} is a letter like others (RFC 4180), say ESCAPE = '\"'"
                ));
            }
        }
        Ok(())
    }
}

/// Fields of the record that is being read.
#[derive(Default)]
struct Fields {
    ended: Vec<Field>,
    bytes: Vec<u8>,
    is_quoted: bool,
    mistake: Option<String>,
}

impl Fields {
    /// Notes a mistake. The first one counts.
    fn refuse(&mut self, reason: &str) {
        let place = self.ended.len() + 1;
        self.mistake.get_or_insert_with(|| format!("field {place}: {reason}"));
    }

    fn end_field(&mut self) {
        let text = String::from_utf8(std::mem::take(&mut self.bytes)).unwrap_or_else(|_| {
            self.refuse("it is not UTF-8");
            String::new()
        });
        self.ended.push(Field { text, is_quoted: std::mem::take(&mut self.is_quoted) });
    }

    fn finish(self) -> Result<Vec<Field>, String> {
        self.mistake.map_or(Ok(self.ended), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], dialect: &Dialect) -> Vec<Result<Vec<String>, String>> {
        let mut reader = Reader::new(text, dialect.clone());
        let mut records = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            let texts = |fields: Vec<Field>| fields.into_iter().map(|field| field.text).collect();
            records.push(record.fields.map(texts));
        }
        records
    }

    fn rfc4180() -> Dialect {
        Dialect { escape: None, ..Dialect::default() }
    }

    #[test]
    fn dialects_are_read() {
        let cqlsh = read(
            b"1,\"say \\\"hi\\\", ok\"\r\n\n2,back\\\\slash\\,x\n3,\"a\nb\"",
            &Dialect::default(),
        );
        let texts = |one: &str, two: &str| Ok(vec![one.to_owned(), two.to_owned()]);
        assert_eq!(cqlsh[0], texts("1", "say \"hi\", ok"));
        assert_eq!(cqlsh[1], texts("2", "back\\slash,x"));
        assert_eq!(cqlsh[2], texts("3", "a\nb"));
        assert_eq!(read(b"1,\"a \"\"b\"\"\"\n", &Dialect::default()), [texts("1", "a \"b\"")]);
        let rfc = read(b"1,\"C:\\new \"\"x\"\"\"\r2,\n", &rfc4180());
        assert_eq!(rfc, [texts("1", "C:\\new \"x\""), texts("2", "")]);
        assert_eq!(read(b"\xef\xbb\xbf\"k\",v", &rfc4180()), [texts("k", "v")]);
    }

    /// Ctrl-D ends the rows typed at a terminal, which would go on.
    #[test]
    fn end_of_the_input_is_final() {
        struct Terminal(Vec<&'static [u8]>);
        impl io::Read for Terminal {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let typed = self.0.remove(0);
                buffer[..typed.len()].copy_from_slice(typed);
                Ok(typed.len())
            }
        }
        let typed = Terminal(vec![b"1,a\n", b"", b"2,b\n", b""]);
        let mut reader = Reader::new(io::BufReader::new(typed), Dialect::default());
        assert!(reader.read().unwrap().is_some());
        assert!(reader.read().unwrap().is_none());
        assert!(reader.read().unwrap().is_none());
    }

    #[test]
    fn quoted_fields_and_lines_are_known() {
        let mut reader = Reader::new(&b"\n\"a\nb\",\"\",\r\nx,y,z\n"[..], Dialect::default());
        let record = reader.read().unwrap().unwrap();
        let quoted: Vec<bool> =
            record.fields.as_ref().unwrap().iter().map(|field| field.is_quoted).collect();
        assert_eq!((record.line, quoted), (2, vec![true, true, false]));
        assert!(record.ends_like_cqlsh());
        assert_eq!(record.raw, b"\"a\nb\",\"\",\r\n");
        assert_eq!(reader.read().unwrap().unwrap().line, 4);
        assert!(reader.read().unwrap().is_none());
    }

    #[test]
    fn mistakes_end_with_their_record() {
        for wrong in ["a\\new,1", "\"a\"b,1", "\"a\"\\b,1", "\u{80}"] {
            let bytes: Vec<u8> =
                if wrong == "\u{80}" { vec![b'1', b',', 0x80] } else { wrong.into() };
            let text = [&bytes[..], b"\nok,2\n"].concat();
            let records = read(&text, &Dialect::default());
            assert!(records[0].is_err(), "{wrong}: {records:?}");
            assert_eq!(records[1], Ok(vec!["ok".to_owned(), "2".to_owned()]), "{wrong}");
        }
        let unclosed = read(b"1,\"a\n2,b\n", &Dialect::default());
        assert_eq!(unclosed, [Err("field 2: a quote is not closed".to_owned())]);
        assert!(read(b"1,a\\", &Dialect::default())[0].is_err());
    }

    #[test]
    fn unclosed_quote_does_not_read_the_whole_file() {
        let endless = io::BufReader::new(io::Read::chain(&b"a\n\""[..], io::repeat(b'x')));
        let mut reader = Reader::new(endless, Dialect::default());
        assert!(reader.read().unwrap().is_some());
        let error = reader.read().unwrap_err().to_string();
        assert!(error.contains("is a quote not closed"), "{error}");
        assert!(reader.read_bytes() < RECORD_BYTES_MAX as u64 + 100);
    }
}
