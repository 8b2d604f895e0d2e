//! The source of the core, file by file: what is counted in it, and what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

pub(super) const MACHINES: [&str; 3] = ["Participant", "Candidate", "Follow"];

const NUMBERS: [&str; 6] = ["u16", "u32", "u64", "usize", "f64", "Duration"];

/// One file of the core, without its tests.
pub(super) struct Source {
    /// The module path, as in `machine::status`.
    pub(super) module: Vec<String>,
    /// Lines of code, without comments, documentation and blank lines.
    pub(super) code: usize,
    /// Lines of comments, without documentation.
    pub(super) comments: usize,
    /// The fields of each struct.
    pub(super) fields: BTreeMap<String, usize>,
    /// How many of all fields are bools.
    pub(super) bools: usize,
    /// How many constants are numbers or lengths of time.
    pub(super) constants: usize,
    /// The machines that it uses as a whole.
    pub(super) of_machines: BTreeSet<String>,
    /// How often it assigns to a field `phase`.
    pub(super) phases_assigned: usize,
    /// The paths that it names, from the crate's root.
    pub(super) named: BTreeSet<Vec<String>>,
    /// The names that it re-exports, and where their items are.
    pub(super) shown: BTreeMap<String, Vec<String>>,
}

/// All files by module, read once for all tests.
pub(super) fn sources() -> &'static BTreeMap<Vec<String>, Source> {
    static SOURCES: LazyLock<BTreeMap<Vec<String>, Source>> = LazyLock::new(read_all);
    &SOURCES
}

fn read_all() -> BTreeMap<Vec<String>, Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    list(&root, &mut files);
    files.retain(|file| !is_of_tests(&root, file));
    let sources = files.iter().map(|file| {
        let source = Source::read(&root, file);
        (source.module.clone(), source)
    });
    sources.collect()
}

pub(super) fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// Whether it is a file of tests alone, or in a folder of these.
fn is_of_tests(root: &Path, path: &Path) -> bool {
    let mut within = path.strip_prefix(root).expect("below the root").iter();
    within.any(|it| it == "tests" || it == "tests.rs")
}

/// Lines of code of the core's tests: of its files and modules of tests, and of the folder `tests`.
pub(super) fn lines_of_tests() -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        list(&root.join(folder), &mut files);
    }
    let lines = files.iter().map(|path| {
        let is_of_tests = is_of_tests(root, path);
        let text = fs::read_to_string(path).expect("a text");
        let file = syn::parse_file(&text).expect("Rust");
        let mut lines = BTreeSet::new();
        for item in &file.items {
            if is_of_tests || is_test(attributes(item)) {
                lines_of(tokens_of(item), &mut lines);
            }
        }
        lines.len()
    });
    lines.sum()
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a text");
        let within = path.strip_prefix(root).expect("below the root");
        let mut module: Vec<_> = within
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if module.last().is_some_and(|it| it == "mod" || it == "lib") {
            module.pop();
        }
        let mut file = syn::parse_file(&text).expect("Rust");
        file.items.retain(|item| !is_test(attributes(item)));
        let mut this = Self {
            module,
            code: 0,
            comments: 0,
            fields: BTreeMap::new(),
            bools: 0,
            constants: 0,
            of_machines: BTreeSet::new(),
            phases_assigned: 0,
            named: BTreeSet::new(),
            shown: BTreeMap::new(),
        };
        let mut lines = BTreeSet::new();
        for item in &file.items {
            lines_of(tokens_of(item), &mut lines);
        }
        this.code = lines.len();
        this.comments = comments_of(&text);
        this.visit_file(&file);
        this
    }

    /// The path from the root that these words stand for in this file.
    fn resolve(&self, words: &[String]) -> Option<Vec<String>> {
        let (first, rest) = words.split_first()?;
        let mut from = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => {
                let mut module = self.module.clone();
                module.pop()?;
                module
            }
            _ => return None,
        };
        for word in rest {
            if word == "super" {
                from.pop()?;
            } else {
                from.push(word.clone());
            }
        }
        Some(from)
    }

    fn use_tree(&mut self, before: &[String], tree: &UseTree, is_shown: bool) {
        match tree {
            UseTree::Path(path) => {
                let words = [before, &[path.ident.to_string()]].concat();
                self.use_tree(&words, &path.tree, is_shown);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(before, tree, is_shown);
                }
            }
            UseTree::Name(name) => self.used(before, &name.ident.to_string(), None, is_shown),
            UseTree::Rename(name) => {
                let shown = name.rename.to_string();
                self.used(before, &name.ident.to_string(), Some(shown), is_shown);
            }
            UseTree::Glob(_) => self.used(before, "self", None, is_shown),
        }
    }

    fn used(&mut self, before: &[String], name: &str, shown: Option<String>, is_shown: bool) {
        let words = if name == "self" {
            before.to_vec()
        } else {
            [before, &[name.to_owned()]].concat()
        };
        // The path of a re-exported part begins with the part's name.
        let own = [vec!["self".to_owned()], words.clone()].concat();
        let Some(path) = self
            .resolve(&words)
            .or_else(|| is_shown.then(|| self.resolve(&own))?)
        else {
            return;
        };
        if is_shown {
            self.shown
                .insert(shown.unwrap_or_else(|| name.to_owned()), path);
        } else {
            self.named.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_shown = !matches!(item.vis, Visibility::Inherited);
        self.use_tree(&[], &item.tree, is_shown);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<_> = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        self.named.extend(self.resolve(&words));
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.fields
            .insert(item.ident.to_string(), item.fields.len());
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.bools += usize::from(is_named(&field.ty, "bool"));
        visit::visit_field(self, field);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constants += usize::from(NUMBERS.iter().any(|it| is_named(&item.ty, it)));
        visit::visit_item_const(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let machines = MACHINES.into_iter();
        let named = machines.filter(|name| is_named(&item.self_ty, name));
        self.of_machines.extend(named.map(str::to_owned));
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_assign(&mut self, assign: &'ast syn::ExprAssign) {
        if let syn::Expr::Field(place) = &*assign.left
            && let syn::Member::Named(field) = &place.member
        {
            self.phases_assigned += usize::from(field == "phase");
        }
        visit::visit_expr_assign(self, assign);
    }

    /// A visibility is not a need.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// Whether the type is this name, without arguments.
fn is_named(of: &syn::Type, name: &str) -> bool {
    matches!(of, syn::Type::Path(it) if it.path.is_ident(name))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let is_cfg = it.path().is_ident("cfg");
        is_cfg
            && it
                .parse_args::<syn::Path>()
                .is_ok_and(|of| of.is_ident("test"))
    })
}

fn tokens_of(item: &Item) -> TokenStream {
    item.to_token_stream()
}

/// The lines with tokens. Documentation is an attribute to the compiler, but it is not code.
fn lines_of(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_doc = tokens.peek().is_some_and(is_documentation);
                if is_doc {
                    tokens.next();
                } else {
                    lines.insert(punct.span().start().line);
                }
            }
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines_of(group.stream(), lines);
                lines.insert(group.span_close().start().line);
            }
            token => {
                lines.extend(token.span().start().line..=token.span().end().line);
            }
        }
    }
}

fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

fn comments_of(text: &str) -> usize {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = before_tests.lines().map(str::trim_start);
    let plain = lines.filter(|line| line.starts_with("//"));
    plain
        .filter(|line| !line.starts_with("///") && !line.starts_with("//!"))
        .count()
}
