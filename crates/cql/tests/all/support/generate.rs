//! Random syntax trees: every tree that the parser can produce, and no other.
//!
//! The fields of a node are drawn in the order of the text, which numbers the bind markers.

use carnet::roles::Permission;
use carnet_base::{Rng, SeededRng, Uuid};
use carnet_cql::Position;
use carnet_cql::ast::*;
use carnet_data::DataType;

const NAMES: [&str; 24] = [
    "a", "b_1", "key", "value", "type", "date", "text", "ttl", "count", "per", "group", "then",
    "json", "distinct", "cast", "token", "select", "true", "nan", "A", "it's", "x\"y", "P1Y",
    "ü -- ;",
];
const STRINGS: [&str; 7] = ["", "a", "it's", "$$", "-- no comment", "ü\n;", "/* \" */"];
const FUNCTIONS: [&str; 6] = ["now", "token", "writetime", "count", "F", "toTimestamp"];

const SUMS: [ArithmeticOp; 2] = [ArithmeticOp::Add, ArithmeticOp::Subtract];
const PRODUCTS: [ArithmeticOp; 3] =
    [ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Remainder];
const OPS: [CompareOp; 6] = [
    CompareOp::Equal,
    CompareOp::NotEqual,
    CompareOp::Less,
    CompareOp::LessOrEqual,
    CompareOp::Greater,
    CompareOp::GreaterOrEqual,
];

/// Draws a statement.
pub(crate) fn statement(rng: &mut SeededRng) -> Statement {
    Generator { rng, markers: 0, names: false, depth: 0 }.statement()
}

struct Generator<'r> {
    rng: &'r mut SeededRng,
    markers: u16,
    /// Whether bare names are terms.
    names: bool,
    depth: usize,
}

