//! The structure of the core, counted in its source: the size of its parts, the fields of its
//! machines, the files that use a machine as a whole, the places where phases change, the number of
//! bools, and the files that need each other in a circle. `scripts/rooms` prints the counts.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

const MACHINES: [&str; 3] = ["Participant", "Candidate", "Follow"];

/// A machine's state is the combination of its fields. A reader need not keep more than this many
/// in mind.
const MOST_FIELDS: usize = 10;

/// The files that may use a machine as a whole. Before adding one, move state into a room, or ask a
/// function of the rooms.
const OF_WHOLE_MACHINES: [&str; 12] = [
    "machine::election",
    "machine::election::terms",
    "machine::follow",
    "machine::semaphore",
    "machine::semaphore::answers",
    "machine::semaphore::contract",
    "machine::semaphore::learn",
    "machine::semaphore::ours",
    "machine::semaphore::outcome",
    "machine::semaphore::send",
    "machine::semaphore::sessions",
    "machine::semaphore::turns",
];

/// The files where phases are changed and drawn. A phase's state is private there, so no other file
/// may assign it.
const PHASES: [&str; 1] = ["machine::election::candidacy::phase"];

/// The most constants of the machines' rooms that may be numbers or lengths of time. Each is something
/// to tune, and somebody has to know why it is what it is.
const MOST_CONSTANTS: usize = 69;

/// The most fields of the machines' rooms that may be bools. A value that matters in one state only
/// belongs into that state.
const MOST_BOOLS: usize = 28;

const NUMBERS: [&str; 6] = ["u16", "u32", "u64", "usize", "f64", "Duration"];

/// One file of the core, without its tests.
struct Source {
    /// The module path, as in `machine::ledger`.
    module: Vec<String>,
    /// Lines of code, without comments, documentation and blank lines.
    code: usize,
    /// Lines of comments, without documentation.
    comments: usize,
    /// The fields of each struct.
    fields: BTreeMap<String, usize>,
    /// How many of all fields are bools.
    bools: usize,
    /// How many constants are numbers or lengths of time.
    constants: usize,
    /// The machines that it uses as a whole.
    of_machines: BTreeSet<String>,
    /// How often it assigns to a field `phase`.
    phases_assigned: usize,
    /// The paths that it names, from the crate's root.
    named: BTreeSet<Vec<String>>,
    /// The names that it re-exports, and where their items are.
    shown: BTreeMap<String, Vec<String>>,
}

/// All files by module.
fn sources() -> BTreeMap<Vec<String>, Source> {
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

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
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
fn lines_of_tests() -> usize {
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

/// The file that this path leads to, through all re-exports.
fn file_of<'s>(sources: &'s BTreeMap<Vec<String>, Source>, path: &[String]) -> Option<&'s Source> {
    let mut path = path.to_vec();
    'again: loop {
        let deepest = (0..=path.len())
            .rev()
            .find(|length| sources.contains_key(&path[..*length]))?;
        let source = &sources[&path[..deepest]];
        if let Some(name) = path.get(deepest)
            && let Some(shown) = source.shown.get(name)
            // A macro is shown by the file that has it.
            && *shown != path[..=deepest]
        {
            path = [shown, &path[deepest + 1..]].concat();
            continue 'again;
        }
        return Some(source);
    }
}

/// The files that each file needs.
fn needs(sources: &BTreeMap<Vec<String>, Source>) -> BTreeMap<&[String], BTreeSet<&[String]>> {
    let needs_of = |source: &Source| {
        let files = source
            .named
            .iter()
            .filter_map(|path| file_of(sources, path));
        let others = files.filter(|it| it.module != source.module && !it.module.is_empty());
        others.map(|it| it.module.as_slice()).collect()
    };
    sources
        .iter()
        .map(|(module, source)| (module.as_slice(), needs_of(source)))
        .collect()
}

