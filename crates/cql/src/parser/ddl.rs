//! Parser of statements about keyspaces and tables.

use super::{Parse, Parser};
use crate::ast::{
    AlterKeyspace, AlterTable, AlterType, ColumnDefinition, CopyTable, CreateKeyspace, CreateTable,
    CreateType, DropKeyspace, DropTable, DropType, Literal, Name, Options, Ordering, PrimaryKey,
    Statement, TableChange, TableName, TypeChange,
};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses `CREATE KEYSPACE` after these words.
    pub(super) fn create_keyspace(&mut self) -> Parse<Statement> {
        let if_not_exists = self.eat_if_not_exists()?;
        let name = self.name("a keyspace")?;
        self.expect_word("WITH")?;
        let options = self.options()?;
        Ok(Statement::CreateKeyspace(CreateKeyspace { if_not_exists, name, options }))
    }

    /// Parses `ALTER KEYSPACE` after these words.
    pub(super) fn alter_keyspace(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let name = self.name("a keyspace")?;
        self.expect_word("WITH")?;
        let options = self.options()?;
        Ok(Statement::AlterKeyspace(AlterKeyspace { if_exists, name, options }))
    }

    /// Parses `DROP KEYSPACE` after these words.
    pub(super) fn drop_keyspace(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let name = self.name("a keyspace")?;
        Ok(Statement::DropKeyspace(DropKeyspace { if_exists, name }))
    }

    /// Parses `DROP TABLE` after these words.
    pub(super) fn drop_table(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let table = self.table_name("a table")?;
        Ok(Statement::DropTable(DropTable { if_exists, table }))
    }

    /// Parses `CREATE TABLE` after these words.
    pub(super) fn create_table(&mut self) -> Parse<Statement> {
        let if_not_exists = self.eat_if_not_exists()?;
        let table = self.table_name("a table")?;
        if self.eat_word("LIKE") {
            let like = self.table_name("a table")?;
            let options = if self.eat_word("WITH") { self.options()? } else { Options::new() };
            return Ok(Statement::CopyTable(CopyTable { if_not_exists, table, like, options }));
        }
        let (columns, key, reversed) = self.table_columns(&table)?;
        let mut create = CreateTable {
            if_not_exists,
            table,
            columns,
            key,
            is_compact: false,
            clustering_order: Vec::new(),
            options: Options::new(),
        };
        if self.eat_word("WITH") {
            create.is_compact =
                self.table_options(&mut create.clustering_order, &mut create.options)?;
        }
        reverse(&mut create, &reversed);
        Ok(Statement::CreateTable(create))
    }

    /// Parses the columns and the primary key. The last names are those of columns of a reversed class.
    fn table_columns(
        &mut self,
        table: &TableName,
    ) -> Parse<(Vec<ColumnDefinition>, PrimaryKey, Vec<Name>)> {
        self.expect_symbol("(")?;
        let (mut columns, mut key, mut reversed) = (Vec::new(), None, Vec::new());
        loop {
            let at = self.at();
            let found = if self.eat_words(&["PRIMARY", "KEY"]) {
                Some(self.primary_key()?)
            } else {
                let is_reversed = self.is_reversed_class_at(1);
                let column = self.column_definition()?;
                if is_reversed {
                    reversed.push(column.name.clone());
                }
                let is_key = self.eat_words(&["PRIMARY", "KEY"]);
                let partition = vec![column.name.clone()];
                self.push_definition(&mut columns, column)?;
                is_key.then_some(PrimaryKey { partition, clustering: Vec::new() })
            };
            if found.is_some() && key.is_some() {
                return Err(Failure::invalid(at, "a table has one PRIMARY KEY, this is another"));
            }
            key = key.or(found);
            if self.ends_definitions()? {
                break;
            }
        }
        let no_key = || Failure::invalid(table.table.at.0, "a table needs a PRIMARY KEY");
        Ok((columns, key.ok_or_else(no_key)?, reversed))
    }

    /// Returns `true` if a token is the class of a type in descending order.
    fn is_reversed_class_at(&self, ahead: usize) -> bool {
        let token = self.peek_at(ahead);
        token.kind == TokenKind::String
            && super::marshal::is_reversed(&super::term::unquote(self.text_of(token)))
    }

    /// Consumes what follows a column or field: commas, of which Cassandra accepts any number, or the
    /// closing parenthesis. Returns `true` if no further one follows.
    fn ends_definitions(&mut self) -> Parse<bool> {
        if self.eat_symbol(")") {
            return Ok(true);
        }
        if !self.is_symbol(",") {
            return Err(self.expected(", or )"));
        }
        while self.eat_symbol(",") {}
        Ok(self.eat_symbol(")"))
    }

    /// Parses `name type [STATIC]`.
    fn column_definition(&mut self) -> Parse<ColumnDefinition> {
        let name = self.name("a column or PRIMARY KEY")?;
        let type_name = self.type_name()?;
        let is_static = self.eat_word("STATIC");
        if self.is_words(&["MASKED", "WITH"]) {
            return Err(self.unsupported("MASKED WITH, a mask over a column's data"));
        }
        if self.is_word("CHECK") {
            return Err(self.unsupported("CHECK, a constraint on a column"));
        }
        Ok(ColumnDefinition { name, type_name, is_static })
    }

    /// Parses `((a, b), c)`, `(a, b)` or `(a)`.
    pub(super) fn primary_key(&mut self) -> Parse<PrimaryKey> {
        self.expect_symbol("(")?;
        let partition =
            if self.eat_symbol("(") { self.column_names()? } else { vec![self.name("a column")?] };
        let mut clustering = Vec::new();
        while self.eat_symbol(",") {
            let name = self.name("a column")?;
            self.push_definition(&mut clustering, name)?;
        }
        self.expect_symbol(")")?;
        Ok(PrimaryKey { partition, clustering })
    }

    /// Parses the options of a new table or view after `WITH`. Returns `true` for `COMPACT STORAGE`.
    pub(super) fn table_options(
        &mut self,
        clustering_order: &mut Vec<Ordering>,
        options: &mut Options,
    ) -> Parse<bool> {
        let mut is_compact = false;
        loop {
            if self.eat_words(&["COMPACT", "STORAGE"]) {
                is_compact = true;
            } else if self.eat_words(&["CLUSTERING", "ORDER", "BY"]) {
                self.expect_symbol("(")?;
                clustering_order.extend(self.definitions(Self::clustering_order)?);
                self.expect_symbol(")")?;
            } else {
                self.option(options)?;
            }
            if !self.eat_word("AND") {
                return Ok(is_compact);
            }
        }
    }

    fn clustering_order(&mut self) -> Parse<Ordering> {
        let column = self.name("a column")?;
        let descending = self.eat_word("DESC");
        if !descending {
            self.expect_word("ASC").map_err(|_| self.expected("ASC or DESC"))?;
        }
        Ok(Ordering { column, descending })
    }

    /// Parses `CREATE TYPE` after these words.
    pub(super) fn create_type(&mut self) -> Parse<Statement> {
        let if_not_exists = self.eat_if_not_exists()?;
        let name = self.table_name("a type")?;
        self.expect_symbol("(")?;
        let mut fields = Vec::new();
        loop {
            let field = (self.name("a field")?, self.type_name()?);
            self.push_definition(&mut fields, field)?;
            if self.ends_definitions()? {
                break;
            }
        }
        Ok(Statement::CreateType(CreateType { if_not_exists, name, fields }))
    }

    /// Parses `ALTER TYPE` after these words.
    pub(super) fn alter_type(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let name = self.table_name("a type")?;
        let change = if self.eat_word("ADD") {
            let if_not_exists = self.eat_if_not_exists()?;
            let name = self.name("a field")?;
            TypeChange::Add { if_not_exists, name, type_name: self.type_name()? }
        } else if self.eat_word("RENAME") {
            let if_exists = self.eat_if_exists()?;
            TypeChange::Rename { if_exists, fields: self.rename_columns()? }
        } else if self.is_word("ALTER") {
            return Err(self.unsupported("ALTER TYPE … ALTER"));
        } else {
            return Err(self.expected("ADD or RENAME"));
        };
        Ok(Statement::AlterType(AlterType { if_exists, name, change }))
    }

    /// Parses `DROP TYPE` after these words.
    pub(super) fn drop_type(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let name = self.table_name("a type")?;
        Ok(Statement::DropType(DropType { if_exists, name }))
    }

    /// Parses `ALTER TABLE` after these words.
    pub(super) fn alter_table(&mut self) -> Parse<Statement> {
        let if_exists = self.eat_if_exists()?;
        let table = self.table_name("a table")?;
        let change = self.table_change()?;
        Ok(Statement::AlterTable(AlterTable { if_exists, table, change }))
    }

    fn table_change(&mut self) -> Parse<TableChange> {
        if self.eat_word("ADD") {
            let if_not_exists = self.eat_if_not_exists()?;
            let columns = self.one_or_more(Self::column_definition)?;
            Ok(TableChange::Add { if_not_exists, columns })
        } else if self.eat_words(&["DROP", "COMPACT", "STORAGE"]) {
            Ok(TableChange::DropCompactStorage)
        } else if self.eat_word("DROP") {
            self.drop_columns()
        } else if self.eat_word("RENAME") {
            let if_exists = self.eat_if_exists()?;
            self.rename_columns().map(|columns| TableChange::Rename { if_exists, columns })
        } else if self.eat_word("ALTER") {
            self.eat_if_exists()?;
            let column = self.name("a column")?;
            let newer = [&["MASKED"][..], &["CHECK"], &["DROP", "MASKED"], &["DROP", "CHECK"]];
            if let Some(words) = newer.into_iter().find(|words| self.is_words(words)) {
                let what = format!("ALTER TABLE … ALTER … {}", words.join(" "));
                return Err(self.unsupported(&what));
            }
            self.expect_word("TYPE")?;
            Ok(TableChange::Type(column, self.type_name()?))
        } else if self.eat_word("WITH") {
            self.options().map(TableChange::Options)
        } else {
            Err(self.expected("ADD, DROP, RENAME, ALTER or WITH"))
        }
    }

    fn drop_columns(&mut self) -> Parse<TableChange> {
        let if_exists = self.eat_if_exists()?;
        let columns = self.one_or_more(|parser| parser.name("a column"))?;
        let mut timestamp = None;
        if self.eat_words(&["USING", "TIMESTAMP"]) {
            let token = self.peek();
            if token.kind != TokenKind::Integer {
                return Err(self.expected("microseconds"));
            }
            self.advance();
            timestamp = Some(Literal::Integer(self.text_of(token).to_owned()));
        }
        Ok(TableChange::Drop { if_exists, columns, timestamp })
    }

    /// Parses `old TO new AND …`.
    fn rename_columns(&mut self) -> Parse<Vec<(Name, Name)>> {
        let mut renames = Vec::new();
        loop {
            let old = self.name("a column")?;
            self.expect_word("TO")?;
            let new = self.name("a column")?;
            self.push_definition(&mut renames, (old, new))?;
            if !self.eat_word("AND") {
                return Ok(renames);
            }
        }
    }

    /// Parses one item, or several in parentheses, separated by commas.
    fn one_or_more<T>(&mut self, one: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut one = one;
        if !self.eat_symbol("(") {
            return Ok(vec![one(self)?]);
        }
        let all = self.definitions(one)?;
        self.expect_symbol(")")?;
        Ok(all)
    }
}

/// Adds the orders of clustering columns of reversed classes to `CLUSTERING ORDER BY`.
fn reverse(create: &mut CreateTable, reversed: &[Name]) {
    let is_reversed = |column: &Name| reversed.iter().any(|name| name.text == column.text);
    let Some(last) = create.key.clustering.iter().rposition(is_reversed) else { return };
    for ordering in &mut create.clustering_order {
        ordering.descending |= is_reversed(&ordering.column);
    }
    let begin = create.clustering_order.len();
    for column in create.key.clustering.iter().take(last + 1).skip(begin) {
        let ordering = Ordering { column: column.clone(), descending: is_reversed(column) };
        create.clustering_order.push(ordering);
    }
}
