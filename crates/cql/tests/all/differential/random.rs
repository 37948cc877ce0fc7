//! Random statements: a table with columns of all types, writes and reads of it.
//!
//! Values and keys are drawn from few literals, so that statements meet the rows of earlier ones.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use carnet::DataType;
use carnet_base::{Rng as _, SeededRng};
use carnet_data::UserType;

/// Number of writes and reads.
const STATEMENTS: usize = 60;

/// Types of keys; Cassandra has no clustering columns of type duration.
const KEYS: [DataType; 16] = [
    DataType::Ascii,
    DataType::Bigint,
    DataType::Blob,
    DataType::Boolean,
    DataType::Date,
    DataType::Double,
    DataType::Float,
    DataType::Inet,
    DataType::Int,
    DataType::Smallint,
    DataType::Text,
    DataType::Time,
    DataType::Timestamp,
    DataType::Timeuuid,
    DataType::Tinyint,
    DataType::Uuid,
];

/// Returns `true` for a difference that any seed may have: a feature that Carnet refuses, a number
/// outside of the range of its type, which wraps in Cassandra, or a query that Carnet answers.
pub(crate) fn is_known(cassandra: &str, carnet: &str) -> bool {
    carnet.contains("not supported yet")
        || carnet.contains("is outside of the range of type")
        || cassandra.contains("Cannot restrict clustering columns when selecting only static")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Partition,
    Clustering,
    Static,
    Regular,
}

struct Column {
    name: String,
    kind: Kind,
    data_type: DataType,
    frozen: bool,
}

impl Column {
    /// Returns `true` if its elements or fields change one by one.
    fn is_open(&self) -> bool {
        !self.frozen && !matches!(self.data_type, DataType::Tuple(_) | DataType::Vector(_))
    }
}

struct Generator<'r> {
    rng: &'r mut SeededRng,
    user_type: DataType,
    columns: Vec<Column>,
}

/// Draws a script: a keyspace, a type, a table, writes and reads.
pub(crate) fn statements(rng: &mut SeededRng) -> Vec<String> {
    let fields =
        [("a", DataType::Int), ("b", DataType::Text), ("c", DataType::list(DataType::Bigint))];
    let user_type = DataType::Udt(Arc::new(UserType {
        keyspace: "ks".into(),
        name: "u".into(),
        fields: fields.map(|(name, of)| (name.to_owned(), of)).into(),
        reference: carnet_data::TypeReference::default(),
        keys: carnet_data::FieldKeys::Open,
    }));
    let mut generator = Generator { rng, user_type, columns: Vec::new() };
    let mut statements = vec![
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}"
            .to_owned(),
        "USE ks".to_owned(),
        "CREATE TYPE u (a int, b text, c frozen<list<bigint>>)".to_owned(),
        generator.create_table(),
    ];
    statements.extend((0..STATEMENTS).map(|_| generator.statement()));
    statements
}

