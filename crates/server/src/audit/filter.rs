//! Which entries an audit log has.

use std::collections::BTreeSet;

use carnet_cql::AuditCategory;

/// Choice of entries. An entry is written if the filter accepts its category, user and keyspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Categories of the entries. Default: log-ins, DDL, DCL and administration.
    pub categories: BTreeSet<AuditCategory>,
    /// Users in the entries; empty for all.
    pub include_users: BTreeSet<String>,
    /// Users without entries.
    pub exclude_users: BTreeSet<String>,
    /// Keyspaces in the entries; empty for all.
    pub include_keyspaces: BTreeSet<String>,
    /// Keyspaces without entries.
    pub exclude_keyspaces: BTreeSet<String>,
}

impl Default for Filter {
    fn default() -> Self {
        use AuditCategory::{Admin, Dcl, Ddl, Login};
        Self {
            categories: [Login, Ddl, Dcl, Admin].into(),
            include_users: BTreeSet::new(),
            exclude_users: BTreeSet::new(),
            include_keyspaces: BTreeSet::new(),
            exclude_keyspaces: BTreeSet::new(),
        }
    }
}

impl Filter {
    /// Returns `true` if entries of a category about a user are wanted.
    pub(super) fn wants(&self, category: AuditCategory, user: Option<&str>) -> bool {
        self.categories.contains(&category)
            && is_wanted(&self.include_users, &self.exclude_users, user.unwrap_or_default())
    }

    /// Returns `true` if entries about keyspaces are wanted: one of them suffices, and so does having none.
    pub(super) fn wants_keyspaces(&self, keyspaces: &[String]) -> bool {
        let is_wanted =
            |name: &String| is_wanted(&self.include_keyspaces, &self.exclude_keyspaces, name);
        keyspaces.is_empty() || keyspaces.iter().any(is_wanted)
    }
}

fn is_wanted(include: &BTreeSet<String>, exclude: &BTreeSet<String>, name: &str) -> bool {
    (include.is_empty() || include.contains(name)) && !exclude.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn strings(names: &[&str]) -> Vec<String> {
        set(names).into_iter().collect()
    }

    #[test]
    fn reads_and_writes_are_left_out_by_default() {
        let filter = Filter::default();
        let wanted = AuditCategory::ALL.into_iter().filter(|one| filter.wants(*one, None));
        let names: Vec<_> = wanted.map(AuditCategory::name).collect();
        assert_eq!(names, ["login", "ddl", "dcl", "admin"]);
    }

    #[test]
    fn users_and_keyspaces_are_included_and_excluded() {
        let filter = Filter {
            exclude_users: set(&["monitor"]),
            include_keyspaces: set(&["bank", "shop"]),
            exclude_keyspaces: set(&["shop"]),
            ..Filter::default()
        };
        assert!(filter.wants(AuditCategory::Ddl, Some("ann")));
        assert!(!filter.wants(AuditCategory::Ddl, Some("monitor")));
        assert!(filter.wants(AuditCategory::Ddl, None));
        let only = Filter { include_users: set(&["ann"]), ..Filter::default() };
        assert!(
            only.wants(AuditCategory::Login, Some("ann"))
                && !only.wants(AuditCategory::Login, None)
        );
        for (keyspaces, is_wanted) in [
            (&["bank"][..], true),
            (&["shop"], false),
            (&["other"], false),
            (&[], true),
            (&["bank", "shop"], true),
        ] {
            assert_eq!(filter.wants_keyspaces(&strings(keyspaces)), is_wanted, "{keyspaces:?}");
        }
    }
}
