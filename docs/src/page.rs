//! The Rust blocks of a page, and the code around them that only tests need.
//!
//! A block may show less than a whole program. The rest of it stands in a comment right before the block. Sites that show Markdown
//! hide comments. The line `…` stands for the block:
//!
//! ````text
//! <!-- around the code that follows, when it is tested:
//! fn main() {
//!     let limit = 3;
//!     …
//! }
//! -->
//! ```rust
//! assert_eq!(limit, 3);
//! ```
//! ````

use std::iter;

/// The first line of a scaffold.
const BEGIN: &str = "<!-- around the code that follows, when it is tested:";
/// What stands in a scaffold for the block.
const PLACE: &str = "…";
/// The last line of a scaffold.
const END: &str = "-->";
const FENCE: &str = "```";

/// A Rust block of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The line of the page that the code begins on.
    pub line: usize,
    /// What the page says after the fence: `rust` or `rust,no_run`.
    pub mark: &'a str,
    /// The lines that the page shows.
    pub shown: Vec<&'a str>,
    scaffold: Option<Scaffold<'a>>,
}

/// The code around a block.
#[derive(Debug, PartialEq, Eq)]
struct Scaffold<'a> {
    /// The line of the page that it begins on.
    line: usize,
    before: Vec<&'a str>,
    after: Vec<&'a str>,
}

/// A scaffold that can't be put around a block.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: this scaffold {missing}")]
pub struct ScaffoldError {
    /// The line of the page that the scaffold begins on.
    pub line: usize,
    /// What it lacks.
    pub missing: Missing,
}

/// What a scaffold lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The comment goes on to the end of the page.
    #[error("has no end: close it with the line `{END}`")]
    End,
    /// It does not say where the block is to stand.
    #[error("has no place for the block: add the line `{PLACE}`")]
    Place,
    /// Something else follows it, or nothing.
    #[error("has no Rust block: put it right before one")]
    Block,
}

/// The Rust blocks of this page, in order.
///
/// # Errors
/// [`ScaffoldError`].
pub fn blocks(page: &str) -> Result<Vec<Block<'_>>, ScaffoldError> {
    let mut found = Vec::new();
    let mut lines = page.lines().zip(1..);
    let mut scaffold: Option<Scaffold<'_>> = None;
    while let Some((text, line)) = lines.next() {
        let mark = text.strip_prefix(FENCE).filter(|it| it.starts_with("rust"));
        if let Some(mark) = mark {
            let inside = lines.by_ref().map(|(text, _)| text);
            found.push(Block {
                line: line + 1,
                mark,
                shown: inside.take_while(|text| *text != FENCE).collect(),
                scaffold: scaffold.take(),
            });
        } else if let Some(scaffold) = scaffold {
            return Err(scaffold.without(Missing::Block));
        } else if text == BEGIN {
            scaffold = Some(Scaffold::read(line, lines.by_ref().map(|(text, _)| text))?);
        }
    }
    match scaffold {
        Some(scaffold) => Err(scaffold.without(Missing::Block)),
        None => Ok(found),
    }
}

/// A page with nothing but these blocks, for rustdoc. What the other page does not show is marked as hidden.
///
/// Rustdoc names a test by its line. So each block begins on the line of the other page that it or its scaffold begins on. (One
/// line stands before all others, since rustdoc counts the lines of an included page from zero.)
pub fn tested(blocks: &[Block<'_>]) -> String {
    let mut lines = Vec::new();
    for block in blocks {
        let begin = block.scaffold.as_ref().map_or(block.line - 1, |it| it.line);
        lines.extend(iter::repeat_n(
            String::new(),
            begin.saturating_sub(lines.len()),
        ));
        lines.push(format!("{FENCE}{}", block.mark));
        lines.extend(block.before().iter().map(|it| hidden(it)));
        lines.extend(block.shown.iter().map(|&it| it.to_owned()));
        lines.extend(block.after().iter().map(|it| hidden(it)));
        lines.push(FENCE.to_owned());
    }
    lines.join("\n")
}

/// As rustdoc hides a line.
fn hidden(line: &str) -> String {
    format!("# {line}")
}

impl Block<'_> {
    /// All of its code.
    pub fn code(&self) -> String {
        [self.before(), &self.shown, self.after()]
            .concat()
            .join("\n")
    }

    fn before(&self) -> &[&str] {
        self.scaffold.as_ref().map_or(&[], |it| &it.before)
    }

    fn after(&self) -> &[&str] {
        self.scaffold.as_ref().map_or(&[], |it| &it.after)
    }
}

impl<'a> Scaffold<'a> {
    /// The one that begins on this line, from the lines after it.
    fn read(line: usize, lines: impl Iterator<Item = &'a str>) -> Result<Self, ScaffoldError> {
        let mut scaffold = Self {
            line,
            before: Vec::new(),
            after: Vec::new(),
        };
        let mut has_place = false;
        for text in lines {
            match text.trim() {
                END if has_place => return Ok(scaffold),
                END => return Err(scaffold.without(Missing::Place)),
                PLACE => has_place = true,
                _ if has_place => scaffold.after.push(text),
                _ => scaffold.before.push(text),
            }
        }
        Err(scaffold.without(Missing::End))
    }

    fn without(&self, missing: Missing) -> ScaffoldError {
        let line = self.line;
        ScaffoldError { line, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page
```toml
rust = 1
```
<!-- around the code that follows, when it is tested:
fn main() {
    let limit = 3;

    …
}
-->
```rust
assert_eq!(limit, 3);
```
Another one:
```rust,no_run
fn main() {}
```
";

    #[test]
    fn a_scaffold_stands_around_its_block_hidden() {
        let blocks = blocks(PAGE).expect("two blocks");
        let tested = tested(&blocks);
        let lines: Vec<&str> = tested.lines().collect();
        assert_eq!(lines[..5], [""; 5]);
        let first = "```rust|# fn main() {|#     let limit = 3;|# |assert_eq!(limit, 3);|# }|```";
        assert_eq!(lines[5..12].join("|"), first);
        assert_eq!(lines[12..16], [""; 4]);
        assert_eq!(lines[16..].join("|"), "```rust,no_run|fn main() {}|```");
    }

    #[test]
    fn the_code_of_a_block_includes_its_scaffold() {
        let blocks = blocks(PAGE).expect("two blocks");
        let [first, second] = &blocks[..] else {
            panic!("{blocks:?}");
        };
        let code = "fn main() {\n    let limit = 3;\n\nassert_eq!(limit, 3);\n}";
        assert_eq!((first.line, first.mark), (13, "rust"));
        assert_eq!(first.shown, ["assert_eq!(limit, 3);"]);
        assert_eq!(first.code(), code);
        assert_eq!((second.line, second.mark), (17, "rust,no_run"));
        assert_eq!(second.code(), "fn main() {}");
    }

    #[test]
    fn a_scaffold_without_place_end_or_block_is_refused() {
        let missing = |page: &str| {
            let error = blocks(page).expect_err("an error");
            assert_eq!(error.line, 5, "{error}");
            error.missing
        };
        assert_eq!(missing(&PAGE.replace("    …\n", "")), Missing::Place);
        assert_eq!(missing(&PAGE.replace("-->", "--")), Missing::End);
        assert_eq!(missing(&PAGE.replace("-->\n", "-->\n\n")), Missing::Block);
        let last = PAGE.split_inclusive("-->\n").next().expect("a page");
        assert_eq!(missing(last), Missing::Block);
    }
}
