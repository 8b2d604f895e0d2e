//! The structure of the core, counted in its source: the size of its parts, the fields of its
//! machines, the files that use a machine as a whole, the places where phases change, the number of
//! bools, and the files that need each other in a circle. `scripts/rooms` prints the counts.

#![expect(clippy::expect_used, reason = "helpers of tests")]

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use syn::{Item, UseTree, Visibility};

use self::source::{MACHINES, Source, lines_of_tests, list, sources};

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
const MOST_CONSTANTS: usize = 60;

/// The most fields of the machines' rooms that may be bools. A value that matters in one state only
/// belongs into that state.
const MOST_BOOLS: usize = 28;

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
    for (name, fields) in machines(sources) {
        writeln!(text, "{name:<12} {fields:>6} fields").expect("room");
    }
    for machine in MACHINES {
        let files = sources.values();
        let count = files.filter(|it| it.of_machines.contains(machine)).count();
        writeln!(text, "{machine:<12} {count:>6} files with an impl of it").expect("room");
    }
    let bools = bools(sources);
    writeln!(
        text,
        "{:<12} {bools:>6} fields in the machine folder",
        "bools"
    )
    .expect("room");
    let constants = constants(sources);
    writeln!(
        text,
        "{:<12} {constants:>6} numbers in the machine folder",
        "constants"
    )
    .expect("room");
    for (room, code) in rooms(sources) {
        writeln!(text, "{room:<20} {code:>6} lines of code").expect("room");
    }
    let needs = needs(sources);
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
    let machines = machines(sources());
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
    let constants = constants(sources());
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
    for source in of_machine_folder(sources) {
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
    let bools = bools(sources());
    assert!(bools <= MOST_BOOLS, "{bools} fields are bools");
}

#[test]
fn no_files_need_each_other_in_a_circle() {
    let circles = circles(&needs(sources()));
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