impl Generator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap()
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn key_type(&mut self) -> DataType {
        KEYS[self.below(KEYS.len())].clone()
    }

    fn value_type(&mut self, depth: usize) -> DataType {
        let kind = if depth == 0 { 0 } else { self.below(9) };
        match kind {
            0..=3 => loop {
                let scalar = &DataType::SCALARS[self.below(DataType::SCALARS.len())];
                if *scalar != DataType::Counter {
                    return scalar.clone();
                }
            },
            4 => DataType::list(self.value_type(depth - 1)),
            5 => DataType::set(self.key_type()),
            6 => DataType::map(self.key_type(), self.value_type(depth - 1)),
            7 if self.rng.chance(400) => DataType::vector(DataType::Float, 2),
            7 => DataType::tuple([self.value_type(depth - 1), self.value_type(depth - 1)]),
            _ => self.user_type.clone(),
        }
    }

    fn create_table(&mut self) -> String {
        let partition = 1 + self.below(2);
        let clustering = self.below(3);
        let mut columns = Vec::new();
        let mut add = |name: String, kind, data_type: DataType, frozen: bool| {
            let frozen = frozen || !data_type.is_composite();
            columns.push(Column { name, kind, data_type, frozen });
        };
        for n in 0..partition {
            add(format!("p{n}"), Kind::Partition, self.key_type(), true);
        }
        for n in 0..clustering {
            add(format!("c{n}"), Kind::Clustering, self.key_type(), true);
        }
        if clustering > 0 {
            add("s0".to_owned(), Kind::Static, self.value_type(1), false);
        }
        for n in 0..6 {
            let frozen = self.rng.chance(300);
            add(format!("v{n}"), Kind::Regular, self.value_type(2), frozen);
        }
        self.columns = columns;

        let mut text = "CREATE TABLE t (".to_owned();
        for column in &self.columns {
            let Column { name, kind, data_type, frozen } = column;
            let type_name = if *frozen && data_type.is_composite() {
                format!("frozen<{data_type}>")
            } else {
                data_type.to_string()
            };
            let of_static = if *kind == Kind::Static { " static" } else { "" };
            let _ = write!(text, "{name} {type_name}{of_static}, ");
        }
        let names = |kind| self.names(|column| column.kind == kind);
        let _ = write!(text, "PRIMARY KEY (({})", names(Kind::Partition).join(", "));
        let clustering = names(Kind::Clustering);
        for name in &clustering {
            let _ = write!(text, ", {name}");
        }
        text.push_str("))");
        if let Some(name) = clustering.first().filter(|_| self.rng.chance(500)) {
            let _ = write!(text, " WITH CLUSTERING ORDER BY ({name} DESC)");
        }
        text
    }

    fn names(&self, is_wanted: impl Fn(&Column) -> bool) -> Vec<String> {
        let wanted = self.columns.iter().filter(|column| is_wanted(column));
        wanted.map(|column| column.name.clone()).collect()
    }

    fn column(&self, at: usize) -> (String, DataType) {
        (self.columns[at].name.clone(), self.columns[at].data_type.clone())
    }

    fn literal(&mut self, data_type: &DataType) -> String {
        let literals: &[&str] = match data_type {
            DataType::Ascii => &["''", "'a'", "'it''s'", "'A'"],
            DataType::Bigint => &["0", "-1", "9223372036854775807"],
            DataType::Blob => &["0x", "0x00", "0xff00"],
            DataType::Boolean => &["true", "false"],
            DataType::Decimal => &["0", "1.50", "-12345678901234567890.5", "1e3"],
            DataType::Double => &["0.0", "-1.5", "1e300", "NaN"],
            DataType::Float => &["0.0", "-1.5", "3.25", "Infinity"],
            DataType::Int => &["0", "-1", "2147483647", "7"],
            DataType::Timestamp => &["0", "'2026-11-21 17:00:00.123+0000'", "'1969-12-31'"],
            DataType::Uuid => &[
                "00000000-0000-0000-0000-000000000000",
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                "50554d6e-29bb-11e5-b345-feff819cdc9f",
            ],
            DataType::Text => &["''", "'a'", "'ü'", "'it''s'"],
            DataType::Varint => &["0", "-1", "170141183460469231731687303715884105728"],
            DataType::Timeuuid => {
                &["50554d6e-29bb-11e5-b345-feff819cdc9f", "13814000-1dd2-11b2-8080-808080808080"]
            }
            DataType::Inet => &["'127.0.0.1'", "'::1'", "'10.0.0.255'"],
            DataType::Date => &["'1970-01-01'", "'2026-11-21'", "'1969-12-31'"],
            DataType::Time => &["'00:00:00'", "'23:59:59.999999999'"],
            DataType::Smallint => &["0", "-32768", "32767"],
            DataType::Tinyint => &["0", "-128", "127"],
            DataType::Duration => &["1h30m", "1mo2d", "P1Y2M3DT4H5M6S"],
            DataType::List(of) => return format!("[{}]", self.literals(of)),
            DataType::Set(of) => return format!("{{{}}}", self.literals(of)),
            DataType::Vector(of) => {
                let elements: Vec<String> = (0..of.1).map(|_| self.literal(&of.0)).collect();
                return format!("[{}]", elements.join(", "));
            }
            DataType::Map(of) => {
                // Cassandra keeps any of several values of one key.
                let keys: BTreeSet<String> =
                    (0..self.below(3)).map(|_| self.literal(&of.0)).collect();
                let entries: Vec<String> =
                    keys.into_iter().map(|key| format!("{key}: {}", self.literal(&of.1))).collect();
                return format!("{{{}}}", entries.join(", "));
            }
            DataType::Tuple(of) => {
                let fields: Vec<String> = of.iter().map(|of| self.nullable(of)).collect();
                return format!("({})", fields.join(", "));
            }
            DataType::Udt(of) => {
                let fields = of.fields.iter();
                let fields: Vec<String> =
                    fields.map(|(name, of)| format!("{name}: {}", self.nullable(of))).collect();
                return format!("{{{}}}", fields.join(", "));
            }
            other => panic!("no literals of {other}"),
        };
        self.pick(literals).to_owned()
    }

    fn literals(&mut self, of: &DataType) -> String {
        let count = self.below(4);
        let literals: Vec<String> = (0..count).map(|_| self.literal(of)).collect();
        literals.join(", ")
    }

    fn nullable(&mut self, of: &DataType) -> String {
        if self.rng.chance(150) { "null".to_owned() } else { self.literal(of) }
    }

    /// Draws a value of a column; sometimes null, seldom a value of another type.
    fn value(&mut self, at: usize) -> String {
        let own = self.columns[at].data_type.clone();
        // Cassandra writes years beyond 9999, and Carnet the number of days.
        let is_wrong = own != DataType::Date && self.rng.chance(20);
        let data_type = if is_wrong { self.value_type(1) } else { own };
        self.nullable(&data_type)
    }

    fn indexes(&self, kind: Kind) -> Vec<usize> {
        (0..self.columns.len()).filter(|at| self.columns[*at].kind == kind).collect()
    }

    /// Draws `column = value` for a column of a key.
    fn equal(&mut self, at: usize) -> String {
        let (name, data_type) = self.column(at);
        format!("{name} = {}", self.literal(&data_type))
    }

    fn partition(&mut self) -> Vec<String> {
        self.indexes(Kind::Partition).into_iter().map(|at| self.equal(at)).collect()
    }

    fn row(&mut self) -> Vec<String> {
        let mut key = self.partition();
        key.extend(self.indexes(Kind::Clustering).into_iter().map(|at| self.equal(at)));
        key
    }

    /// Draws a partition and possibly restrictions of its clustering columns.
    fn range(&mut self) -> Vec<String> {
        let mut key = self.partition();
        for at in self.indexes(Kind::Clustering) {
            match self.below(4) {
                0 => break,
                1 => {
                    let op = self.pick(&["<", "<=", ">", ">="]);
                    let (name, data_type) = self.column(at);
                    key.push(format!("{name} {op} {}", self.literal(&data_type)));
                    break;
                }
                _ => key.push(self.equal(at)),
            }
        }
        key
    }

    /// Draws restrictions with `IN` and tuples.
    fn several(&mut self) -> Vec<String> {
        let clustering = self.indexes(Kind::Clustering);
        let mut key = self.partition();
        if let ([first, second], true) = (&clustering[..], self.rng.chance(500)) {
            let ((one, first), (other, second)) = (self.column(*first), self.column(*second));
            let op = self.pick(&["<", "<=", ">", ">=", "="]);
            let (left, right) = (self.literal(&first), self.literal(&second));
            key.push(format!("({one}, {other}) {op} ({left}, {right})"));
            return key;
        }
        let last = clustering.first().or(self.indexes(Kind::Partition).last()).copied().unwrap();
        let (name, data_type) = self.column(last);
        if clustering.is_empty() {
            key.pop();
        }
        let values: Vec<String> =
            (0..1 + self.below(3)).map(|_| self.literal(&data_type)).collect();
        key.push(format!("{name} IN ({})", values.join(", ")));
        key
    }

    fn pick_value_column(&mut self) -> usize {
        let mut values = self.indexes(Kind::Regular);
        if self.rng.chance(100) {
            values.extend(self.indexes(Kind::Static));
        }
        values[self.below(values.len())]
    }

    fn statement(&mut self) -> String {
        match self.below(20) {
            0..=5 => self.insert(),
            6..=9 => self.update(),
            10 => self.delete(),
            _ => self.select(),
        }
    }

    fn insert(&mut self) -> String {
        let mut at = self.indexes(Kind::Partition);
        at.extend(self.indexes(Kind::Clustering));
        let keys = at.len();
        at.extend(self.indexes(Kind::Static).into_iter().filter(|_| self.rng.chance(300)));
        at.extend(self.indexes(Kind::Regular).into_iter().filter(|_| self.rng.chance(700)));
        let names: Vec<String> = at.iter().map(|at| self.columns[*at].name.clone()).collect();
        let mut values = Vec::new();
        for (n, at) in at.into_iter().enumerate() {
            let data_type = self.columns[at].data_type.clone();
            values.push(if n < keys { self.literal(&data_type) } else { self.value(at) });
        }
        let condition = if self.rng.chance(200) { " IF NOT EXISTS" } else { "" };
        let (names, values) = (names.join(", "), values.join(", "));
        format!("INSERT INTO t ({names}) VALUES ({values}){condition}")
    }

    fn assignment(&mut self, at: usize) -> String {
        let (name, data_type) = self.column(at);
        if !self.columns[at].is_open() || self.rng.chance(400) {
            return format!("{name} = {}", self.value(at));
        }
        match &data_type {
            DataType::List(of) => match self.below(4) {
                0 => format!("{name} = {name} + {}", self.literal(&data_type)),
                1 => format!("{name} = {} + {name}", self.literal(&data_type)),
                2 => format!("{name} = {name} - {}", self.literal(&data_type)),
                _ => format!("{name}[0] = {}", self.nullable(of)),
            },
            DataType::Set(_) => {
                let op = self.pick(&["+", "-"]);
                format!("{name} = {name} {op} {}", self.literal(&data_type))
            }
            DataType::Map(of) => match self.below(3) {
                0 => format!("{name} = {name} + {}", self.literal(&data_type)),
                1 => format!("{name} = {name} - {{{}}}", self.literals(&of.0)),
                _ => format!("{name}[{}] = {}", self.literal(&of.0), self.nullable(&of.1)),
            },
            DataType::Udt(of) => {
                let field = self.below(of.fields.len());
                format!("{name}.{} = {}", of.fields[field].0, self.nullable(&of.fields[field].1))
            }
            _ => format!("{name} = {}", self.value(at)),
        }
    }

    fn condition(&mut self) -> String {
        match self.below(8) {
            0 => " IF EXISTS".to_owned(),
            1 => {
                let at = self.pick_value_column();
                let op = self.pick(&["=", "!=", "<", ">="]);
                let (name, data_type) = self.column(at);
                format!(" IF {name} {op} {}", self.nullable(&data_type))
            }
            _ => String::new(),
        }
    }

    fn update(&mut self) -> String {
        let at = self.pick_value_column();
        let assignment = self.assignment(at);
        let (key, condition) = (self.row().join(" AND "), self.condition());
        format!("UPDATE t SET {assignment} WHERE {key}{condition}")
    }

    fn delete(&mut self) -> String {
        if self.rng.chance(400) {
            return format!("DELETE FROM t WHERE {}", self.range().join(" AND "));
        }
        let at = self.pick_value_column();
        let (name, _) = self.column(at);
        let (key, condition) = (self.row().join(" AND "), self.condition());
        format!("DELETE {name} FROM t WHERE {key}{condition}")
    }

    fn selection(&mut self) -> String {
        let at = self.pick_value_column();
        let (name, _) = self.column(at);
        match self.below(10) {
            0 => "JSON *".to_owned(),
            1 => format!("count(*), count({name})"),
            2 => format!("min({name}), max({name})"),
            3 => format!("toJson({name}) AS json, {name}"),
            // Carnet casts durations, too, and Cassandra names a cast of a text by its column.
            4 if !matches!(self.columns[at].data_type, DataType::Duration | DataType::Text)
                && !self.columns[at].data_type.is_composite() =>
            {
                format!("CAST({name} AS text)")
            }
            5 => format!("token({})", self.names(|c| c.kind == Kind::Partition).join(", ")),
            6 => "*".to_owned(),
            _ => {
                let other = self.pick_value_column();
                format!("{name}, {}", self.columns[other].name)
            }
        }
    }

    fn select(&mut self) -> String {
        let selection = self.selection();
        let clustering = self.names(|column| column.kind == Kind::Clustering);
        let mut text = format!("SELECT {selection} FROM t");
        match self.below(8) {
            0 | 1 => {
                let _ = write!(text, " WHERE {}", self.range().join(" AND "));
                if let Some(name) = clustering.first().filter(|_| self.rng.chance(300)) {
                    let direction = self.pick(&["ASC", "DESC"]);
                    let _ = write!(text, " ORDER BY {name} {direction}");
                }
            }
            2 => {
                let at = self.pick_value_column();
                let op = self.pick(&["=", "<", ">=", "CONTAINS"]);
                let (name, data_type) = self.column(at);
                let value = match (&data_type, op) {
                    (DataType::List(of) | DataType::Set(of), "CONTAINS") => self.literal(of),
                    (DataType::Map(of), "CONTAINS") => self.literal(&of.1),
                    _ => self.literal(&data_type),
                };
                let _ = write!(text, " WHERE {name} {op} {value} ALLOW FILTERING");
            }
            3 => {
                let names = self.names(|column| column.kind == Kind::Partition).join(", ");
                text = match self.below(3) {
                    0 => format!("SELECT DISTINCT {names} FROM t"),
                    1 => format!("SELECT {names}, count(*) FROM t GROUP BY {names}"),
                    _ => format!("{text} PER PARTITION LIMIT 1"),
                };
            }
            4 => {
                let _ = write!(text, " WHERE {}", self.several().join(" AND "));
            }
            _ => {}
        }
        if self.rng.chance(250) && !text.ends_with("FILTERING") {
            let _ = write!(text, " LIMIT {}", 1 + self.below(3));
        }
        text
    }
}
