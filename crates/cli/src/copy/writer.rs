//! Writes records of CSV.

use std::io::{self, Write};

use super::dialect::{Dialect, Field};

/// Writer of records, which [`Reader`](super::reader::Reader) and cqlsh read.
pub(super) struct Writer<W> {
    out: W,
    dialect: Dialect,
    is_within_record: bool,
    /// Number of bytes that were written.
    bytes: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, dialect: Dialect) -> Self {
        Self { out, dialect, is_within_record: false, bytes: 0 }
    }

    pub(super) fn null(&mut self) -> io::Result<()> {
        self.begin_field()?;
        self.bytes += self.dialect.null.len() as u64;
        self.out.write_all(self.dialect.null.as_bytes())
    }

    /// Writes a field, in quotes if it needs or has them.
    pub(super) fn field(&mut self, field: &Field) -> io::Result<()> {
        self.begin_field()?;
        let bytes = field.text.as_bytes();
        let needs_quotes = field.is_quoted
            || field.text == self.dialect.null
            || bytes.iter().any(|byte| self.dialect.is_special(*byte));
        if !needs_quotes {
            return self.escape(bytes);
        }
        let quote = [self.dialect.quote];
        self.put(&quote)?;
        self.escape(bytes)?;
        self.put(&quote)
    }

    fn begin_field(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_within_record, true) {
            self.put(&[self.dialect.delimiter])?;
        }
        Ok(())
    }

    fn escape(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Dialect { quote, escape, .. } = self.dialect;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == quote || Some(*byte) == escape) {
            self.put(&rest[..at])?;
            self.put(&[escape.unwrap_or(quote), rest[at]])?;
            rest = &rest[at + 1..];
        }
        self.put(rest)
    }

    pub(super) fn end_record(&mut self) -> io::Result<()> {
        self.is_within_record = false;
        self.put(b"\n")
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Returns the number of bytes that were written.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::super::reader::Reader;
    use super::*;

    fn written(dialect: &Dialect, fields: &[Field]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, dialect.clone());
        fields.iter().for_each(|field| writer.field(field).unwrap());
        writer.end_record().unwrap();
        out
    }

    #[test]
    fn special_bytes_are_escaped() {
        let field = |text: &str| Field { text: text.into(), is_quoted: false };
        let fields = ["back\\slash", "say \"hi\", ok", "", "x"].map(field);
        let cqlsh = written(&Dialect::default(), &fields);
        assert_eq!(
            String::from_utf8(cqlsh).unwrap(),
            "back\\\\slash,\"say \\\"hi\\\", ok\",\"\",x\n"
        );
        let rfc = Dialect { escape: None, null: "x".into(), ..Dialect::default() };
        let rfc = written(&rfc, &fields);
        assert_eq!(String::from_utf8(rfc).unwrap(), "back\\slash,\"say \"\"hi\"\", ok\",,\"x\"\n");
    }

    /// Whatever a text holds, it is read back equal, in every dialect.
    #[test]
    fn texts_are_read_back() {
        const CHARACTERS: [char; 12] =
            ['a', '"', '\\', ',', ';', '\n', '\r', ' ', '\'', 'n', 'é', '|'];
        for seed in 0..2_000 {
            let mut rng = SeededRng::new(seed);
            let mut pick = |below: u64| usize::try_from(rng.below(below)).unwrap();
            let dialect = Dialect {
                delimiter: [b',', b';', b'\t', b'|'][pick(4)],
                quote: [b'"', b'\''][pick(2)],
                escape: [Some(b'\\'), None][pick(2)],
                null: ["", "n"][pick(2)].into(),
            };
            let fields: Vec<Field> = (0..=pick(4))
                .map(|_| Field {
                    text: (0..pick(6)).map(|_| CHARACTERS[pick(12)]).collect(),
                    is_quoted: true,
                })
                .collect();
            let bytes = written(&dialect, &fields);
            let record = Reader::new(&bytes[..], dialect.clone()).read().unwrap().unwrap();
            assert_eq!(record.fields.as_ref(), Ok(&fields), "seed {seed}: {dialect:?}, {record:?}");
            assert_eq!(record.raw, bytes, "seed {seed}");
        }
    }
}
