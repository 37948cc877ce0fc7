//! Parser of statements about materialized views.

use super::{Parse, Parser};
use crate::ast::{AlterView, CreateView, DropView, Options, Statement};
use crate::error::Failure;

impl Parser<'_> {
    /// Parses `CREATE`, `ALTER` or `DROP MATERIALIZED VIEW`, if it is next.
    pub(super) fn eat_view_statement(&mut self) -> Parse<Option<Statement>> {
        if self.eat_words(&["CREATE", "MATERIALIZED", "VIEW"]) {
            return self.create_view().map(Some);
        }
        if self.eat_words(&["ALTER", "MATERIALIZED", "VIEW"]) {
            let if_exists = self.eat_if_exists()?;
            let name = self.table_name("a view")?;
            self.expect_word("WITH")?;
            let options = self.options()?;
            return Ok(Some(Statement::AlterView(AlterView { if_exists, name, options })));
        }
        if self.eat_words(&["DROP", "MATERIALIZED", "VIEW"]) {
            let if_exists = self.eat_if_exists()?;
            let name = self.table_name("a view")?;
            return Ok(Some(Statement::DropView(DropView { if_exists, name })));
        }
        Ok(None)
    }

    fn create_view(&mut self) -> Parse<Statement> {
        let at = self.at();
        let if_not_exists = self.eat_if_not_exists()?;
        let name = self.table_name("a view")?;
        self.expect_words(&["AS", "SELECT"])?;
        let (distinct, selection) = self.select_clause()?;
        if distinct {
            return Err(Failure::invalid(at, "a materialized view cannot select DISTINCT"));
        }
        self.expect_word("FROM")?;
        let table = self.table_name("a table")?;
        let filter = self.required_filter()?;
        self.expect_words(&["PRIMARY", "KEY"])?;
        let key = self.primary_key()?;
        let (mut clustering_order, mut options) = (Vec::new(), Options::new());
        if self.eat_word("WITH") {
            let option = self.at();
            if self.table_options(&mut clustering_order, &mut options)? {
                let message = "Cannot use 'COMPACT STORAGE' when defining a materialized view";
                return Err(Failure::invalid(option, message));
            }
        }
        if !self.markers.is_empty() {
            let message = "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements";
            return Err(Failure::invalid(at, message));
        }
        Ok(Statement::CreateView(CreateView {
            if_not_exists,
            name,
            selection,
            table,
            filter,
            key,
            clustering_order,
            options,
        }))
    }
}