/// Sets of files that all need each other, directly or through others.
fn circles(needs: &BTreeMap<&[String], BTreeSet<&[String]>>) -> Vec<Vec<String>> {
    let reach = |from: &[String]| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from.to_vec()];
        while let Some(module) = open.pop() {
            for next in needs.get(module.as_slice()).into_iter().flatten() {
                if reached.insert(next.to_vec()) {
                    open.push(next.to_vec());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<_, _> = needs
        .keys()
        .map(|module| (module.to_vec(), reach(module)))
        .collect();
    let mut circles = BTreeSet::new();
    for (module, all) in &reached {
        let mutual = all.iter().filter(|other| reached[*other].contains(module));
        let circle: BTreeSet<_> = mutual.map(|it| it.join("::")).collect();
        if circle.len() > 1 {
            circles.insert(circle.into_iter().collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
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

/// The counts in a readable form.
fn report() -> String {
    let sources = sources();
    let mut text = String::new();
    for (name, part) in [
        ("core", None),
        ("machine", Some("machine")),
        ("handle", Some("handle")),
    ] {
        let of = |source: &&Source| {
            part.is_none_or(|part| source.module.first().is_some_and(|it| it == part))
        };
        let files: Vec<_> = sources.values().filter(of).collect();
        let code: usize = files.iter().map(|it| it.code).sum();
        let comments: usize = files.iter().map(|it| it.comments).sum();
        writeln!(
            text,
            "{name:<12} {code:>6} lines of code in {} files, {comments} of comments",
            files.len()
        )
        .expect("room");
    }
    writeln!(
        text,
        "{:<12} {:>6} lines of code",
        "tests",
        lines_of_tests()
    )
    .expect("room");
    for (name, fields) in machines(&sources) {
        writeln!(text, "{name:<12} {fields:>6} fields").expect("room");
    }
    for machine in MACHINES {
        let files = sources.values();
        let count = files.filter(|it| it.of_machines.contains(machine)).count();
        writeln!(text, "{machine:<12} {count:>6} files with an impl of it").expect("room");
    }
    let bools = bools(&sources);
    writeln!(
        text,
        "{:<12} {bools:>6} fields in the machine folder",
        "bools"
    )
    .expect("room");
    let constants = constants(&sources);
    writeln!(
        text,
        "{:<12} {constants:>6} numbers in the machine folder",
        "constants"
    )
    .expect("room");
    for (room, code) in rooms(&sources) {
        writeln!(text, "{room:<20} {code:>6} lines of code").expect("room");
    }
    let needs = needs(&sources);
    let circles = circles(&needs);
    writeln!(text, "{:<12} {:>6}", "circles", circles.len()).expect("room");
    for circle in circles {
        for module in &circle {
            let path: Vec<_> = module.split("::").map(str::to_owned).collect();
            let others = needs[path.as_slice()].iter().map(|it| it.join("::"));
            let others: Vec<_> = others.filter(|it| circle.contains(it)).collect();
            writeln!(text, "    {module} needs {}", others.join(", ")).expect("room");
        }
    }
    text
}

fn machines(sources: &BTreeMap<Vec<String>, Source>) -> BTreeMap<&'static str, usize> {
    let fields_of = |name| {
        sources
            .values()
            .find_map(|source| source.fields.get(name).copied())
    };
    MACHINES
        .into_iter()
        .filter_map(|name| Some((name, fields_of(name)?)))
        .collect()
}

#[test]
fn no_machine_has_more_fields_than_a_reader_keeps_in_mind() {
    println!("{}", report());
    let machines = machines(&sources());
    assert_eq!(machines.len(), MACHINES.len(), "a machine is not found");
    for (name, fields) in machines {
        assert!(fields <= MOST_FIELDS, "{name} has {fields} fields");
    }
}

fn of_machine_folder(sources: &BTreeMap<Vec<String>, Source>) -> impl Iterator<Item = &Source> {
    let sources = sources.values();
    sources.filter(|it| it.module.first().is_some_and(|it| it == "machine"))
}

/// The folders of the machine, and their parts.
fn rooms(sources: &BTreeMap<Vec<String>, Source>) -> BTreeMap<String, usize> {
    let mut rooms = BTreeMap::new();
    for source in of_machine_folder(sources) {
        let depth = match source.module.get(1).map(String::as_str) {
            Some("semaphore" | "process") => 3,
            _ => 2,
        };
        let room = source.module.get(1..depth.min(source.module.len()));
        let room = room.unwrap_or_default().join("::");
        *rooms.entry(room).or_default() += source.code;
    }
    rooms
}

fn constants(sources: &BTreeMap<Vec<String>, Source>) -> usize {
    of_machine_folder(sources).map(|it| it.constants).sum()
}

#[test]
fn no_more_numbers_to_tune_are_kept_than_are_now() {
    let constants = constants(&sources());
    assert!(constants <= MOST_CONSTANTS, "{constants} numbers");
}

fn bools(sources: &BTreeMap<Vec<String>, Source>) -> usize {
    of_machine_folder(sources).map(|it| it.bools).sum()
}

#[test]
fn what_a_machine_does_as_a_whole_stands_in_few_files() {
    let sources = sources();
    let files = sources
        .values()
        .filter(|source| !source.of_machines.is_empty());
    let files: Vec<_> = files.map(|source| source.module.join("::")).collect();
    assert_eq!(files, OF_WHOLE_MACHINES);
}

#[test]
fn a_phase_is_changed_in_the_one_file_that_draws_it() {
    let sources = sources();
    for file in PHASES {
        let module: Vec<_> = file.split("::").map(str::to_owned).collect();
        assert!(sources.contains_key(&module), "{file}");
    }
    for source in of_machine_folder(&sources) {
        let module = source.module.join("::");
        assert_eq!(source.phases_assigned, 0, "{module} replaces a phase");
    }
}

/// Otherwise a rule is read together with its slips. Each machine may have its place. What machines share is
/// excepted.
#[test]
fn each_defect_is_asked_for_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    list(&root, &mut files);
    let shared = root.join("machine/process");
    let mut asked = BTreeMap::<String, Vec<String>>::new();
    for file in files.iter().filter(|it| !it.starts_with(&shared)) {
        let text = fs::read_to_string(file).expect("a source");
        for defect in text.split("is_on(Defect::").skip(1) {
            let name = defect.split(')').next().unwrap_or_default();
            let within = file.strip_prefix(&root).expect("below the root");
            let folder: Vec<_> = within.iter().take(2).collect();
            let files = asked.entry(format!("{name} in {folder:?}")).or_default();
            files.push(file.display().to_string());
        }
    }
    assert!(asked.len() > 20, "{}", asked.len());
    asked.retain(|_, files| files.len() > 1);
    assert_eq!(asked, BTreeMap::new());
}

#[test]
fn no_more_bools_are_kept_than_are_now() {
    let bools = bools(&sources());
    assert!(bools <= MOST_BOOLS, "{bools} fields are bools");
}

#[test]
fn no_files_need_each_other_in_a_circle() {
    let circles = circles(&needs(&sources()));
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn a_circle_is_seen() {
    let path = |name: &str| vec![name.to_owned()];
    let needs = BTreeMap::from([
        (path("a"), BTreeSet::from([path("b")])),
        (path("b"), BTreeSet::from([path("c")])),
        (path("c"), BTreeSet::from([path("b")])),
    ]);
    let needs = needs.iter().map(|(module, others)| {
        let others = others.iter().map(Vec::as_slice).collect();
        (module.as_slice(), others)
    });
    assert_eq!(circles(&needs.collect()), [["b", "c"]]);
}

/// The names that a crate re-exports at its root by `pub use`, in order.
fn shown_at_the_root(source: &str) -> BTreeSet<String> {
    let file = syn::parse_file(source).expect("Rust");
    let mut names = BTreeSet::new();
    for item in file.items {
        if let Item::Use(it) = item
            && matches!(it.vis, Visibility::Public(_))
        {
            leaves(&it.tree, &mut names);
        }
    }
    names
}

fn leaves(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(it) => leaves(&it.tree, names),
        UseTree::Name(it) => drop(names.insert(it.ident.to_string())),
        UseTree::Rename(it) => drop(names.insert(it.rename.to_string())),
        UseTree::Glob(_) => drop(names.insert("*".to_owned())),
        UseTree::Group(it) => it.items.iter().for_each(|it| leaves(it, names)),
    }
}

#[test]
fn the_root_shows_thirty_types_at_most_and_the_adapters_show_them_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    let shown = shown_at_the_root(&read("src/lib.rs"));
    let types: BTreeSet<_> = shown
        .into_iter()
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect();
    assert!(types.len() <= 30, "{} types: {types:?}", types.len());
    for adapter in ["transport-reqwest", "transport-ureq"] {
        let shown = shown_at_the_root(&read(&format!("../{adapter}/src/lib.rs")));
        let missing: Vec<_> = types.difference(&shown).collect();
        assert!(missing.is_empty(), "{adapter} does not show {missing:?}");
        assert!(!shown.contains("*"), "{adapter}");
    }
}
