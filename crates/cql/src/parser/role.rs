//! Parser of statements about roles and identities.

use super::{Parse, Parser};
use crate::ast::{Literal, Name, Password, RoleOptions, RoleStatement, Secret};
use crate::error::Failure;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses a statement about roles, permissions or identities, if the next one is.
    pub(super) fn eat_role_statement(&mut self) -> Parse<Option<RoleStatement>> {
        if self.eat_word("GRANT") {
            return self.grant().map(Some);
        }
        if self.eat_word("REVOKE") {
            return self.revoke().map(Some);
        }
        if self.eat_word("LIST") {
            return self.list_of_roles().map(Some);
        }
        if self.eat_words(&["ADD", "IDENTITY"]) {
            return self.add_identity().map(Some);
        }
        if self.eat_words(&["DROP", "IDENTITY"]) {
            let if_exists = self.eat_if_exists()?;
            let identity = self.quoted("an identity")?;
            return Ok(Some(RoleStatement::DropIdentity { if_exists, identity }));
        }
        let verbs = ["CREATE", "ALTER", "DROP"];
        let Some(verb) = verbs.into_iter().find(|verb| self.is_word(verb)) else { return Ok(None) };
        let is_user = self.is_word_at(1, "USER");
        if !is_user && !self.is_word_at(1, "ROLE") {
            return Ok(None);
        }
        self.next += 2;
        Ok(Some(match verb {
            "CREATE" => {
                let if_not_exists = self.eat_if_not_exists()?;
                let name = self.role_name()?;
                let mut options = self.options_of_role(is_user)?;
                if is_user {
                    options.login = Some(true);
                    options.superuser.get_or_insert(false);
                }
                RoleStatement::Create { if_not_exists, name, options }
            }
            "ALTER" => {
                let if_exists = self.eat_if_exists()?;
                let name = self.role_name()?;
                let options = self.options_of_role(is_user)?;
                RoleStatement::Alter { if_exists, name, options }
            }
            _ => {
                let if_exists = self.eat_if_exists()?;
                RoleStatement::Drop { if_exists, name: self.role_name()? }
            }
        }))
    }

    pub(super) fn role_name(&mut self) -> Parse<Name> {
        self.name_or_string("a role")
    }

    fn add_identity(&mut self) -> Parse<RoleStatement> {
        let if_not_exists = self.eat_if_not_exists()?;
        let identity = self.quoted("an identity")?;
        self.expect_word("TO")?;
        self.expect_word("ROLE")?;
        let role = self.role_name()?;
        Ok(RoleStatement::AddIdentity { if_not_exists, identity, role })
    }

    /// Parses a text in single quotes.
    fn quoted(&mut self, what: &str) -> Parse<String> {
        match self.constant(self.peek())? {
            Some(Literal::String(text)) => {
                self.advance();
                Ok(text)
            }
            _ => Err(self.expected(&format!("{what} in single quotes"))),
        }
    }

    fn options_of_role(&mut self, is_user: bool) -> Parse<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat_word("WITH") {
            if is_user {
                self.password(&mut options)?;
            } else {
                self.option_of_role(&mut options)?;
                while self.eat_word("AND") {
                    self.option_of_role(&mut options)?;
                }
            }
        }
        if is_user && self.eat_word("SUPERUSER") {
            options.superuser = Some(true);
        } else if is_user && self.eat_word("NOSUPERUSER") {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    fn option_of_role(&mut self, options: &mut RoleOptions) -> Parse<()> {
        let at = self.at();
        let twice = |name: &str| Failure::invalid(at, format!("option {name} is given twice"));
        if self.eat_word("LOGIN") {
            let login = options.login.replace(self.truth()?);
            return login.map_or(Ok(()), |_| Err(twice("LOGIN")));
        }
        if self.eat_word("SUPERUSER") {
            let superuser = options.superuser.replace(self.truth()?);
            return superuser.map_or(Ok(()), |_| Err(twice("SUPERUSER")));
        }
        if self.eat_word("OPTIONS") {
            let entries = options.options.replace(self.entries()?);
            return entries.map_or(Ok(()), |_| Err(twice("OPTIONS")));
        }
        if self.eat_word("ACCESS") {
            return self.access();
        }
        self.password(options)
    }

    /// Parses `[HASHED] PASSWORD [=] 'text'`. No message has the text, not even of a mistake.
    fn password(&mut self, options: &mut RoleOptions) -> Parse<()> {
        if self.is_word("GENERATED") {
            return Err(Failure::unsupported(self.at(), "GENERATED PASSWORD; choose a password"));
        }
        let at = self.at();
        let is_hashed = self.eat_word("HASHED");
        if !self.eat_word("PASSWORD") {
            return Err(self.expected("PASSWORD, LOGIN, SUPERUSER, OPTIONS or ACCESS"));
        }
        self.eat_symbol("=");
        let token = self.peek();
        if token.kind != TokenKind::String {
            let message = "expected the password in single quotes behind PASSWORD =";
            return Err(self.unread_or(Failure::syntax(token.start, message)));
        }
        let secret = Secret::new(self.quoted("a password")?);
        let given = if is_hashed { Password::Hashed(secret) } else { Password::Plain(secret) };
        match options.password.replace(given) {
            Some(_) => Err(Failure::invalid(at, "the password is given twice")),
            None => Ok(()),
        }
    }

    /// Parses `= true` or `= false`.
    fn truth(&mut self) -> Parse<bool> {
        self.expect_symbol("=")?;
        match self.constant(self.peek())? {
            Some(Literal::Boolean(truth)) => {
                self.advance();
                Ok(truth)
            }
            _ => Err(self.expected("true or false")),
        }
    }

    /// Parses `= {key: value, …}`.
    fn entries(&mut self) -> Parse<Vec<(String, String)>> {
        self.expect_symbol("=")?;
        self.expect_symbol("{")?;
        self.comma_separated_until("}", |parser| {
            let key = parser.option_constant()?;
            parser.expect_symbol(":")?;
            Ok((key.plain(), parser.option_constant()?.plain()))
        })
    }

    /// Parses what follows `ACCESS`. Every role has access from everywhere.
    fn access(&mut self) -> Parse<()> {
        let at = self.at();
        if self.eat_words(&["TO", "ALL", "DATACENTERS"])
            || self.eat_words(&["FROM", "ALL", "CIDRS"])
        {
            return Ok(());
        }
        if self.is_words(&["TO", "DATACENTERS"]) {
            let what = "ACCESS TO DATACENTERS; let a firewall decide who connects to which server";
            return Err(Failure::unsupported(at, what));
        }
        if self.is_words(&["FROM", "CIDRS"]) {
            let what = "ACCESS FROM CIDRS; let a firewall decide which addresses connect";
            return Err(Failure::unsupported(at, what));
        }
        Err(self.expected("TO ALL DATACENTERS or FROM ALL CIDRS"))
    }
}
