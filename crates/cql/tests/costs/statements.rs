//! Random statements on the [table](super::tables): most are valid, and all are short.

use std::fmt::Write as _;

use carnet_base::{Rng, SeededRng};

/// Maximum bytes of a statement.
const BYTES_MAX: usize = 9_900;

const COLUMNS: [&str; 15] =
    ["k", "c", "st", "i", "n", "d", "tx", "b", "l", "s", "m", "fl", "ml", "u", "v"];
const NUMBERS: [&str; 10] = ["i", "n", "d", "c", "k", "1", "0.5", "-7", "1e100", "99999999999999"];
const TYPES: [&str; 9] =
    ["text", "int", "bigint", "varint", "decimal", "double", "float", "blob", "list<int>"];

/// Draws a statement.
pub(crate) fn statement(rng: &mut SeededRng) -> String {
    loop {
        let text = Generator { rng }.statement();
        if text.len() < BYTES_MAX {
            return text;
        }
    }
}

/// Returns `true` if a statement may be part of an open transaction, and changes rows.
pub(crate) fn changes_rows(text: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE", "BEGIN BATCH"].iter().any(|word| text.starts_with(word))
}

struct Generator<'r> {
    rng: &'r mut SeededRng,
}

impl Generator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).expect("it is below a usize")
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    /// Draws a count: mostly small, seldom as many as fit into a statement.
    fn count(&mut self, bytes: usize) -> usize {
        let most = (4_000 / bytes.max(1)).max(1);
        match self.below(3) {
            0 => 1,
            1 => 1 + self.below(4),
            _ => 1 + self.below(most),
        }
    }

    /// Draws one text, and repeats it.
    fn repeated(&mut self, draw: impl Fn(&mut Self) -> String, between: &str) -> String {
        let one = draw(self);
        let count = self.count(one.len() + between.len());
        vec![one; count].join(between)
    }

    fn statement(&mut self) -> String {
        match self.below(12) {
            0..=5 => self.select(),
            6 | 7 => self.write(),
            8 => format!("BEGIN BATCH {}; APPLY BATCH", self.repeated(Self::write, ";")),
            9 | 10 => self.transaction(),
            _ => self.type_chain(),
        }
    }

    /// Draws the key of a row, by which most reads and all writes find it.
    fn row(&mut self) -> String {
        let (k, rows) = [(1, 5), (2, 2), (3, 24), (4, 4_000), (5, 1), (6, 100)][self.below(6)];
        format!("k = {k} AND c = {}", self.below(rows))
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&NUMBERS).to_owned();
        }
        match self.below(9) {
            0 | 1 => self.pick(&NUMBERS).to_owned(),
            2 => {
                let (first, op) =
                    (self.number(depth - 1), self.pick(&[" + ", " - ", " * ", " / ", " % "]));
                let rest = self.repeated(|it| it.number(depth - 1), op);
                format!("{first}{op}{rest}")
            }
            3 => format!("-({})", self.number(depth - 1)),
            4 => {
                let name = self.pick(&["abs", "round", "exp", "log", "log10"]);
                format!("{name}({})", self.number(depth - 1))
            }
            5 => format!("CAST({} AS {})", self.number(depth - 1), self.pick(&TYPES)),
            6 => format!("collection_count({})", self.pick(&["l", "s", "m", "fl", "ml"])),
            7 => {
                let name = self.pick(&[
                    "collection_max",
                    "collection_min",
                    "collection_sum",
                    "collection_avg",
                ]);
                format!("{name}({})", self.pick(&["l", "fl"]))
            }
            _ => format!("similarity_cosine(v, {})", self.pick(&["v", "[1, 2, 3, 4]"])),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["tx", "st", "'text'", "''"]).to_owned();
        }
        match self.below(6) {
            0 | 1 => self.pick(&["tx", "st", "'text'"]).to_owned(),
            2 => self.repeated(|it| it.text(depth - 1), " + "),
            3 => format!("to_json({})", self.term(depth - 1)),
            4 => format!("CAST({} AS text)", self.term(depth - 1)),
            _ => {
                let name = self.pick(&["mask_inner", "mask_outer"]);
                format!("{name}({}, 1, 2)", self.text(depth - 1))
            }
        }
    }

    fn term(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&COLUMNS).to_owned();
        }
        let collection = self.pick(&["l", "s", "m", "ml", "fl"]);
        match self.below(14) {
            0 | 1 => self.pick(&COLUMNS).to_owned(),
            2 | 3 => self.number(depth),
            4 | 5 => self.text(depth),
            6 => format!("{}({collection})", self.pick(&["writetime", "ttl", "maxwritetime"])),
            7 => format!(
                "{collection}[{}]",
                self.pick(&["0", "99999", "'element 7'", "1..50000", "'e'..'f'"])
            ),
            8 => format!(
                "{}({collection})",
                self.pick(&["map_keys", "map_values", "to_json", "mask_hash"])
            ),
            9 => {
                let (name, of) = [
                    ("text_as_blob", "tx"),
                    ("varint_as_blob", "n"),
                    ("decimal_as_blob", "d"),
                    ("blob_as_text", "b"),
                    ("blob_as_varint", "b"),
                ][self.below(5)];
                format!("{name}({of})")
            }
            10 => format!("[{}]", self.repeated(|it| it.term(depth - 1), ", ")),
            11 => format!("({}, {})", self.term(depth - 1), self.term(depth - 1)),
            12 => format!("u.{}", self.pick(&["a", "b"])),
            _ => format!(
                "mask_{}({}, {})",
                self.pick(&["replace", "null", "default"]),
                self.term(depth - 1),
                self.term(0)
            ),
        }
    }

    fn aggregate(&mut self) -> String {
        let name = self.pick(&["min", "max", "count", "sum", "avg"]);
        format!("{name}({})", self.pick(&COLUMNS))
    }

    fn condition(&mut self) -> String {
        let value = self.pick(&["1", "'text'", "1.5", "[1, 2]", "{'x'}", "0x00", "null"]);
        match self.below(7) {
            0 => format!("l CONTAINS {}", self.below(150_000)),
            1 => "s CONTAINS 'element 49999'".to_owned(),
            2 => "m CONTAINS KEY 'x'".to_owned(),
            3 => "m['element 5'] = 5".to_owned(),
            4 => format!("tx LIKE '{}'", self.pick(&["%x", "x%", "%y%", "%x%x%x%y"])),
            5 => format!("{} IN ({})", self.pick(&COLUMNS), vec![value; 50].join(", ")),
            _ => format!(
                "{} {} {value}",
                self.pick(&COLUMNS),
                self.pick(&["=", "<", ">", ">=", "!="])
            ),
        }
    }

    fn select(&mut self) -> String {
        let items = match self.below(6) {
            0 => "*".to_owned(),
            1 => self.repeated(Self::aggregate, ", "),
            2 => format!("{}, {}", self.aggregate(), self.repeated(|it| it.term(1), ", ")),
            _ => self.repeated(|it| it.term(2), ", "),
        };
        let mut text = format!("SELECT {}{items} FROM t", self.pick(&["", "", "JSON "]));
        match self.below(5) {
            0 => {}
            1 => write!(text, " WHERE k = {}", 1 + self.below(6)).expect("a string takes all"),
            2 => text += " WHERE k IN (1, 2, 3, 4, 5, 6)",
            _ => {
                let row = self.row();
                text += &format!(" WHERE {row}");
            }
        }
        if text.contains("WHERE") && self.below(3) == 0 {
            let conditions = self.repeated(Self::condition, " AND ");
            text += &format!(" AND {conditions}");
        }
        text += match self.below(8) {
            0 => " GROUP BY k",
            1 => " GROUP BY k, c",
            2 => " ORDER BY v ANN OF [1, 0, 1, 0]",
            3 => " ORDER BY c DESC",
            _ => "",
        };
        text += self.pick(&["", "", " PER PARTITION LIMIT 2"]);
        text += self.pick(&["", " LIMIT 1", " LIMIT 1000"]);
        text + " ALLOW FILTERING"
    }

    fn assignment(&mut self) -> String {
        match self.below(9) {
            0 => format!("l = l {} [1, 2, 3]", self.pick(&["+", "-"])),
            1 => "l = [0] + l".to_owned(),
            2 => format!("l[{}] = 1", self.below(100_000)),
            3 => format!("m['element {}'] = null", self.below(50_000)),
            4 => format!("s = s {} {{'x', 'y'}}", self.pick(&["+", "-"])),
            5 => format!("i += {}", self.number(1)),
            6 => format!("tx = {}", self.text(2)),
            7 => "u.a = null".to_owned(),
            _ => format!("{} = {}", self.pick(&COLUMNS[2..]), self.term(2)),
        }
    }

    fn write(&mut self) -> String {
        let row = self.row();
        let guard = match self.below(3) {
            0 => format!(" IF {}", self.repeated(Self::condition, " AND ")),
            1 => " IF EXISTS".to_owned(),
            _ => String::new(),
        };
        match self.below(6) {
            0 => format!(
                "DELETE {} FROM t WHERE {row}{guard}",
                self.repeated(
                    |it| it.pick(&["l[0]", "tx", "m['element 1']", "s"]).to_owned(),
                    ", "
                )
            ),
            1 => format!(
                "INSERT INTO t (k, c, tx, n) VALUES (9, 1, {}, {})",
                self.text(1),
                self.number(1)
            ),
            2 => format!(
                "INSERT INTO t JSON '{{\"k\": 9, \"c\": 2, \"l\": [{}]}}'",
                self.repeated(|_| "1".to_owned(), ",")
            ),
            _ => {
                format!("UPDATE t SET {} WHERE {row}{guard}", self.repeated(Self::assignment, ", "))
            }
        }
    }

    fn transaction(&mut self) -> String {
        let count = self.count(60);
        let lets: String = (0..count)
            .map(|at| {
                let (items, row) = (self.pick(&["*", "tx", "l, m", "n, d"]), self.row());
                format!("LET r{at} = (SELECT {items} FROM t WHERE {row}); ")
            })
            .collect();
        let named = |it: &mut Self| format!("r{}.{}", it.below(count), it.pick(&COLUMNS));
        let result = match self.below(3) {
            0 => format!("SELECT {}; ", self.repeated(named, ", ")),
            1 => format!("{}; ", self.select()),
            _ => String::new(),
        };
        let (tested, set) = (named(self), named(self));
        let update = format!(
            "UPDATE t SET {} = {set} WHERE k = 9 AND c = 1; ",
            self.pick(&["tx", "n", "l"])
        );
        format!(
            "BEGIN TRANSACTION {lets}{result}IF {tested} IS NOT NULL THEN {update}END IF COMMIT TRANSACTION"
        )
    }

    fn type_chain(&mut self) -> String {
        let (at, count) = (self.below(20), 1 + self.below(40));
        let part = if at == 0 { "text".to_owned() } else { format!("frozen<chain{}>", at - 1) };
        let fields: Vec<String> = (0..count).map(|field| format!("f{field} {part}")).collect();
        format!("CREATE TYPE IF NOT EXISTS chain{at} ({})", fields.join(", "))
    }
}
