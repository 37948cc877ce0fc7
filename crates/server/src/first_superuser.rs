//! The first superuser of a database whose clients log in as roles.
//!
//! Without one no client could make a role. There is no default password: it is random, and the caller
//! keeps it where only the owner of the server can read it.

use carnet::roles::{RoleChanges, Roles, StoredPassword};
use carnet::{Db, passwords};
use carnet_base::Result;

/// Name of the role; with a number behind it if there is a role of that name.
const NAME: &str = "admin";

/// Makes a superuser that can log in, if none exists, and returns its name. `keep` stores its name and
/// password before the role exists: a crash in between leaves no role whose password is lost.
///
/// # Errors
///
/// Those of `keep`, or [`Db::change_roles`].
pub async fn make_first_superuser(
    db: &Db,
    keep: impl FnOnce(&str, &str) -> Result<()>,
) -> Result<Option<String>> {
    db.refresh_roles().await?;
    let roles = db.roles();
    if roles.has_superuser() {
        return Ok(None);
    }
    let name = free_name(&roles);
    let password = passwords::random()?;
    let options = RoleChanges {
        is_superuser: Some(true),
        can_login: Some(true),
        password: Some(StoredPassword::new(passwords::hash(&password)?)),
        options: None,
    };
    keep(&name, &password)?;
    let create = |roles: &mut Roles| {
        // Another server of the database may have been first.
        let is_needed = !roles.has_superuser();
        if is_needed {
            roles.create(&name, &options)?;
        }
        Ok(is_needed)
    };
    let is_made = db.change_roles(create).await?;
    Ok(is_made.then_some(name))
}

fn free_name(roles: &Roles) -> String {
    let numbered = (2_u64..).map(|number| format!("{NAME}{number}"));
    let mut names = std::iter::once(NAME.to_owned()).chain(numbered);
    let free = names.find(|name| roles.get(name).is_none());
    free.unwrap_or_else(|| NAME.to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use carnet_base::block_on;

    use super::*;

    #[test]
    fn first_superuser_is_made_once() {
        let db = Db::builder().in_memory();
        let admin = |roles: &mut Roles| roles.create("admin", &RoleChanges::default());
        block_on(db.change_roles(admin)).unwrap();
        let kept = RefCell::new(Vec::new());
        let make = || {
            block_on(make_first_superuser(&db, |name, password| {
                kept.borrow_mut().push((name.to_owned(), password.to_owned()));
                Ok(())
            }))
            .unwrap()
        };
        assert_eq!(make().as_deref(), Some("admin2"), "an existing role is not changed");
        assert_eq!(make(), None);
        let (name, password) = kept.borrow()[0].clone();
        assert_eq!(kept.borrow().len(), 1);
        let stored = db.roles().get(&name).unwrap().password.clone().unwrap();
        let mut memory = passwords::Memory::default();
        assert!(passwords::matches(stored.hash(), password.as_bytes(), &mut memory));
    }
}