impl Generator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).expect("it is below a usize")
    }

    fn flip(&mut self) -> bool {
        self.rng.chance(300)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len());
        from[at].clone()
    }

    fn some<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flip() { Some(draw(self)) } else { None }
    }

    fn many<T>(&mut self, least: usize, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = least + self.below(3);
        (0..count).map(|_| draw(self)).collect()
    }

    fn with_names<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.names, true);
        let drawn = draw(self);
        self.names = before;
        drawn
    }

    fn name(&mut self) -> Name {
        Name::new(self.pick(&NAMES))
    }

    fn table(&mut self) -> TableName {
        TableName { keyspace: self.some(Self::name), table: self.name() }
    }

    fn type_name(&mut self) -> TypeName {
        self.depth += 1;
        let kind = if self.depth > 5 { self.below(5) } else { self.below(11) };
        let drawn = match kind {
            0..=2 => TypeName::Native(self.pick(&DataType::SCALARS)),
            3 => TypeName::Native(DataType::Duration),
            4 => TypeName::Custom(self.pick(&STRINGS).to_owned()),
            5 => TypeName::Frozen(Box::new(self.type_name())),
            6 => TypeName::List(Box::new(self.type_name())),
            7 => TypeName::Set(Box::new(self.type_name())),
            8 => TypeName::Map(Box::new(self.type_name()), Box::new(self.type_name())),
            9 => TypeName::Tuple(self.many(1, Self::type_name)),
            _ if self.flip() => TypeName::Vector(Box::new(self.type_name()), 3),
            _ => TypeName::UserDefined(self.table()),
        };
        self.depth -= 1;
        drawn
    }

    fn literal(&mut self) -> Literal {
        match self.below(9) {
            0 => Literal::Null,
            1 => Literal::Boolean(self.flip()),
            2 => {
                Literal::Integer(self.pick(&["0", "-1", "007", "12345678901234567890"]).to_owned())
            }
            3 => {
                let floats = ["1.5", "-2.", "3e10", "-4.5E-6", "NaN", "Infinity", "-Infinity"];
                Literal::Float(self.pick(&floats).to_owned())
            }
            4 => Literal::Blob(self.pick(&[&[][..], &[0xff], &[0x00, 0x0a, 0x80]]).to_vec()),
            5 => Literal::Uuid(Uuid::from_u128(u128::from(self.rng.next_u64()) << 40)),
            6 => {
                let durations = ["1h30m", "-2mo", "P1Y2M3DT4H5M6S", "-P4W", "89us", "1µs"];
                Literal::Duration(self.pick(&durations).to_owned())
            }
            _ => Literal::String(self.pick(&STRINGS).to_owned()),
        }
    }

    fn marker(&mut self) -> BindMarker {
        let name = self.some(|generator| generator.pick(&NAMES).to_owned());
        let index = self.markers;
        self.markers += 1;
        BindMarker { index, name, at: Position::default() }
    }

    fn reference(&mut self) -> Reference {
        Reference { name: self.name(), field: self.some(Self::name) }
    }

    fn call(&mut self) -> FunctionCall {
        let keyspace = self.some(Self::name);
        let name = Name::new(self.pick(&FUNCTIONS));
        let arguments =
            if self.flip() { Arguments::Star } else { Arguments::Terms(self.many(0, Self::term)) };
        FunctionCall { function: FunctionName { keyspace, name }, arguments }
    }

    fn term(&mut self) -> Term {
        self.depth += 1;
        let kind = if self.depth > 6 { self.below(4) } else { self.below(16) };
        let drawn = match kind {
            0 | 1 => Term::Literal(self.literal()),
            2 => Term::Marker(self.marker()),
            3 | 4 if self.names => Term::Reference(self.reference()),
            5 if self.names => {
                let reference = self.reference();
                if self.flip() {
                    let from = self.some(Self::term);
                    let to = if from.is_some() { self.some(Self::term) } else { Some(self.term()) };
                    Term::Slice(reference, Box::new(Slice { from, to }))
                } else {
                    Term::Element(reference, Box::new(self.term()))
                }
            }
            3 => Term::Literal(self.literal()),
            4..=6 => Term::Call(self.call()),
            7 => Term::Cast(Box::new(self.term()), self.type_name()),
            8 => Term::Hint(self.hint_type(), Box::new(self.term())),
            9 => Term::Negate(Box::new(self.term())),
            10 => self.chain(&SUMS),
            11 => self.chain(&PRODUCTS),
            12 => Term::List(self.many(0, Self::term)),
            13 => Term::Set(self.many(0, Self::term)),
            14 if self.flip() => {
                Term::Fields(self.many(1, |generator| (generator.name(), generator.term())))
            }
            // A name as a key would be a field.
            14 => Term::Map(
                self.many(1, |generator| (Term::Literal(generator.literal()), generator.term())),
            ),
            _ => Term::Tuple(self.many(2, Self::term)),
        };
        self.depth -= 1;
        drawn
    }

    fn hint_type(&mut self) -> TypeName {
        loop {
            let drawn = self.type_name();
            // A string in parentheses is parsed as a string.
            if !matches!(drawn, TypeName::Custom(_)) {
                return drawn;
            }
        }
    }

    fn chain(&mut self, ops: &[ArithmeticOp]) -> Term {
        let first = Box::new(self.term());
        let rest = self.many(1, |generator| (generator.pick(ops), generator.term()));
        Term::Arithmetic { first, rest }
    }

    fn tuple_or_marker(&mut self) -> Term {
        if self.flip() {
            Term::Marker(self.marker())
        } else {
            Term::Tuple(self.many(1, Self::term))
        }
    }

    fn in_values(&mut self, draw: fn(&mut Self) -> Term) -> InValues {
        if self.flip() {
            InValues::Marker(self.marker())
        } else {
            InValues::List(self.many(0, draw))
        }
    }

    fn relation(&mut self) -> Relation {
        let op = self.pick(&OPS);
        match self.below(10) {
            0 => Relation::In { column: self.name(), values: self.in_values(Self::term) },
            1 => Relation::CompareTuple {
                columns: self.many(1, Self::name),
                op,
                value: self.tuple_or_marker(),
            },
            2 => Relation::InTuple {
                columns: self.many(1, Self::name),
                values: self.in_values(Self::tuple_or_marker),
            },
            3 => Relation::Token { columns: self.many(1, Self::name), op, value: self.term() },
            4 => Relation::IsNotNull(self.name()),
            5 => Relation::Contains { column: self.name(), key: self.flip(), value: self.term() },
            6 => Relation::Like { column: self.name(), pattern: self.term() },
            7 => Relation::Element {
                column: self.name(),
                element: self.term(),
                op,
                value: self.term(),
            },
            _ => Relation::Compare { column: self.name(), op, value: self.term() },
        }
    }

    fn filter(&mut self) -> Vec<Relation> {
        self.many(0, Self::relation)
    }

    fn integer_or_marker(&mut self) -> Term {
        if self.flip() {
            Term::Marker(self.marker())
        } else {
            Term::Literal(Literal::Integer(self.pick(&["0", "-5", "10"]).to_owned()))
        }
    }

    fn duration_or_marker(&mut self) -> Term {
        if self.flip() {
            Term::Marker(self.marker())
        } else {
            Term::Literal(Literal::Duration("500ms".to_owned()))
        }
    }

    fn item(&mut self) -> SelectItem {
        SelectItem { term: self.with_names(Self::term), alias: self.some(Self::name) }
    }

    fn select(&mut self) -> Select {
        let near = self.flip();
        Select {
            json: self.flip(),
            distinct: self.flip(),
            selection: if self.flip() {
                Selection::All
            } else {
                Selection::Items(self.many(1, Self::item))
            },
            from: self.table(),
            filter: self.filter(),
            group_by: self.many(0, |generator| generator.with_names(Self::term)),
            order_by: if near { Vec::new() } else { self.many(0, Self::ordering) },
            near: near.then(|| Near { column: self.name(), vector: self.term() }),
            per_partition_limit: self.some(Self::integer_or_marker),
            limit: self.some(Self::integer_or_marker),
            allow_filtering: self.flip(),
            bypass_cache: self.flip(),
            as_of: self.some(Self::term),
            using: self.using(&[Attribute::Timeout, Attribute::Transaction]),
        }
    }

    fn ordering(&mut self) -> Ordering {
        Ordering { column: self.name(), descending: self.flip() }
    }

    fn using(&mut self, allowed: &[Attribute]) -> Using {
        let mut using = Using::default();
        for _ in 0..self.below(3) {
            let attribute = self.pick(allowed);
            if using.get(attribute).is_none() {
                let term = match attribute {
                    Attribute::Timeout => self.duration_or_marker(),
                    Attribute::Transaction => self.transaction_id(),
                    _ => self.integer_or_marker(),
                };
                using.attributes.push((attribute, term));
            }
        }
        using.level = self.some(Self::name);
        using
    }

    fn guard(&mut self) -> Guard {
        match self.below(4) {
            0 => Guard::Exists,
            1 => Guard::Columns(self.many(1, |generator| {
                let op = generator.pick(&OPS);
                let column = generator.name();
                if generator.flip() {
                    Relation::In { column, values: generator.in_values(Self::term) }
                } else {
                    Relation::Compare { column, op, value: generator.term() }
                }
            })),
            _ => Guard::Always,
        }
    }

    fn deletion(&mut self) -> Deletion {
        let column = self.name();
        match self.below(3) {
            0 => Deletion::Column(column),
            1 => Deletion::Element(column, self.term()),
            _ => Deletion::Field(column, self.name()),
        }
    }

    fn assignment(&mut self) -> Assignment {
        match self.below(6) {
            0 => Assignment::Element(self.name(), self.term(), self.with_names(Self::term)),
            1 => Assignment::Field(self.name(), self.name(), self.with_names(Self::term)),
            _ => Assignment::Column(self.name(), self.with_names(Self::term)),
        }
    }

    /// Draws a write; within a transaction it has neither `IF` nor `USING`.
    fn write(&mut self, alone: bool) -> Write {
        let all: &[Attribute] = &Attribute::ALL;
        match self.below(3) {
            0 => {
                let json = self.flip().then(|| JsonRow {
                    value: match self.flip() {
                        true => Term::Marker(self.marker()),
                        false => Term::Literal(Literal::String(self.pick(&STRINGS).to_owned())),
                    },
                    default_unset: self.flip(),
                });
                let columns = if json.is_some() { Vec::new() } else { self.many(1, Self::name) };
                Write::Insert(Insert {
                    json,
                    table: self.table(),
                    values: columns.iter().map(|_| self.term()).collect(),
                    columns,
                    if_not_exists: alone && self.flip(),
                    using: if alone { self.using(all) } else { Using::default() },
                })
            }
            1 => Write::Update(Update {
                table: self.table(),
                using: if alone { self.using(all) } else { Using::default() },
                assignments: self.many(1, Self::assignment),
                filter: self.many(1, Self::relation),
                guard: if alone { self.guard() } else { Guard::Always },
            }),
            _ => Write::Delete(Delete {
                deletions: self.many(0, Self::deletion),
                table: self.table(),
                using: if alone {
                    self.using(&[Attribute::Timestamp, Attribute::Timeout, Attribute::Transaction])
                } else {
                    Using::default()
                },
                filter: self.many(1, Self::relation),
                guard: if alone { self.guard() } else { Guard::Always },
            }),
        }
    }

    fn batch(&mut self) -> Batch {
        Batch {
            kind: self.pick(&[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]),
            using: self.using(&[Attribute::Timestamp, Attribute::Timeout, Attribute::Transaction]),
            writes: self.many(0, |generator| generator.write(true)),
        }
    }

    fn transaction(&mut self) -> Transaction {
        self.names = true;
        let mut lets = Vec::new();
        for name in ["a", "select", "count"].iter().take(1 + self.below(3)) {
            lets.push(Let { name: Name::new(*name), select: self.select() });
        }
        let result = match self.below(3) {
            0 => {
                let select = Select { json: false, ..self.select() };
                Some(TransactionResult::Select(Box::new(select)))
            }
            1 => Some(TransactionResult::Items(self.many(1, |generator| SelectItem {
                term: generator.let_reference(&lets),
                alias: generator.some(Self::name),
            }))),
            _ => None,
        };
        let body = if self.flip() {
            Body::Plain(self.many(1, |generator| generator.write(false)))
        } else {
            Body::If {
                condition: Box::new(self.condition(&lets)),
                then: self.branch(),
                otherwise: self.some(Self::branch),
            }
        };
        self.names = false;
        Transaction { lets, shows_applied: self.flip(), result, body }
    }

    fn branch(&mut self) -> Branch {
        let writes = self.many(0, |generator| generator.write(false));
        let raise = self.some(|generator| match generator.flip() {
            true => Term::Marker(generator.marker()),
            false => Term::Literal(Literal::String(generator.pick(&STRINGS).to_owned())),
        });
        Branch { writes, raise: raise.map(Box::new) }
    }

    fn transaction_id(&mut self) -> Term {
        match self.flip() {
            true => Term::Marker(self.marker()),
            false => Term::Literal(Literal::Uuid(Uuid::from_u64_pair(self.rng.next_u64(), 7))),
        }
    }

    fn open(&mut self) -> OpenStatement {
        match self.below(5) {
            0 => {
                let as_of = self.some(Self::term);
                let read_only = match as_of {
                    Some(_) => self.flip().then_some(true),
                    None => self.some(Self::flip),
                };
                let isolation = [
                    IsolationLevel::StrictSerializable,
                    IsolationLevel::Serializable,
                    IsolationLevel::Snapshot,
                ];
                OpenStatement::Start(StartTransaction {
                    detached: self.flip(),
                    isolation: self.some(|generator| generator.pick(&isolation)),
                    read_only,
                    as_of,
                })
            }
            1 => OpenStatement::Commit(self.some(Self::transaction_id)),
            2 => OpenStatement::Rollback(self.some(Self::transaction_id)),
            3 => OpenStatement::Kill(self.transaction_id()),
            _ => OpenStatement::Outcome(self.term()),
        }
    }

    fn let_reference(&mut self, lets: &[Let]) -> Term {
        let name = self.pick(lets).name;
        Term::Reference(Reference { name, field: self.some(Self::name) })
    }

    /// Draws a term of a condition: all names in it are `LET`s.
    fn operand(&mut self, lets: &[Let]) -> Term {
        match self.below(4) {
            0 => self.let_reference(lets),
            1 => Term::Arithmetic {
                first: Box::new(self.let_reference(lets)),
                rest: vec![(self.pick(&SUMS), Term::Literal(self.literal()))],
            },
            _ => {
                let before = std::mem::replace(&mut self.names, false);
                let drawn = self.term();
                self.names = before;
                drawn
            }
        }
    }

    fn condition(&mut self, lets: &[Let]) -> Condition {
        self.depth += 1;
        let kind = if self.depth > 5 { 2 + self.below(3) } else { self.below(5) };
        let drawn = match kind {
            0 => Condition::And(self.many(2, |g| g.condition(lets))),
            1 => Condition::Or(self.many(2, |g| g.condition(lets))),
            2 => Condition::In(self.operand(lets), self.in_values(Self::literal_term)),
            3 => Condition::IsNull { term: self.operand(lets), negated: self.flip() },
            _ => {
                let (left, op) = (self.operand(lets), self.pick(&OPS));
                Condition::Compare(left, op, self.operand(lets))
            }
        };
        self.depth -= 1;
        drawn
    }

    fn literal_term(&mut self) -> Term {
        Term::Literal(self.literal())
    }

    fn options(&mut self, least: usize) -> Options {
        let mut options = Options::new();
        let count = least + self.below(3);
        for name in ["comment", "Comment", "select"].iter().take(count) {
            let value = if self.flip() {
                OptionValue::Map(self.many(0, |g| (g.constant(), g.constant())))
            } else {
                OptionValue::Literal(self.constant())
            };
            options.push((Name::new(*name), value));
        }
        options
    }

    fn constant(&mut self) -> Literal {
        loop {
            let literal = self.literal();
            if literal != Literal::Null {
                return literal;
            }
        }
    }

    fn column(&mut self) -> ColumnDefinition {
        ColumnDefinition { name: self.name(), type_name: self.type_name(), is_static: self.flip() }
    }

    fn create_table(&mut self) -> CreateTable {
        CreateTable {
            if_not_exists: self.flip(),
            table: self.table(),
            columns: self.many(0, Self::column),
            key: PrimaryKey {
                partition: self.many(1, Self::name),
                clustering: self.many(0, Self::name),
            },
            is_compact: self.flip(),
            clustering_order: self.many(0, Self::ordering),
            options: self.options(0),
        }
    }

    fn table_change(&mut self) -> TableChange {
        match self.below(6) {
            0 => {
                TableChange::Add { if_not_exists: self.flip(), columns: self.many(1, Self::column) }
            }
            1 => TableChange::Drop {
                if_exists: self.flip(),
                columns: self.many(1, Self::name),
                timestamp: self.some(|_| Literal::Integer("12".to_owned())),
            },
            2 => TableChange::Rename {
                if_exists: self.flip(),
                columns: self.many(1, |g| (g.name(), g.name())),
            },
            3 => TableChange::DropCompactStorage,
            4 => TableChange::Type(self.name(), self.type_name()),
            _ => TableChange::Options(self.options(1)),
        }
    }

    fn describe(&mut self) -> Describe {
        let (full, only) = (self.flip(), self.flip());
        let targets = [
            DescribeTarget::Cluster,
            DescribeTarget::Schema { full },
            DescribeTarget::Keyspaces,
            DescribeTarget::Keyspace { only, name: self.some(Self::name) },
            DescribeTarget::Tables,
            DescribeTarget::Table(self.table()),
            DescribeTarget::Index(self.table()),
            DescribeTarget::View(self.table()),
            DescribeTarget::Types,
            DescribeTarget::Type(self.table()),
            DescribeTarget::Functions,
            DescribeTarget::Function(self.table()),
            DescribeTarget::Aggregates,
            DescribeTarget::Aggregate(self.table()),
            DescribeTarget::Any(TableName { keyspace: None, table: Name::new("tables") }),
            DescribeTarget::Any(self.table()),
        ];
        Describe { target: self.pick(&targets), internals: self.flip() }
    }

    fn role(&mut self) -> RoleStatement {
        let (if_exists, if_not_exists, no_recursive) = (self.flip(), self.flip(), self.flip());
        let (role, name) = (self.name(), self.name());
        match self.below(14) {
            0 => RoleStatement::Create { if_not_exists, name, options: self.role_options() },
            1 => RoleStatement::Alter { if_exists, name, options: self.role_options() },
            2 => RoleStatement::Drop { if_exists, name },
            3 => RoleStatement::List { of: self.some(Self::name), no_recursive },
            4 => RoleStatement::ListUsers,
            5 => RoleStatement::ListSuperusers,
            6 => RoleStatement::GrantRole { role, to: name },
            7 => RoleStatement::RevokeRole { role, from: name },
            8 => {
                let (permissions, on) = (self.permissions(), self.resource());
                RoleStatement::Grant { permissions, on, to: name }
            }
            9 => {
                let (permissions, on) = (self.permissions(), self.resource());
                RoleStatement::Revoke { permissions, on, from: name }
            }
            10 => RoleStatement::ListPermissions {
                permissions: self.permissions(),
                on: self.some(Self::resource),
                of: self.some(Self::name),
                no_recursive,
            },
            11 => RoleStatement::AddIdentity { if_not_exists, identity: "it's".to_owned(), role },
            12 => RoleStatement::DropIdentity { if_exists, identity: "spiffe://a/b".to_owned() },
            _ => RoleStatement::ListIdentities,
        }
    }

    /// Passwords have the text that is shown in their place, so that the text says the same.
    fn role_options(&mut self) -> RoleOptions {
        let secret = Secret::new(Secret::SHOWN);
        let password = if self.flip() { Password::Plain(secret) } else { Password::Hashed(secret) };
        let entry = ("key".to_owned(), "it's".to_owned());
        RoleOptions {
            password: self.flip().then_some(password),
            login: self.some(Self::flip),
            superuser: self.some(Self::flip),
            options: self.flip().then(|| vec![entry]),
        }
    }

    fn permissions(&mut self) -> Option<Vec<Permission>> {
        self.flip().then(|| vec![self.pick(&Permission::ALL)])
    }

    fn resource(&mut self) -> ResourceName {
        match self.below(8) {
            0 => ResourceName::Keyspaces,
            1 => ResourceName::Keyspace(self.name()),
            2 => ResourceName::Tables(self.name()),
            3 => ResourceName::Table(self.table()),
            4 => ResourceName::Roles,
            5 => ResourceName::Role(self.name()),
            6 => ResourceName::Levels,
            _ => ResourceName::Level(self.name()),
        }
    }

    fn level(&mut self) -> LevelStatement {
        let (if_exists, if_not_exists) = (self.flip(), self.flip());
        let name = self.name();
        match self.below(8) {
            0 => LevelStatement::Create { if_not_exists, name, options: self.level_options(0) },
            1 => LevelStatement::Alter { name, options: self.level_options(1) },
            2 => LevelStatement::Drop { if_exists, name },
            3 => LevelStatement::Attach { name, user: self.name() },
            4 => LevelStatement::Detach { user: name },
            5 => LevelStatement::List(self.some(Self::name)),
            6 => LevelStatement::ListAttached(self.some(Self::name)),
            _ => LevelStatement::ListEffective(name),
        }
    }

    fn level_options(&mut self, least: usize) -> LevelOptions {
        let mut options = LevelOptions::new();
        for value in [
            Literal::Null,
            Literal::Duration("500ms".to_owned()),
            Literal::String("64MiB".to_owned()),
            Literal::Integer("-7".to_owned()),
        ] {
            let name = self.name();
            let is_new = options.iter().all(|(known, _)| *known != name);
            if is_new && (options.len() < least || self.flip()) {
                options.push((name, value));
            }
        }
        options
    }

    fn statement(&mut self) -> Statement {
        let (if_exists, if_not_exists) = (self.flip(), self.flip());
        match self.below(27) {
            24 => Statement::Open(self.open()),
            25 => Statement::Role(self.role()),
            0..=3 => Statement::Select(self.select()),
            4..=6 => Statement::Write(self.write(true)),
            7 => Statement::Batch(self.batch()),
            8..=10 => Statement::Transaction(self.transaction()),
            11 => Statement::Use(self.name()),
            12 => Statement::CreateKeyspace(CreateKeyspace {
                if_not_exists,
                name: self.name(),
                options: self.options(1),
            }),
            13 => Statement::AlterKeyspace(AlterKeyspace {
                if_exists,
                name: self.name(),
                options: self.options(1),
            }),
            14 => Statement::DropKeyspace(DropKeyspace { if_exists, name: self.name() }),
            15 if self.flip() => Statement::CopyTable(CopyTable {
                if_not_exists,
                table: self.table(),
                like: self.table(),
                options: self.options(0),
            }),
            15 => Statement::CreateTable(self.create_table()),
            16 => Statement::AlterTable(AlterTable {
                if_exists,
                table: self.table(),
                change: self.table_change(),
            }),
            17 => Statement::DropTable(DropTable { if_exists, table: self.table() }),
            18 => Statement::Truncate(self.table(), Using::default()),
            19 => Statement::Level(self.level()),
            20 if self.flip() => {
                Statement::KillStatement(Term::Literal(Literal::Integer("17".into())))
            }
            20 if self.flip() => Statement::Explain(Box::new(Statement::Select(self.select()))),
            20 => Statement::ShowBottleneck,
            21 => Statement::CreateType(CreateType {
                if_not_exists,
                name: self.table(),
                fields: self.many(1, |generator| (generator.name(), generator.type_name())),
            }),
            22 => Statement::AlterType(AlterType {
                if_exists,
                name: self.table(),
                change: if self.flip() {
                    TypeChange::Add {
                        if_not_exists: self.flip(),
                        name: self.name(),
                        type_name: self.type_name(),
                    }
                } else {
                    TypeChange::Rename {
                        if_exists: self.flip(),
                        fields: self.many(1, |generator| (generator.name(), generator.name())),
                    }
                },
            }),
            23 => Statement::DropType(DropType { if_exists, name: self.table() }),
            _ => Statement::Describe(self.describe()),
        }
    }
}
