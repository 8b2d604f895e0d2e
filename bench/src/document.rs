//! The documentation page with the table.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::plot;
use crate::scenes::Findings;
use crate::table::Table;

/// Everything but the figures.
const PAGE: &str = include_str!("../cost.md");

/// Writes `COST.md` and `cost.svg` into a folder.
///
/// # Errors
/// [`Failure::System`], [`Failure::Plot`].
pub(crate) fn write(
    folder: &Path,
    found: &Findings,
    machine: &str,
    command: &str,
) -> Result<(), Failure> {
    let not_written = || Failure::system("the documentation can't be written");
    fs::create_dir_all(folder).map_err(not_written())?;
    let page = page(&Table(&found.rows).to_string(), machine, command);
    fs::write(folder.join("COST.md"), page).map_err(not_written())?;
    fs::write(folder.join("cost.svg"), plot::svg(&found.points)?).map_err(not_written())
}

fn page(table: &str, machine: &str, command: &str) -> String {
    PAGE.replace("{table}", table.trim_end())
        .replace("{machine}", machine)
        .replace("{command}", command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures in the table are the last run's. The text around them is written once, in the
    /// template.
    #[test]
    fn the_documentation_says_what_its_template_says() {
        let shown = include_str!("../../docs/COST.md");
        let parts = PAGE.split(['{', '}']).filter(|part| part.contains('\n'));
        for part in parts {
            let part = part.trim();
            assert!(shown.contains(part), "not in docs/COST.md: {part}");
        }
    }

    #[test]
    fn a_page_has_the_table_the_machine_and_the_command_and_no_gaps() {
        let page = page("| a table |\n", "2 cores", "scripts/bench --quick");
        for part in [
            "| a table |\n",
            "2 cores",
            "scripts/bench --quick",
            "](cost.svg)",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains('{'), "{page}");
    }
}
