//! The groups of figures: the tables of `docs/performance.md` and of other pages.
//!
//! Each command is one that the pages cite, in a form that takes seconds; the commands of peers and clusters
//! take minutes. A command that several figures share runs once.

mod engine;
mod overload;
mod peers;
mod programs;

use super::group::Group;

/// Returns all groups, in the order in which they are measured.
pub(super) fn groups() -> Vec<Group> {
    let groups = [engine::groups(), overload::groups(), programs::groups(), peers::groups()];
    groups.into_iter().flatten().collect()
}

/// A column of which each row has the field of a JSON object: part of the name, title, field.
type Field = (&'static str, &'static str, &'static str);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser as _;

    use super::super::command;
    use super::*;

    #[test]
    fn figures_have_names_of_their_own() {
        let groups = groups();
        let names: Vec<&str> =
            groups.iter().flat_map(|it| &it.figures).map(|figure| figure.name.as_str()).collect();
        let groups_names = groups.iter().map(|group| group.name);
        let all: BTreeSet<&str> = names.iter().copied().chain(groups_names).collect();
        assert_eq!(all.len(), names.len() + groups.len());
        for name in names {
            assert!(!name.contains(' '), "{name}");
        }
        for group in &groups {
            let cells: BTreeSet<(&str, &str)> =
                group.figures.iter().map(|figure| (&*figure.row, &*figure.column)).collect();
            assert_eq!(cells.len(), group.figures.len(), "cells of {}", group.name);
            let is_compared = group.figures.iter().any(|figure| figure.better.is_some());
            assert!(is_compared, "{} compares nothing", group.name);
        }
    }

    #[test]
    fn commands_of_figures_are_known() {
        let groups = groups();
        let figures = || groups.iter().flat_map(|group| &group.figures);
        assert!(figures().filter(|figure| figure.counted).count() >= 4);
        let of_this_program = figures().flat_map(super::super::group::Figure::commands);
        for command in of_this_program.filter(|it| command::program(it) == "carnet-bench") {
            let words = std::iter::once("carnet-bench").chain(command::arguments(command));
            if let Err(error) = crate::Arguments::try_parse_from(words) {
                panic!("{command}: {error}");
            }
        }
    }
}
