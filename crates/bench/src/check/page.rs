//! Table of the figures in `docs/performance.md`.

use std::path::Path;

use carnet_base::{Error, Result};

use super::figure::{Better, Figure};

const BEGIN: &str = "<!-- figures: made by carnet-bench check --record -->\n";
const END: &str = "<!-- end of figures -->";

/// Returns the table of the recorded figures.
pub(super) fn table(figures: &[Figure]) -> String {
    let mut table =
        "| figure | value | better | command | recorded |\n| --- | ---: | --- | --- | --- |\n"
            .to_owned();
    for figure in figures {
        let (Some(value), Some(origin)) = (figure.value, &figure.origin) else { continue };
        let better = match figure.better {
            Better::Less => "less",
            Better::More => "more",
        };
        let counted = if figure.counted { ", a count" } else { "" };
        table += &format!(
            "| {} | {value} | {better}{counted} | `{}` | {}, {}, {} |\n",
            figure.claim, figure.command, origin.machine, origin.date, origin.commit
        );
    }
    table
}

/// Puts the table into the page.
pub(super) fn write(path: &Path, figures: &[Figure]) -> Result<()> {
    let of_page = |error| {
        Error::unavailable(format!("{} cannot be read or written", path.display()))
            .with_source(error)
    };
    let page = std::fs::read_to_string(path).map_err(of_page)?;
    let parts =
        page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| {
        Error::invalid(format!("{} has no place for the figures", path.display()))
    })?;
    std::fs::write(path, format!("{head}{BEGIN}{}{END}{tail}", table(figures))).map_err(of_page)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::figure::read;
    use super::*;

    fn docs() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    #[test]
    fn page_has_the_recorded_figures() {
        let figures = read(&docs().join("figures.json")).unwrap();
        let page = std::fs::read_to_string(docs().join("performance.md")).unwrap();
        let (_, rest) = page.split_once(BEGIN).unwrap();
        let (found, _) = rest.split_once(END).unwrap();
        let table = table(&figures);
        assert!(found == table, "carnet-bench check --record makes this table anew:\n{table}");
    }

    #[test]
    fn commands_of_figures_are_known() {
        let figures = read(&docs().join("figures.json")).unwrap();
        assert!(figures.iter().filter(|figure| figure.counted).count() >= 4);
        for figure in &figures {
            let words = std::iter::once("carnet-bench").chain(figure.command.split(' '));
            if let Err(error) = crate::Arguments::try_parse_from(words) {
                panic!("{}: {error}", figure.command);
            }
            let recorded = figure.value.is_some();
            assert_eq!(recorded, figure.origin.is_some(), "{}", figure.name);
            assert!(recorded || !figure.counted, "the count {} is recorded", figure.name);
        }
    }
}
