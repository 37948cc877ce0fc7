//! The commands of this program on all pages are parsed by its own parser.

use crate::{Arguments, page_commands};

#[test]
fn commands_of_all_pages_are_known() {
    page_commands::are_known::<Arguments>("carnet-bench", 26);
}
