//! Files that import one another cannot be understood one at a time: some folders have none.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{code, is_test_file, sources};

/// Folders of `src` without a circle of files.
const WITHOUT: &[&str] = &["api", "cli", "config", "daemon"];

/// The names from the crate's root down to a module or an item.
type ModulePath = Vec<String>;

/// What a file brings in, and what it hands on.
#[derive(Default)]
struct Module {
    imports: Vec<ModulePath>,
    exports: Vec<ModulePath>,
}

/// The module of a file below `src`: `api/mod.rs` is `api`.
fn module_of(file: &str) -> ModulePath {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// The paths of a `use` tree: `a::{b, c::{d, e}}` has three.
fn paths_in(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap().trim().to_owned()];
    };
    let rest = rest.trim_end().trim_end_matches('}').to_owned()
        + &"}".repeat(rest.trim_end().len() - rest.trim_end().trim_end_matches('}').len() - 1);
    let (mut depth, mut part, mut found) = (0, String::new(), Vec::new());
    for sign in rest.chars().chain([',']) {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if sign == ',' && depth == 0 {
            let paths = paths_in(&part);
            found.extend(paths.into_iter().filter(|p| !p.is_empty()).map(|p| format!("{head}{p}")));
            part.clear();
        } else {
            part.push(sign);
        }
    }
    found
}

/// `path` as `module` means it, from the crate's root; `None` if it leads out of the crate.
fn absolute(
    module: &ModulePath,
    path: &str,
    modules: &BTreeMap<ModulePath, Module>,
) -> Option<ModulePath> {
    let mut names = path.split("::").map(str::trim).filter(|name| !name.is_empty()).peekable();
    let mut found = module.clone();
    match *names.peek()? {
        "crate" => {
            names.next();
            found.clear();
        }
        "self" => {
            names.next();
        }
        "super" => {
            while names.next_if_eq(&"super").is_some() {
                found.pop();
            }
        }
        child => {
            let child = [module.clone(), vec![child.to_owned()]].concat();
            modules.get(&child)?;
        }
    }
    found.extend(names.map(str::to_owned));
    Some(found)
}

/// The paths in the text outside of `use`: `crate::a::b(...)`, `super::c`.
fn paths_inline(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for mark in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(mark) {
            let is_apart = !text[..at]
                .ends_with(|sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':');
            let end =
                text[at..].find(|sign: char| !sign.is_alphanumeric() && sign != '_' && sign != ':');
            if is_apart {
                found.push(text[at..].split_at(end.unwrap_or(text.len() - at)).0.to_owned());
            }
        }
    }
    found
}

fn modules() -> BTreeMap<ModulePath, Module> {
    let files: Vec<(String, String)> = sources("src")
        .into_iter()
        .filter(|(file, _)| !is_test_file(file) && file != "src/main.rs")
        .map(|(file, text)| (file, code(&text).collect::<Vec<_>>().join("\n")))
        .collect();
    let mut modules: BTreeMap<ModulePath, Module> =
        files.iter().map(|(file, _)| (module_of(file), Module::default())).collect();
    for (file, text) in &files {
        let module = module_of(file);
        let (mut found, mut rest) = (Module::default(), String::new());
        for statement in text.split_inclusive(';') {
            let start = ["\nuse ", "\npub use ", "\npub(crate) use ", "\npub(super) use "];
            let at = start.iter().filter_map(|mark| Some((statement.rfind(mark)?, *mark))).max();
            let Some((at, mark)) = at else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..at]);
            let tree = statement[at + mark.len()..].trim_end_matches(';');
            let paths = paths_in(tree);
            let paths = paths.iter().filter_map(|path| absolute(&module, path, &modules));
            let list = if mark == "\nuse " { &mut found.imports } else { &mut found.exports };
            list.extend(paths);
        }
        let inline = paths_inline(&rest);
        found.imports.extend(inline.iter().filter_map(|path| absolute(&module, path, &modules)));
        modules.insert(module, found);
    }
    modules
}

/// The file that `path` leads to, through what files hand on.
fn file_of(
    path: &ModulePath,
    modules: &BTreeMap<ModulePath, Module>,
    depth: usize,
) -> Option<ModulePath> {
    for length in 1..=path.len() {
        let (owner, name) = (&path[..length - 1], &path[length - 1]);
        if modules.contains_key(&path[..length]) || depth > 8 {
            continue;
        }
        let exports = modules.get(owner).map_or(&[][..], |module| &module.exports);
        if let Some(export) = exports.iter().find(|export| export.last() == Some(name)) {
            let next = [export.clone(), path[length..].to_vec()].concat();
            return file_of(&next, modules, depth + 1);
        }
    }
    (0..=path.len())
        .rev()
        .map(|length| path[..length].to_vec())
        .find(|path| modules.contains_key(path))
}

/// All that can be reached from `start` by one step or more.
fn reached<'a>(
    start: &'a ModulePath,
    edges: &'a BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(module) = open.pop() {
        open.extend(edges[module].iter().filter(|next| found.insert(*next)));
    }
    found
}

#[test]
fn no_files_import_one_another() {
    let modules = modules();
    let mut circles = Vec::new();
    for room in WITHOUT {
        let is_here = |module: &&ModulePath| module.first().is_some_and(|first| first == room);
        let edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = modules
            .iter()
            .filter(|(module, _)| is_here(module))
            .map(|(module, found)| {
                let files = found.imports.iter().filter_map(|path| file_of(path, &modules, 0));
                let files = files.filter(|file| file != module && is_here(&file));
                (module.clone(), files.collect())
            })
            .collect();
        assert!(edges.values().any(|edges| !edges.is_empty()), "{room} has files");
        let in_circle = edges.keys().filter(|module| reached(module, &edges).contains(module));
        circles.extend(in_circle.map(|module| module.join("/")));
    }
    assert!(circles.is_empty(), "these import one another: {circles:#?}");
}
