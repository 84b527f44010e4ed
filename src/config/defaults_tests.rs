//! Compares `defaults.toml` with the code: it must have every key that the code knows, no other
//! key, and the default values of the code.

use models::ModelsConfig;
use toml::{Table, Value};

use super::{Config, DEFAULTS, load};

/// Names that other programs use for keys. They are accepted, so that configuration can be copied
/// from there.
const ALIASES: [&str; 1] = ["type"];

/// A name that no key has or resembles.
const UNKNOWN_KEY: &str = "zzzz";

/// Returns the defaults with their commented examples enabled.
fn with_examples() -> Table {
    let is_example =
        |line: &&str| line.strip_prefix('#').is_some_and(|rest| !rest.is_empty() && !rest.starts_with(' '));
    let lines = DEFAULTS.lines().map(|line| if is_example(&line) { &line[1..] } else { line });
    lines.collect::<Vec<_>>().join("\n").parse().unwrap()
}

fn checked(table: &Table) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, table.to_string()).unwrap();
    load(&file, [], &[]).map_err(|error| error.to_string())
}

/// Returns the names that the code knows in the table at this path, if it knows any.
fn known(root: &Table, path: &[Step]) -> Vec<String> {
    let mut root = Value::Table(root.clone());
    let table = path.iter().fold(&mut root, |value, step| match step {
        Step::Name(name) => &mut value[name.as_str()],
        Step::Number(number) => &mut value[*number],
    });
    let Some(table) = table.as_table_mut() else { return Vec::new() };
    table.insert(UNKNOWN_KEY.to_owned(), Value::Integer(1));
    let Err(complaint) = checked(root.as_table().unwrap()) else { return Vec::new() };
    match complaint.split_once("unknown key") {
        Some((_, expected)) => expected.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        None => Vec::new(),
    }
}

/// Returns the names in a table, and in its siblings if users choose the names of these tables.
fn named(root: &Table, path: &[Step], table: &Table) -> Vec<String> {
    let own = table.keys().cloned();
    let Some((_, above)) = path.split_last().filter(|(_, above)| !above.is_empty() && known(root, above).is_empty())
    else {
        return own.collect();
    };
    let mut found = Vec::new();
    tables(&Value::Table(root.clone()), &[], &mut found);
    let siblings = found.into_iter().filter(|(path, _)| path.split_last().is_some_and(|(_, place)| place == above));
    own.chain(siblings.flat_map(|(_, table)| table.into_iter().map(|(name, _)| name))).collect()
}

#[derive(Clone, PartialEq)]
enum Step {
    Name(String),
    Number(usize),
}

/// Collects every table with its path.
fn tables(value: &Value, path: &[Step], found: &mut Vec<(Vec<Step>, Table)>) {
    let below = |step| path.iter().cloned().chain([step]).collect::<Vec<_>>();
    match value {
        Value::Table(table) => {
            found.push((path.to_vec(), table.clone()));
            table.iter().for_each(|(name, value)| tables(value, &below(Step::Name(name.clone())), found));
        }
        Value::Array(members) => {
            members.iter().enumerate().for_each(|(number, value)| tables(value, &below(Step::Number(number)), found));
        }
        _ => {}
    }
}

#[test]
fn every_known_key_is_in_the_defaults_file() {
    let root = with_examples();
    checked(&root).unwrap();
    let mut found = Vec::new();
    tables(&Value::Table(root.clone()), &[], &mut found);
    let mut missing = Vec::new();
    for (path, table) in found {
        let place: Vec<String> = path
            .iter()
            .filter_map(|step| match step {
                Step::Name(name) => Some(name.clone()),
                Step::Number(_) => None,
            })
            .collect();
        let named = named(&root, &path, &table);
        let unnamed =
            known(&root, &path).into_iter().filter(|name| !named.contains(name) && !ALIASES.contains(&name.as_str()));
        missing.extend(unnamed.map(|name| format!("{}.{name}", place.join("."))));
    }
    assert_eq!(missing, Vec::<String>::new(), "describe these in src/defaults.toml");
}

#[test]
fn the_defaults_are_those_of_the_code() {
    let config = load(std::path::Path::new("/nowhere/config.toml"), [], &[]).unwrap();
    assert_eq!(config.models, ModelsConfig::default());
}

#[test]
fn known_language_servers_and_the_limit_of_sub_agents_are_configured() {
    let config = load(std::path::Path::new("/nowhere/config.toml"), [], &[]).unwrap();
    let described = config.diagnostics.servers.iter().map(|(name, server)| {
        let extensions: Vec<_> = server.files.keys().map(String::as_str).collect();
        format!("{name}: {} {}({})", server.command, server.args.join(" "), extensions.join(" "))
    });
    expect_test::expect![[r"
        clangd: clangd (c cc cpp cxx h hh hpp)
        gopls: gopls (go)
        pyright: pyright-langserver --stdio(py pyi)
        rust-analyzer: rust-analyzer (rs)
        typescript: typescript-language-server --stdio(cjs cts js jsx mjs mts ts tsx)"]]
    .assert_eq(&described.collect::<Vec<_>>().join("\n"));
    assert!(config.diagnostics.servers.values().all(|server| server.enabled));
    assert_eq!(config.tools.agents_at_once, 4);
}

#[test]
fn every_key_is_described() {
    // A key stands below its comment, or below another key with the same comment.
    let mut described = false;
    for (line, number) in DEFAULTS.lines().zip(1..) {
        if line.starts_with("# ") {
            described = true;
        } else if line.trim().is_empty() {
            described = false;
        } else if !line.starts_with('[') && !line.starts_with('#') {
            assert!(described || line.starts_with(' '), "src/defaults.toml:{number}: say what `{line}` is for");
        }
    }
}
